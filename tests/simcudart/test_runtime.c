/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated runtime by its calls: errors, devices, memory, streams, events, graphs. Kernels and
 * variables are in test_code.c.
 *
 * Each was taken back once: with a success that ends an error, cudaMalloc(0) handed to the driver,
 * sets of rows in one piece, a stream's callback at the call, a pool's peak set to any number,
 * bytes of which nothing was said left out of an answer, one of the two splits of a span left out,
 * memory of a managed pool that stays managed, boxes of arrays in bytes, rows beyond an array's
 * last, and textures kept after their array, the test of that subject failed.
 */
#include "program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tenure/simcuda.h"

#define OK(call) assert_int_equal(call, cudaSuccess)

static int reset(void **state)
{
    (void)state;
    OK(cudaDeviceReset());
    assert_int_equal(simcuda_violations(), 0);
    return 0;
}

/* ---- errors --------------------------------------------------------------------------------- */

static void test_errors(void **state)
{
    (void)state;
    void *block = NULL;
    assert_string_equal(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
    assert_string_equal(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    assert_string_equal(cudaGetErrorString(cudaSuccess), "no error");
    assert_string_equal(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument");
    assert_string_equal(cudaGetErrorString(cudaErrorInvalidTexture), "invalid texture");
    assert_string_equal(cudaGetErrorString(cudaErrorECCUncorrectable), "ECC uncorrectable");
    assert_string_equal(cudaGetErrorString(cudaErrorInvalidPtx), "invalid ptx");
    assert_string_equal(cudaGetErrorString(cudaErrorArrayIsMapped), "array is mapped");
    assert_string_equal(cudaGetErrorString((cudaError_t)5000), "unrecognized error code");
    assert_int_equal(cudaMalloc(&block, (size_t)1 << 60), cudaErrorMemoryAllocation);
    assert_null(block);
    OK(cudaMalloc(&block, 256)); /* a success does not end an error */
    assert_int_equal(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    OK(cudaGetLastError());
    OK(cudaFree(block));
    assert_int_equal(cudaFree(block), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    assert_int_equal(cudaEventQuery(NULL), cudaErrorInvalidResourceHandle);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}

/* What the device has not fails with one code, and leaves nothing behind. */
static void test_unserved(void **state)
{
    (void)state;
    cudaMipmappedArray_t array = NULL;
    struct cudaChannelFormatDesc format =
        cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    assert_int_equal(
        cudaMallocMipmappedArray(&array, &format, (struct cudaExtent){16, 16, 0}, 2, 0),
        cudaErrorNotSupported);
    assert_null(array);
    assert_int_equal(cudaGetLastError(), cudaErrorNotSupported);
}

/* ---- devices -------------------------------------------------------------------------------- */

static void test_devices(void **state)
{
    (void)state;
    struct cudaDeviceProp prop;
    int count = 0, device = -1, value = 0;
    char bus[16];
    size_t bytes = 0;
    OK(cudaGetDeviceCount(&count));
    assert_int_equal(count, 2);
    assert_int_equal(cudaSetDevice(2), cudaErrorInvalidDevice);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
    OK(cudaGetDevice(&device));
    assert_int_equal(device, 0);
    OK(cudaSetDevice(1));
    OK(cudaGetDevice(&device));
    assert_int_equal(device, 1);
    OK(cudaDeviceGetPCIBusId(bus, sizeof(bus), 1));
    OK(cudaDeviceGetByPCIBusId(&device, bus));
    assert_int_equal(device, 1);
    OK(cudaGetDeviceProperties(&prop, 1));
    assert_int_equal(prop.major, 9);
    assert_int_equal(prop.maxThreadsDim[2], 64);
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxThreadsPerMultiProcessor, 1));
    assert_int_equal(value, prop.maxThreadsPerMultiProcessor);
    assert_int_equal(prop.memoryBusWidth, 6016); /* as an H200 says */
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxTexture2DLinearHeight, 1));
    assert_int_equal(value, 65000);
    assert_int_equal(prop.maxTexture2DLinear[1], value);
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrManagedMemory, 1));
    assert_int_equal(value, 1);
    OK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
    OK(cudaDeviceGetLimit(&bytes, cudaLimitStackSize));
    assert_int_equal(bytes, 4096);
    OK(cudaSetDevice(0));
    OK(cudaDeviceGetLimit(&bytes, cudaLimitStackSize));
    assert_int_equal(bytes, 1024);
}

