/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: their file of memory, attributes, identity; and the calls that need no context.
 */
#include "sim.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Offsets are handed out once, so the file is as long as a file can be; it is sparse. */
#define FILE_BYTES (INT64_C(1) << 62)

struct sim_device *sim_device(CUdevice ordinal)
{
    return ordinal >= 0 && ordinal < sim.device_count ? &sim.devices[ordinal] : NULL;
}

/* A new file for a device's memory; negative if the kernel refuses. */
int sim_device_file(void)
{
    int file = memfd_create("simcuda", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, FILE_BYTES) != 0) {
        close(file);
        return -1;
    }
    return file;
}

int sim_device_open(struct sim_device *device, int ordinal)
{
    memset(device, 0, sizeof(*device));
    device->ordinal = ordinal;
    device->capacity_bytes = sim.settings.memory_bytes;
    if (sim.has_view) {
        if (!sim_view_open(device))
            return 0;
    } else if ((device->file = sim_device_file()) < 0) {
        sim_note("no memory file for device %d: the kernel refuses memfd_create or its size",
                 ordinal);
        return 0;
    }
    device->primary.device = device;
    device->primary.is_primary = 1;
    return sim_pool_open(device);
}

void sim_device_close(struct sim_device *device)
{
    if (device->view != NULL)
        sim_view_close(device);
    else
        close(device->file);
    memset(device, 0, sizeof(*device));
}

/* ---- without a device ----------------------------------------------------------------------- */

CUresult CUDAAPI cuInit(unsigned int Flags)
{
    SIM_ENTER(cuInit, SIM_NEEDS_NOTHING);
    return sim_leave(Flags != 0 ? CUDA_ERROR_INVALID_VALUE : sim_start());
}

CUresult CUDAAPI cuDriverGetVersion(int *driverVersion)
{
    SIM_ENTER(cuDriverGetVersion, SIM_NEEDS_NOTHING);
    if (driverVersion == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *driverVersion = (int)sim.settings.version;
    return sim_leave(CUDA_SUCCESS);
}

/* ---- identity ------------------------------------------------------------------------------- */

CUresult CUDAAPI cuDeviceGetCount(int *count)
{
    SIM_ENTER(cuDeviceGetCount, SIM_NEEDS_INIT);
    if (count == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *count = sim.device_count;
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal)
{
    SIM_ENTER(cuDeviceGet, SIM_NEEDS_INIT);
    if (device == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (sim_device(ordinal) == NULL)
        return sim_leave(CUDA_ERROR_INVALID_DEVICE);
    *device = ordinal;
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDeviceGetName(char *name, int len, CUdevice dev)
{
    SIM_ENTER(cuDeviceGetName, SIM_NEEDS_INIT);
    if (name == NULL || len <= 0)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (sim_device(dev) == NULL)
        return sim_leave(CUDA_ERROR_INVALID_DEVICE);
    snprintf(name, (size_t)len, "Tenure simulated device");
    return sim_leave(CUDA_SUCCESS);
}

static CUresult device_uuid(CUuuid *uuid, CUdevice dev)
{
    if (uuid == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_device(dev) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    memset(uuid, 0, sizeof(*uuid));
    memcpy(uuid->bytes, "simcuda", 7);
    uuid->bytes[15] = (char)dev;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
    SIM_ENTER(cuDeviceGetUuid, SIM_NEEDS_INIT);
    return sim_leave(device_uuid(uuid, dev));
}

CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    SIM_ENTER(cuDeviceGetUuid_v2, SIM_NEEDS_INIT);
    return sim_leave(device_uuid(uuid, dev));
}

CUresult CUDAAPI cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    SIM_ENTER(cuDeviceTotalMem_v2, SIM_NEEDS_INIT);
    const struct sim_device *device = sim_device(dev);
    if (bytes == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (device == NULL)
        return sim_leave(CUDA_ERROR_INVALID_DEVICE);
    *bytes = device->capacity_bytes;
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
    SIM_ENTER(cuDeviceCanAccessPeer, SIM_NEEDS_INIT);
    if (canAccessPeer == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (sim_device(dev) == NULL || sim_device(peerDev) == NULL)
        return sim_leave(CUDA_ERROR_INVALID_DEVICE);
    *canAccessPeer = sim.settings.peers && dev != peerDev;
    return sim_leave(CUDA_SUCCESS);
}

/* ---- attributes ----------------------------------------------------------------------------- */

struct attribute {
    CUdevice_attribute attribute;
    int value;
};

/* An H200's answers (driver 580.159; tests/gpu/attributes.sh asks one) for what the simulation
 * models; attributes not listed are 0. */
static const struct attribute attributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 6016},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 62914560},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 3201000},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
    {CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, 39321600},
    {CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, 134217728},
    {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 65536},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS, 2048},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS, 2048},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, 268435456},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, 65000},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH, 2097120},
};

CUresult CUDAAPI cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    SIM_ENTER(cuDeviceGetAttribute, SIM_NEEDS_INIT);
    if (pi == NULL || attrib <= 0 || attrib >= CU_DEVICE_ATTRIBUTE_MAX)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (sim_device(dev) == NULL)
        return sim_leave(CUDA_ERROR_INVALID_DEVICE);
    *pi = 0;
    for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
        if (attributes[i].attribute == attrib)
            *pi = attributes[i].value;
    if (attrib == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ||
        attrib == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)
        *pi = sim.settings.vmm;
    if (attrib == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)
        *pi = sim.settings.vmm && sim.settings.rdma;
    if (attrib == CU_DEVICE_ATTRIBUTE_INTEGRATED)
        *pi = sim.settings.meminfo[0] != '\0';
    if (attrib == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
        *pi = dev + 1;
    return sim_leave(CUDA_SUCCESS);
}

/* ---- memory information --------------------------------------------------------------------- */

CUresult CUDAAPI cuMemGetInfo_v2(size_t *free, size_t *total)
{
    SIM_ENTER(cuMemGetInfo_v2, SIM_NEEDS_CONTEXT);
    const struct sim_device *device = sim_current()->device;
    if (free == NULL || total == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *free = sim_memory_left(device);
    if (sim.settings.meminfo[0] != '\0')
        *free /= 2; /* the other half has contents of files, which the kernel would give up */
    *total = device->capacity_bytes;
    return sim_leave(CUDA_SUCCESS);
}