static void test_peers(void **state)
{
    (void)state;
    int can = 0;
    char *here = NULL, *there = NULL, answer[64];
    OK(cudaDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 1);
    OK(cudaDeviceEnablePeerAccess(1, 0));
    assert_int_equal(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
    (void)cudaGetLastError();
    OK(cudaMalloc((void **)&here, 64));
    OK(cudaSetDevice(1));
    OK(cudaMalloc((void **)&there, 64));
    OK(cudaMemset(there, 5, 64));
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpyPeer(here, 0, there, 1, 64));
    OK(cudaFree(there));
    OK(cudaSetDevice(0));
    OK(cudaMemcpy(answer, here, 64, cudaMemcpyDeviceToHost));
    assert_int_equal(answer[63], 5);
    OK(cudaFree(here));
    OK(cudaDeviceDisablePeerAccess(1));
}

/* After a reset everything begins again, and an earlier block is none. */
static void test_reset(void **state)
{
    (void)state;
    void *block = NULL;
    size_t free_before = 0, free_after = 0, total = 0;
    OK(cudaMemGetInfo(&free_before, &total));
    OK(cudaMalloc(&block, 1 << 20));
    OK(cudaDeviceReset());
    OK(cudaMemGetInfo(&free_after, &total));
    assert_int_equal(free_before, free_after);
    assert_int_equal(cudaFree(block), cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

/* ---- memory --------------------------------------------------------------------------------- */

static void test_bytes(void **state)
{
    (void)state;
    unsigned char *block = NULL, *other = NULL, *pinned = NULL, host[256];
    OK(cudaMalloc((void **)&block, 0));
    assert_null(block);
    OK(cudaFree(NULL));
    OK(cudaFreeHost(NULL));
    OK(cudaMalloc((void **)&block, 256));
    OK(cudaMalloc((void **)&other, 256));
    OK(cudaMallocHost((void **)&pinned, 256));
    for (int i = 0; i < 256; i++)
        host[i] = (unsigned char)i;
    OK(cudaMemcpy(block, host, 256, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(other, block, 256, cudaMemcpyDefault));
    OK(cudaMemset(other, 9, 16));
    OK(cudaMemcpyAsync(pinned, other, 256, cudaMemcpyDeviceToHost, NULL));
    OK(cudaDeviceSynchronize());
    assert_int_equal(pinned[15], 9);
    assert_memory_equal(pinned + 16, host + 16, 240);
    OK(cudaMemcpy(host, host + 128, 64, cudaMemcpyHostToHost));
    assert_int_equal(host[0], 128);
    assert_int_equal(cudaMemcpy(block, host, 16, (enum cudaMemcpyKind)9),
                     cudaErrorInvalidMemcpyDirection);
    assert_int_equal(cudaMemcpy(host, host + 64, 16, cudaMemcpyHostToDevice),
                     cudaErrorInvalidValue);
    OK(cudaMemcpy(NULL, NULL, 0, cudaMemcpyHostToDevice));
    (void)cudaGetLastError();
    OK(cudaFree(block));
    OK(cudaFree(other));
    OK(cudaFreeHost(pinned));
}

/* Rows have gaps, which stay as they are. */
static void test_rows(void **state)
{
    (void)state;
    unsigned char *block = NULL, host[4][8], answer[4][16];
    size_t pitch = 0;
    OK(cudaMallocPitch((void **)&block, &pitch, 100, 4));
    assert_int_equal(pitch % 512, 0);
    OK(cudaMemset(block, 1, pitch * 4));
    OK(cudaMemset2D(block, pitch, 2, 16, 3));
    memset(host, 3, sizeof(host));
    OK(cudaMemcpy2D(block, pitch, host, 8, 8, 4, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2D(answer, 16, block, pitch, 16, 4, cudaMemcpyDeviceToHost));
    for (int y = 0; y < 4; y++) {
        assert_int_equal(answer[y][7], 3);
        assert_int_equal(answer[y][8], y < 3 ? 2 : 1);
    }
    OK(cudaMemcpy(answer, block + 100, 1, cudaMemcpyDeviceToHost));
    assert_int_equal(answer[0][0], 1);
    assert_int_equal(cudaMemcpy2D(block, 8, host, 8, 9, 1, cudaMemcpyHostToDevice),
                     cudaErrorInvalidPitchValue);
    (void)cudaGetLastError();
    OK(cudaFree(block));
}

static void test_boxes(void **state)
{
    (void)state;
    struct cudaExtent extent = {16, 4, 2};
    struct cudaPitchedPtr box;
    unsigned char host[2][4][16], answer[2][4][16];
    OK(cudaMalloc3D(&box, extent));
    OK(cudaMemset3D(box, 4, extent));
    memset(host, 6, sizeof(host));
    struct cudaMemcpy3DParms copy = {.srcPtr = {host, 16, 16, 4},
                                     .dstPtr = box,
                                     .dstPos = {8, 1, 1},
                                     .extent = {8, 2, 1},
                                     .kind = cudaMemcpyHostToDevice};
    OK(cudaMemcpy3D(&copy));
    copy = (struct cudaMemcpy3DParms){.srcPtr = box,
                                      .dstPtr = {answer, 16, 16, 4},
                                      .extent = extent,
                                      .kind = cudaMemcpyDeviceToHost};
    OK(cudaMemcpy3D(&copy));
    for (int z = 0; z < 2; z++)
        for (int y = 0; y < 4; y++)
            for (int x = 0; x < 16; x++)
                assert_int_equal(answer[z][y][x], z == 1 && (y == 1 || y == 2) && x >= 8 ? 6 : 4);
    OK(cudaFree(box.ptr));
}

static void test_pointers(void **state)
{
    (void)state;
    struct cudaPointerAttributes what;
    char *block = NULL, *pinned = NULL, *managed = NULL, own[64];
    OK(cudaMalloc((void **)&block, 64));
    OK(cudaHostAlloc((void **)&pinned, 64, cudaHostAllocMapped));
    OK(cudaMallocManaged((void **)&managed, 64, cudaMemAttachGlobal));
    OK(cudaPointerGetAttributes(&what, block + 8));
    assert_int_equal(what.type, cudaMemoryTypeDevice);
    assert_ptr_equal(what.devicePointer, block + 8);
    OK(cudaPointerGetAttributes(&what, pinned));
    assert_int_equal(what.type, cudaMemoryTypeHost);
    assert_ptr_equal(what.hostPointer, pinned);
    OK(cudaPointerGetAttributes(&what, own));
    assert_int_equal(what.type, cudaMemoryTypeUnregistered);
    OK(cudaPointerGetAttributes(&what, managed + 63));
    assert_int_equal(what.type, cudaMemoryTypeManaged);
    OK(cudaMemset(managed, 7, 64));
    OK(cudaDeviceSynchronize());
    assert_int_equal(managed[63], 7); /* the host reads it as it is */
    const struct cudaMemLocation here = {.type = cudaMemLocationTypeDevice, .id = 0};
    OK(cudaMemPrefetchAsync(managed, 64, here, 0, NULL));
    assert_int_equal(cudaMemPrefetchAsync(block, 64, here, 0, NULL), cudaErrorInvalidValue);
    (void)cudaGetLastError();
    OK(cudaFree(managed));
    OK(cudaFree(block));
    OK(cudaFreeHost(pinned));
    assert_int_equal(cudaMallocManaged((void **)&managed, 64, 9), cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

/* ---- arrays --------------------------------------------------------------------------------- */

static const struct cudaChannelFormatDesc two_floats = {32, 32, 0, 0, cudaChannelFormatKindFloat};

static void test_array(void **state)
{
    (void)state;
    enum { WIDTH = 10, ROW = WIDTH * 8, ROWS = 4 };
    unsigned char host[ROWS][ROW], answer[ROWS][ROW];
    cudaArray_t array = NULL, other = NULL;
    struct cudaChannelFormatDesc format;
    struct cudaExtent extent;
    unsigned flags = 0;
    OK(cudaMallocArray(&array, &two_floats, WIDTH, ROWS, cudaArraySurfaceLoadStore));
    OK(cudaMallocArray(&other, &two_floats, WIDTH, ROWS, 0));
    OK(cudaArrayGetInfo(&format, &extent, &flags, array));
    assert_int_equal(format.y, 32);
    assert_int_equal(extent.height, ROWS);
    assert_int_equal(flags, cudaArraySurfaceLoadStore);
    for (int i = 0; i < ROWS * ROW; i++)
        host[i / ROW][i % ROW] = (unsigned char)i;
    OK(cudaMemcpy2DToArray(array, 0, 0, host, ROW, ROW, ROWS, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2DArrayToArray(other, 0, 0, array, 0, 0, ROW, ROWS, cudaMemcpyDeviceToDevice));
    memset(answer, 0, sizeof(answer));
    OK(cudaMemcpy2DFromArray(answer, ROW, other, 8, 1, ROW - 8, 3, cudaMemcpyDeviceToHost));
    assert_memory_equal(answer[2], host[3] + 8, ROW - 8);
    assert_int_equal(cudaMemcpy2DToArray(array, 8, 0, host, ROW, ROW, ROWS, cudaMemcpyHostToDevice),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy2DToArray(array, 0, 1, host, ROW, ROW, ROWS, cudaMemcpyHostToDevice),
                     cudaErrorInvalidValue);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    assert_int_equal(cudaMemcpyToArray(array, 8, ROWS, host, 16, cudaMemcpyHostToDevice),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpyToArray(array, 8, ROWS - 1, host, ROW, cudaMemcpyHostToDevice),
                     cudaErrorInvalidValue);
#pragma GCC diagnostic pop
    const struct cudaMemcpy3DParms box = {.srcArray = array,
                                          .srcPos = {1, 2, 0},
                                          .dstPtr = {answer, ROW, ROW, ROWS},
                                          .extent = {3, 2, 1},
                                          .kind = cudaMemcpyDeviceToHost};
    OK(cudaMemcpy3D(&box));
    assert_memory_equal(answer[1], host[3] + 8, 24);
    struct cudaMemcpy3DParms beyond = box;
    beyond.extent.width = 10;
    assert_int_equal(cudaMemcpy3D(&beyond), cudaErrorInvalidValue);
    OK(cudaFreeArray(array));
    OK(cudaFreeArray(other));
    assert_int_equal(cudaFreeArray(array), cudaErrorInvalidResourceHandle);
    (void)cudaGetLastError();
}

/* Layers of a box; and what no array can be. */
static void test_array_layers(void **state)
{
    (void)state;
    unsigned short host[3][2][4], answer[3][2][4];
    cudaArray_t array = NULL;
    const struct cudaChannelFormatDesc half = {16, 0, 0, 0, cudaChannelFormatKindUnsigned};
    const struct cudaChannelFormatDesc three = {8, 8, 8, 0, cudaChannelFormatKindUnsigned};
    OK(cudaMalloc3DArray(&array, &half, (struct cudaExtent){4, 2, 3}, cudaArrayLayered));
    for (int i = 0; i < 24; i++)
        host[i / 8][i / 4 % 2][i % 4] = (unsigned short)(i * 1000);
    struct cudaMemcpy3DParms to = {.srcPtr = {host, 8, 4, 2},
                                   .dstArray = array,
                                   .extent = {4, 2, 3},
                                   .kind = cudaMemcpyHostToDevice};
    OK(cudaMemcpy3D(&to));
    struct cudaMemcpy3DParms from = {.srcArray = array,
                                     .dstPtr = {answer, 8, 4, 2},
                                     .extent = {4, 2, 3},
                                     .kind = cudaMemcpyDeviceToHost};
    OK(cudaMemcpy3DAsync(&from, NULL));
    OK(cudaDeviceSynchronize());
    assert_memory_equal(answer, host, sizeof(host));
    to.dstPtr = (struct cudaPitchedPtr){host, 8, 4, 2}; /* two ends */
    assert_int_equal(cudaMemcpy3D(&to), cudaErrorInvalidValue);
    OK(cudaFreeArray(array));
    array = NULL;
    assert_int_equal(cudaMallocArray(&array, &three, 4, 4, 0), cudaErrorInvalidChannelDescriptor);
    assert_int_equal(cudaMallocArray(&array, &half, 0, 4, 0), cudaErrorInvalidValue);
    assert_int_equal(cudaMallocArray(&array, &half, SIZE_MAX / 2, 1, 0), cudaErrorInvalidValue);
    assert_int_equal(cudaMallocArray(&array, &half, 4, 4, cudaArraySparse), cudaErrorNotSupported);
    assert_null(array);
    (void)cudaGetLastError();
}

/* An object is what was said of it, until it or its array is gone. */
static void test_textures(void **state)
{
    (void)state;
    cudaArray_t array = NULL;
    char *block = NULL;
    cudaTextureObject_t one = 0, other = 0, linear = 0;
    cudaSurfaceObject_t surface = 0;
    struct cudaResourceDesc found;
    struct cudaTextureDesc how = {.normalizedCoords = 1}, said;
    OK(cudaMallocArray(&array, &two_floats, 8, 8, cudaArraySurfaceLoadStore));
    OK(cudaMalloc((void **)&block, 256));
    const struct cudaResourceDesc of_array = {.resType = cudaResourceTypeArray,
                                              .res.array.array = array};
    const struct cudaResourceDesc of_block = {
        .resType = cudaResourceTypeLinear,
        .res.linear = {.devPtr = block, .desc = two_floats, .sizeInBytes = 256}};
    OK(cudaCreateTextureObject(&one, &of_array, &how, NULL));
    OK(cudaCreateTextureObject(&other, &of_array, &how, NULL));
    OK(cudaCreateTextureObject(&linear, &of_block, &how, NULL));
    OK(cudaCreateSurfaceObject(&surface, &of_array));
    assert_true(one != 0 && one != other && linear != one && surface != one && surface != other);
    assert_true(linear >= (uintptr_t)block && linear < (uintptr_t)block + 256);
    OK(cudaGetTextureObjectResourceDesc(&found, other));
    assert_ptr_equal(found.res.array.array, array);
    OK(cudaGetTextureObjectTextureDesc(&said, linear));
    assert_int_equal(said.normalizedCoords, 1);
    OK(cudaDestroyTextureObject(one));
    assert_int_equal(cudaDestroyTextureObject(one), cudaErrorInvalidValue);
    OK(cudaFreeArray(array));
    assert_int_equal(cudaGetTextureObjectResourceDesc(&found, other), cudaErrorInvalidValue);
    assert_int_equal(cudaDestroySurfaceObject(surface), cudaErrorInvalidValue);
    assert_int_equal(cudaCreateTextureObject(&one, &of_array, &how, NULL),
                     cudaErrorInvalidResourceHandle);
    OK(cudaMallocArray(&array, &two_floats, 8, 8, 0));
    const struct cudaResourceDesc no_surface = {.resType = cudaResourceTypeArray,
                                                .res.array.array = array};
    assert_int_equal(cudaCreateSurfaceObject(&surface, &no_surface), cudaErrorInvalidValue);
    (void)cudaGetLastError();
    OK(cudaFreeArray(array));
    OK(cudaDestroyTextureObject(linear));
    OK(cudaFree(block));
}

/* ---- managed memory ------------------------------------------------------------------------- */

/* What was said of a range of managed memory: of all of it, or it counts as not said. */
static int range_number(const void *range, size_t bytes, enum cudaMemRangeAttribute attribute)
{
    int number = 77;
    OK(cudaMemRangeGetAttribute(&number, sizeof(number), attribute, range, bytes));
    return number;
}

static void test_advice(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    const struct cudaMemLocation one = {.type = cudaMemLocationTypeDevice, .id = 1};
    const struct cudaMemLocation host = {.type = cudaMemLocationTypeHost};
    char *block = NULL, *other = NULL;
    int readers[3] = {0, 0, 0};
    OK(cudaMallocManaged((void **)&block, BYTES, cudaMemAttachGlobal));
    const int prefetched = cudaMemRangeAttributeLastPrefetchLocation;
    assert_int_equal(range_number(block, BYTES, prefetched), cudaInvalidDeviceId);
    OK(cudaMemPrefetchAsync(block, BYTES, one, 0, NULL));
    assert_int_equal(range_number(block, BYTES, prefetched), 1);
    OK(cudaMemPrefetchAsync(block + 4096, 4096, host, 0, NULL));
    assert_int_equal(range_number(block, BYTES, prefetched), cudaInvalidDeviceId);
    assert_int_equal(range_number(block, 4096, prefetched), 1);
    assert_int_equal(range_number(block + 4096, 4096, prefetched), cudaCpuDeviceId);
    assert_int_equal(range_number(block + 4096, 1, cudaMemRangeAttributeLastPrefetchLocationType),
                     cudaMemLocationTypeHost);
    assert_int_equal(range_number(block + 8192, BYTES - 8192, prefetched), 1);
    OK(cudaMemAdvise(block, BYTES / 2, cudaMemAdviseSetReadMostly, host));
    assert_int_equal(range_number(block, BYTES / 2, cudaMemRangeAttributeReadMostly), 1);
    assert_int_equal(range_number(block, BYTES / 2 + 1, cudaMemRangeAttributeReadMostly), 0);
    OK(cudaMemAdvise(block, 1, cudaMemAdviseUnsetReadMostly, host));
    assert_int_equal(range_number(block, 2, cudaMemRangeAttributeReadMostly), 0);
    OK(cudaMemAdvise(block, BYTES, cudaMemAdviseSetPreferredLocation, one));
    assert_int_equal(range_number(block, BYTES, cudaMemRangeAttributePreferredLocation), 1);
    OK(cudaMemAdvise(block, BYTES, cudaMemAdviseUnsetPreferredLocation, one));
    assert_int_equal(range_number(block, BYTES, cudaMemRangeAttributePreferredLocation),
                     cudaInvalidDeviceId);
    OK(cudaMemAdvise(block, BYTES, cudaMemAdviseSetAccessedBy, one));
    OK(cudaMemAdvise(block, BYTES, cudaMemAdviseSetAccessedBy, host));
    OK(cudaMemRangeGetAttribute(readers, sizeof(readers), cudaMemRangeAttributeAccessedBy, block,
                                BYTES));
    assert_int_equal(readers[0], cudaCpuDeviceId);
    assert_int_equal(readers[1], 1);
    assert_int_equal(readers[2], cudaInvalidDeviceId);
    OK(cudaFree(block));
    OK(cudaMallocManaged((void **)&other, BYTES, cudaMemAttachGlobal));
    assert_int_equal(range_number(other, BYTES, prefetched), cudaInvalidDeviceId);
    OK(cudaMemPrefetchAsync(other, BYTES / 2, one, 0, NULL)); /* and nothing of the rest */
    assert_int_equal(range_number(other, BYTES, prefetched), cudaInvalidDeviceId);
    OK(cudaFree(other));
}

static void test_advice_refused(void **state)
{
    (void)state;
    const struct cudaMemLocation none = {.type = cudaMemLocationTypeDevice, .id = 9};
    const struct cudaMemLocation one = {.type = cudaMemLocationTypeDevice, .id = 1};
    char *block = NULL, *plain = NULL;
    int number = 0;
    OK(cudaMallocManaged((void **)&block, 4096, cudaMemAttachGlobal));
    OK(cudaMalloc((void **)&plain, 4096));
    assert_int_equal(cudaMemPrefetchAsync(block, 4096, none, 0, NULL), cudaErrorInvalidDevice);
    assert_int_equal(cudaMemPrefetchAsync(block, 4097, one, 0, NULL), cudaErrorInvalidValue);
    assert_int_equal(cudaMemAdvise(plain, 64, cudaMemAdviseSetReadMostly, one),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaMemAdvise(block, 64, (enum cudaMemoryAdvise)9, one),
                     cudaErrorInvalidValue);
    assert_int_equal(
        cudaMemRangeGetAttribute(&number, 2, cudaMemRangeAttributeReadMostly, block, 64),
        cudaErrorInvalidValue);
    assert_int_equal(
        cudaMemRangeGetAttribute(&number, 4, cudaMemRangeAttributeReadMostly, plain, 64),
        cudaErrorInvalidValue);
    void *pointers[] = {block, block + 2048};
    size_t sizes[] = {2048, 2048}, first[] = {0, 1};
    struct cudaMemLocation places[] = {one, {.type = cudaMemLocationTypeHost}};
    OK(cudaMemPrefetchBatchAsync(pointers, sizes, 2, places, first, 2, 0, cudaStreamPerThread));
    const int prefetched = cudaMemRangeAttributeLastPrefetchLocation;
    assert_int_equal(range_number(block, 2048, prefetched), 1);
    assert_int_equal(range_number(block + 2048, 2048, prefetched), cudaCpuDeviceId);
    assert_int_equal(
        cudaMemPrefetchBatchAsync(pointers, sizes, 2, places, first, 3, 0, cudaStreamPerThread),
        cudaErrorInvalidValue);
    (void)cudaGetLastError();
    OK(cudaFree(block));
    OK(cudaFree(plain));
}

/* Memory of such a pool is managed until it is freed, and the default pool is one. */
static void test_managed_pools(void **state)
{
    (void)state;
    struct cudaPointerAttributes what;
    struct cudaMemLocation here = {.type = cudaMemLocationTypeDevice, .id = 0};
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypeManaged, .location = here};
    cudaMemPool_t usual = NULL, again = NULL, own = NULL;
    char *block = NULL, *plain = NULL;
    OK(cudaMemGetDefaultMemPool(&usual, &here, cudaMemAllocationTypeManaged));
    OK(cudaMemGetDefaultMemPool(&again, &here, cudaMemAllocationTypeManaged));
    assert_ptr_equal(usual, again);
    OK(cudaMemPoolCreate(&own, &props));
    OK(cudaMemSetMemPool(&here, cudaMemAllocationTypeManaged, own));
    OK(cudaMemGetMemPool(&again, &here, cudaMemAllocationTypeManaged));
    assert_ptr_equal(own, again);
    OK(cudaMallocFromPoolAsync((void **)&block, 64, own, NULL));
    OK(cudaStreamSynchronize(NULL));
    block[63] = 4; /* the host reaches it */
    OK(cudaPointerGetAttributes(&what, block));
    assert_int_equal(what.type, cudaMemoryTypeManaged);
    OK(cudaMallocAsync((void **)&plain, 64, NULL));
    OK(cudaPointerGetAttributes(&what, plain));
    assert_int_equal(what.type, cudaMemoryTypeDevice);
    OK(cudaFreeAsync(block, NULL));
    OK(cudaPointerGetAttributes(&what, block));
    assert_int_not_equal(what.type, cudaMemoryTypeManaged);
    OK(cudaFreeAsync(plain, NULL));
    OK(cudaMemPoolDestroy(own));
    OK(cudaMemGetMemPool(&again, &here, cudaMemAllocationTypeManaged));
    assert_ptr_equal(usual, again);
    assert_int_equal(cudaMemPoolDestroy(usual), cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

static void test_pools(void **state)
{
    (void)state;
    cudaMemPool_t pool = NULL, own = NULL;
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {.type = cudaMemLocationTypeDevice, .id = 0}};
    uint64_t number = 0;
    int on = -1;
    void *block = NULL;
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    number = UINT64_MAX;
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &number));
    number = 0;
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &number));
    assert_true(number == UINT64_MAX);
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &on));
    assert_int_equal(on, 1);
    on = 0;
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &on));
    on = -1;
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &on));
    assert_int_equal(on, 0);
    OK(cudaMemPoolCreate(&own, &props));
    OK(cudaMallocFromPoolAsync(&block, 1000, own, NULL));
    OK(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemCurrent, &number));
    assert_true(number >= 1000);
    OK(cudaFreeAsync(block, NULL));
    OK(cudaDeviceSynchronize());
    OK(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemCurrent, &number));
    assert_int_equal(number, 0);
    OK(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemHigh, &number));
    assert_true(number >= 1000);
    number = 5; /* a peak is set back, and not to anything */
    assert_int_equal(cudaMemPoolSetAttribute(own, cudaMemPoolAttrUsedMemHigh, &number),
                     cudaErrorInvalidValue);
    OK(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemHigh, &number));
    assert_true(number >= 1000);
    OK(cudaMemPoolTrimTo(own, 0));
    OK(cudaMemPoolDestroy(own));
    (void)cudaGetLastError();
}

/* ---- streams and events --------------------------------------------------------------------- */

static void note(void *at)
{
    *(int *)at = 1;
}

static void note_status(cudaStream_t stream, cudaError_t status, void *at)
{
    (void)stream;
    *(int *)at = status == cudaSuccess ? 1 : -1;
}

static void test_order(void **state)
{
    (void)state;
    cudaStream_t first = NULL, second = NULL;
    cudaEvent_t event = NULL, later = NULL;
    int ran = 0, called = 0;
    float ms = -1;
    unsigned flags = 0;
    OK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    OK(cudaStreamCreate(&second));
    OK(cudaStreamGetFlags(first, &flags));
    assert_int_equal(flags, cudaStreamNonBlocking);
    OK(cudaEventCreate(&event));
    OK(cudaEventCreate(&later));
    OK(cudaLaunchHostFunc(first, note, &ran));
    OK(cudaEventRecord(event, first));
    OK(cudaStreamWaitEvent(second, event, 0));
    OK(cudaStreamAddCallback(second, note_status, &called, 0));
    assert_int_equal(called, 0); /* with the lazy schedule nothing runs before it must */
    assert_int_equal(cudaStreamQuery(second), cudaErrorNotReady);
    assert_int_equal(cudaGetLastError(), cudaErrorNotReady);
    OK(cudaEventRecord(later, second));
    OK(cudaStreamSynchronize(second));
    assert_int_equal(ran, 1);
    assert_int_equal(called, 1);
    OK(cudaEventElapsedTime(&ms, event, later));
    assert_true(ms >= 0);
    OK(cudaEventDestroy(event));
    OK(cudaEventDestroy(later));
    OK(cudaStreamDestroy(first));
    OK(cudaStreamDestroy(second));
    assert_int_equal(cudaStreamDestroy(NULL), cudaErrorInvalidResourceHandle);
    (void)cudaGetLastError();
}

/* ---- graphs --------------------------------------------------------------------------------- */

static void test_captured(void **state)
{
    (void)state;
    cudaStream_t stream = NULL;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    enum cudaStreamCaptureStatus status;
    unsigned char *block = NULL, answer[16];
    size_t nodes = 0;
    OK(cudaMalloc((void **)&block, 16));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    OK(cudaMemsetAsync(block, 3, 16, stream));
    OK(cudaMemsetAsync(block, 8, 8, stream));
    OK(cudaStreamIsCapturing(stream, &status));
    assert_int_equal(status, cudaStreamCaptureStatusActive);
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphGetNodes(graph, NULL, &nodes));
    assert_int_equal(nodes, 2);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaMemset(block, 1, 16));
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 2; i++)
        OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(answer, block, 16, cudaMemcpyDeviceToHost));
    assert_int_equal(answer[7], 8);
    assert_int_equal(answer[8], 3);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(block));
}

static void test_built(void **state)
{
    (void)state;
    cudaGraph_t graph = NULL;
    cudaGraphNode_t set = NULL, copy = NULL;
    cudaGraphExec_t exec = NULL;
    enum cudaGraphNodeType type;
    unsigned char *block = NULL, answer[16], changed[16];
    OK(cudaMalloc((void **)&block, 16));
    struct cudaMemsetParams params = {
        .dst = block, .value = 5, .elementSize = 1, .width = 16, .height = 1};
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemsetNode(&set, graph, NULL, 0, &params));
    OK(cudaGraphAddMemcpyNode1D(&copy, graph, &set, 1, answer, block, 16, cudaMemcpyDeviceToHost));
    OK(cudaGraphNodeGetType(copy, &type));
    assert_int_equal(type, cudaGraphNodeTypeMemcpy);
    OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, NULL));
    OK(cudaDeviceSynchronize());
    assert_int_equal(answer[15], 5);
    params.value = 6;
    OK(cudaGraphExecMemsetNodeSetParams(exec, set, &params));
    OK(cudaGraphExecMemcpyNodeSetParams1D(exec, copy, changed, block, 16, cudaMemcpyDeviceToHost));
    OK(cudaGraphLaunch(exec, NULL));
    OK(cudaDeviceSynchronize());
    assert_int_equal(answer[15], 5);
    assert_int_equal(changed[15], 6);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaFree(block));
}

/* ---- the driver's functions, and processes -------------------------------------------------- */

static void test_entry_points(void **state)
{
    (void)state;
    enum cudaDriverEntryPointQueryResult status;
    void *function = NULL;
    int version = 0;
    OK(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 12000, cudaEnableDefault,
                                        &status));
    assert_int_equal(status, cudaDriverEntryPointSuccess);
    assert_non_null(function);
    OK(cudaGetDriverEntryPointByVersion("cuNoSuch", &function, 12000, cudaEnableDefault, &status));
    assert_int_equal(status, cudaDriverEntryPointSymbolNotFound);
    assert_null(function);
    OK(cudaRuntimeGetVersion(&version));
    assert_int_equal(version, CUDART_VERSION);
}

static void test_forked(void **state)
{
    (void)state;
    void *block = NULL;
    int code = 0;
    OK(cudaFree(NULL));
    pid_t child = fork();
    if (child == 0)
        _exit(cudaMalloc(&block, 16) == cudaErrorInitializationError ? 0 : 1);
    assert_true(child > 0 && waitpid(child, &code, 0) == child);
    assert_int_equal(code, 0);
}

int main(void)
{
    setenv("TENURE_SIM_DEVICES", "2", 1);
    setenv("TENURE_SIM_SCHEDULE", "lazy", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_errors, reset),
        cmocka_unit_test_teardown(test_unserved, reset),
        cmocka_unit_test_teardown(test_devices, reset),
        cmocka_unit_test_teardown(test_peers, reset),
        cmocka_unit_test_teardown(test_reset, reset),
        cmocka_unit_test_teardown(test_bytes, reset),
        cmocka_unit_test_teardown(test_rows, reset),
        cmocka_unit_test_teardown(test_boxes, reset),
        cmocka_unit_test_teardown(test_pointers, reset),
        cmocka_unit_test_teardown(test_array, reset),
        cmocka_unit_test_teardown(test_array_layers, reset),
        cmocka_unit_test_teardown(test_textures, reset),
        cmocka_unit_test_teardown(test_pools, reset),
        cmocka_unit_test_teardown(test_managed_pools, reset),
        cmocka_unit_test_teardown(test_advice, reset),
        cmocka_unit_test_teardown(test_advice_refused, reset),
        cmocka_unit_test_teardown(test_order, reset),
        cmocka_unit_test_teardown(test_captured, reset),
        cmocka_unit_test_teardown(test_built, reset),
        cmocka_unit_test_teardown(test_entry_points, reset),
        cmocka_unit_test_teardown(test_forked, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
