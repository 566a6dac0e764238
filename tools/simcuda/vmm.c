/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management: reservations, physical handles, mappings, access.
 *
 * Physical memory is a range of the device's file. Handles take consecutive offsets as they are
 * created. So handles mapped in that order are one mapping to the kernel, which allows about 65,530
 * mappings per process. Mapping without access needs no kernel mapping: the reservation already
 * faults. cuMemSetAccess then maps the file. It maps several handles at once if both their
 * addresses and their offsets follow each other. When neither a reference nor a mapping of the
 * handle is left, a hole in the file returns the pages to the system.
 *
 * Memory at a node of the host (CU_MEM_LOCATION_TYPE_HOST_NUMA; there is one node, number 0) is a
 * range of the current device's file too, but takes none of the device's memory. It is mapped at
 * its addresses whatever the view, since the host uses it.
 */
#include "sim.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HANDLE_INDEX_BITS = 32 };

static uint64_t host_count; /* handles of host memory */

static int granular(uint64_t value)
{
    return value % sim.settings.granularity_bytes == 0;
}

/* ---- physical memory ------------------------------------------------------------------------ */

/* Handles are an index and a serial number, so that a released one is never taken for another. */
struct sim_memory *sim_memory_get(CUmemGenericAllocationHandle handle, const char *what)
{
    uint64_t index = handle & UINT32_MAX;
    uint64_t serial = handle >> HANDLE_INDEX_BITS;
    if (serial == 0 || serial > sim.next_id || index >= sim.memory_count)
        return NULL;
    struct sim_memory *memory = sim.memories[index];
    if (memory == NULL || memory->id != handle || memory->references == 0) {
        sim_violation("%s of handle 0x%llx, which was released before", what,
                      (unsigned long long)handle);
        return NULL;
    }
    return memory;
}

static int memory_index(uint32_t *index)
{
    static size_t hint;
    for (size_t n = 0; n < sim.memory_count; n++) {
        size_t i = (hint + n) % sim.memory_count;
        if (sim.memories[i] == NULL) {
            *index = (uint32_t)i;
            hint = i + 1;
            return 1;
        }
        if (n == 64)
            break; /* nearly full: growing is cheaper than looking on */
    }
    struct sim_memory **larger =
        sim_grow(sim.memories, &sim.memory_room, sim.memory_count + 1, sizeof(*larger));
    if (larger == NULL)
        return 0;
    sim.memories = larger;
    larger[sim.memory_count] = NULL;
    *index = (uint32_t)sim.memory_count++;
    return 1;
}

/* A handle with one reference and no memory yet; the caller fills in file, offset and bytes. */
struct sim_memory *sim_memory_new(struct sim_device *device, const CUmemAllocationProp *prop)
{
    struct sim_memory *memory = calloc(1, sizeof(*memory));
    if (memory == NULL || !memory_index(&memory->index)) {
        free(memory);
        return NULL;
    }
    memory->device = device;
    memory->properties = *prop;
    memory->references = 1;
    memory->lease = -1;
    memory->id = (++sim.next_id << HANDLE_INDEX_BITS) | memory->index;
    sim.memories[memory->index] = memory;
    return memory;
}

static void memory_free(struct sim_memory *memory)
{
    sim_race_memory_gone(&memory->shadow);
    sim.memories[memory->index] = NULL;
    free(memory);
}

static void memory_end(struct sim_memory *memory)
{
    if (memory->origin != NULL) {
        struct sim_memory *origin = memory->origin;
        origin->imports--;
        memory_free(memory);
        sim_memory_put(origin);
        return;
    }
    /* What was shared is nobody else's until its last process has let go: never used again. */
    if (memory->device->view != NULL && memory->lease < 0 && !memory->is_imported)
        sim_view_give(memory->device, memory->offset, memory->bytes);
    else if (!sim.is_forked && sim_lease_last(memory) && !sim.settings.keep_pages)
        (void)fallocate(memory->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        (off_t)memory->offset, (off_t)memory->bytes);
    if (memory->lease >= 0)
        close(memory->lease);
    if (memory->is_host)
        host_count--;
    else if (!memory->is_imported)
        sim_memory_give(memory->device, memory->bytes);
    memory_free(memory);
}

void sim_memory_put(struct sim_memory *memory)
{
    if (memory->references == 0 && memory->mappings == 0 && memory->imports == 0)
        memory_end(memory);
}

void sim_memory_reset(void)
{
    for (size_t i = 0; i < sim.memory_count; i++)
        if (sim.memories[i] != NULL && sim.memories[i]->origin != NULL)
            memory_free(sim.memories[i]);
        else if (sim.memories[i] != NULL)
            memory_end(sim.memories[i]);
}

static CUresult property_check(const CUmemAllocationProp *prop)
{
    if (prop == NULL || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    int is_host = prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    if ((!is_host && prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) ||
        (is_host && prop->location.id != 0))
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_host && sim_device(prop->location.id) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE &&
        prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                               CUmemAllocationGranularity_flags option)
{
    SIM_ENTER(cuMemGetAllocationGranularity, SIM_NEEDS_VMM);
    CUresult result = property_check(prop);
    result = result == CUDA_ERROR_INVALID_DEVICE ? CUDA_SUCCESS : result; /* as the driver does */
    if (granularity == NULL || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
                                option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *granularity = sim.settings.granularity_bytes;
    return sim_leave(result);
}

/* Takes a device's bytes; of the host's there are as many as the machine has. */
static int memory_take(struct sim_device *device, uint64_t bytes, int is_host)
{
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return is_host ? bytes <= machine : sim_memory_take(device, bytes);
}

static CUresult memory_create(CUmemGenericAllocationHandle *handle, size_t size,
                              const CUmemAllocationProp *prop, unsigned long long flags)
{
    CUresult result = property_check(prop);
    if (handle == NULL || size == 0 || !granular(size) || flags != 0)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    int is_host = prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    struct sim_device *device = sim_device(prop->location.id);
    if (is_host && sim_current() != NULL)
        device = sim_current()->device;
    if (!memory_take(device, size, is_host))
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t offset = device->next_offset;
    struct sim_memory *memory = NULL;
    if (!sim.has_view || sim_view_take(device, size, &offset))
        memory = sim_memory_new(device, prop);
    if (memory == NULL) {
        if (!is_host)
            sim_memory_give(device, size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memory->is_host = is_host;
    host_count += (uint64_t)is_host;
    if (!sim.has_view)
        device->next_offset += size;
    memory->offset = offset;
    memory->file = device->file;
    memory->bytes = size;
    sim_cost_add(SIM_cuMemCreate, SIM_COST_CREATE, size);
    *handle = memory->id;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                             const CUmemAllocationProp *prop, unsigned long long flags)
{
    SIM_ENTER(cuMemCreate, SIM_NEEDS_VMM);
    return sim_leave(memory_create(handle, size, prop, flags));
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle)
{
    SIM_ENTER(cuMemRelease, SIM_NEEDS_VMM);
    struct sim_memory *memory = sim_memory_get(handle, "cuMemRelease");
    if (memory == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    memory->references--;
    sim_cost_add(SIM_cuMemRelease, SIM_COST_RELEASE, memory->bytes);
    sim_memory_put(memory);
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                        CUmemGenericAllocationHandle handle)
{
    SIM_ENTER(cuMemGetAllocationPropertiesFromHandle, SIM_NEEDS_VMM);
    const struct sim_memory *memory = sim_memory_get(handle, "a query");
    if (prop == NULL || memory == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *prop = memory->properties;
    return sim_leave(CUDA_SUCCESS);
}

/* ---- reservations --------------------------------------------------------------------------- */

static CUresult reserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr hint,
                        unsigned long long flags)
{
    if (ptr == NULL || size == 0 || !granular(size) || flags != 0 ||
        (alignment & (alignment - 1)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (alignment < sim.settings.granularity_bytes)
        alignment = sim.settings.granularity_bytes;
    if (size > sim.settings.reserve_bytes - sim.reserved_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const struct sim_region *region =
        sim_region_new(size, alignment, hint, SIM_RESERVED, sim_current());
    if (region == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ptr = region->base;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment,
                                     CUdeviceptr addr, unsigned long long flags)
{
    SIM_ENTER(cuMemAddressReserve, SIM_NEEDS_VMM);
    return sim_leave(reserve(ptr, size, alignment, addr, flags));
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    SIM_ENTER(cuMemAddressFree, SIM_NEEDS_VMM);
    struct sim_region *region = sim_region_find(ptr);
    if (region == NULL || region->kind != SIM_RESERVED || region->base != ptr ||
        region->bytes != size)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (region->mappings != 0) {
        sim_violation("cuMemAddressFree of 0x%llx, %llu bytes: %llu mappings are still in it",
                      (unsigned long long)ptr, (unsigned long long)size,
                      (unsigned long long)region->mappings);
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    }
    sim_region_free(region);
    return sim_leave(CUDA_SUCCESS);
}

/* ---- mappings ------------------------------------------------------------------------------- */

struct sim_mapping *sim_mapping_find(const struct sim_region *region, CUdeviceptr address)
{
    return region->pages[(address - region->base) / sim.settings.granularity_bytes];
}

/* The reservation around a granular range, or null. */
static struct sim_region *range_region(CUdeviceptr base, uint64_t bytes)
{
    struct sim_region *region = sim_region_find(base);
    if (region == NULL || region->kind != SIM_RESERVED || bytes == 0 || !granular(base) ||
        !granular(bytes) || bytes > region->base + region->bytes - base)
        return NULL;
    return region;
}

/* Whether the range is full of mappings, the first and last one whole if that is asked for. */
static int range_mapped(const struct sim_region *region, CUdeviceptr base, uint64_t bytes,
                        int whole)
{
    CUdeviceptr end = base + bytes;
    for (CUdeviceptr at = base; at < end;) {
        const struct sim_mapping *mapping = sim_mapping_find(region, at);
        if (mapping == NULL || (whole && mapping->base < base) ||
            (whole && mapping->base + mapping->memory->bytes > end))
            return 0;
        at = mapping->base + mapping->memory->bytes;
    }
    return 1;
}

static void range_set(struct sim_region *region, CUdeviceptr base, uint64_t bytes,
                      struct sim_mapping *mapping)
{
    uint64_t first = (base - region->base) / sim.settings.granularity_bytes;
    uint64_t count = bytes / sim.settings.granularity_bytes;
    for (uint64_t i = 0; i < count; i++)
        region->pages[first + i] = mapping;
}

static CUresult map(CUdeviceptr ptr, size_t size, size_t offset,
                    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    struct sim_region *region = range_region(ptr, sim.settings.granularity_bytes);
    if (flags != 0 || region == NULL || size == 0 || !granular(offset))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_memory *memory = sim_memory_get(handle, "cuMemMap");
    if (memory == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (offset != 0 || size != memory->bytes)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (size > region->base + region->bytes - ptr) {
        sim_violation("cuMemMap of [0x%llx, +%llu) goes beyond its reservation [0x%llx, +%llu)",
                      (unsigned long long)ptr, (unsigned long long)size,
                      (unsigned long long)region->base, (unsigned long long)region->bytes);
        return CUDA_ERROR_INVALID_VALUE;
    }
    uint64_t first = (ptr - region->base) / sim.settings.granularity_bytes;
    for (uint64_t i = 0; i < size / sim.settings.granularity_bytes; i++)
        if (region->pages[first + i] != NULL)
            return CUDA_ERROR_INVALID_VALUE;
    struct sim_mapping *mapping = calloc(1, sizeof(*mapping));
    if (mapping == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mapping->base = ptr;
    mapping->memory = memory;
    mapping->region = region;
    range_set(region, ptr, size, mapping);
    memory->mappings++;
    region->mappings++;
    sim_cost_add(SIM_cuMemMap, SIM_COST_MAP, size);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                          CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    SIM_ENTER(cuMemMap, SIM_NEEDS_VMM);
    return sim_leave(map(ptr, size, offset, handle, flags));
}

/* Makes a range of a reservation fault again; if nothing is mapped there, it always does. */
static int range_hide(CUdeviceptr base, uint64_t bytes)
{
    return (!sim.has_access && host_count == 0) ||
           mmap((void *)(uintptr_t)base, bytes, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

/* Whether no mapping crosses the range's ends; *holes counts its granules that are not mapped. */
static int range_whole(const struct sim_region *region, CUdeviceptr base, uint64_t bytes,
                       uint64_t *holes)
{
    CUdeviceptr end = base + bytes;
    *holes = 0;
    for (CUdeviceptr at = base; at < end;) {
        const struct sim_mapping *mapping = sim_mapping_find(region, at);
        if (mapping == NULL) {
            ++*holes;
            at += sim.settings.granularity_bytes;
            continue;
        }
        at = mapping->base + mapping->memory->bytes;
        if (mapping->base < base || at > end)
            return 0;
    }
    return 1;
}

/* Mappings go whole or not at all. The driver lets pages without a mapping pass, against its own
 * documentation; so does this, with a violation, since it is how a second unmapping looks. */
static CUresult unmap(CUdeviceptr ptr, size_t size)
{
    struct sim_region *region = range_region(ptr, size);
    uint64_t holes = 0;
    if (region == NULL || !range_whole(region, ptr, size, &holes))
        return CUDA_ERROR_INVALID_VALUE;
    if (holes != 0)
        sim_violation("cuMemUnmap of [0x%llx, +%llu): %llu granules of it are not mapped",
                      (unsigned long long)ptr, (unsigned long long)size, (unsigned long long)holes);
    sim_check_unused(ptr, size, "cuMemUnmap");
    if (!range_hide(ptr, size))
        return sim_kernel_map_error("cuMemUnmap", ptr, size);
    for (CUdeviceptr at = ptr; at < ptr + size;) {
        struct sim_mapping *mapping = sim_mapping_find(region, at);
        if (mapping == NULL) {
            at += sim.settings.granularity_bytes;
            continue;
        }
        struct sim_memory *memory = mapping->memory;
        at += memory->bytes;
        sim_cost_add(SIM_cuMemUnmap, SIM_COST_UNMAP, memory->bytes);
        sim_race_unmapped(mapping);
        range_set(region, mapping->base, memory->bytes, NULL);
        free(mapping);
        region->mappings--;
        memory->mappings--;
        sim_memory_put(memory);
    }
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    SIM_ENTER(cuMemUnmap, SIM_NEEDS_VMM);
    return sim_leave(unmap(ptr, size));
}

CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    SIM_ENTER(cuMemRetainAllocationHandle, SIM_NEEDS_VMM);
    CUdeviceptr address = (uintptr_t)addr;
    const struct sim_region *region = sim_region_find(address);
    if (handle == NULL || region == NULL || region->kind != SIM_RESERVED)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    const struct sim_mapping *mapping = sim_mapping_find(region, address);
    if (mapping == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    mapping->memory->references++;
    *handle = mapping->memory->id;
    return sim_leave(CUDA_SUCCESS);
}

/* ---- access --------------------------------------------------------------------------------- */

struct access_change {
    uint32_t touched; /* bit per device, or the host, that the call speaks of */
    uint32_t readable;
    uint32_t writable;
};

/* Whom a location is, for memory of an owner; every device reaches the host's. */
static CUresult access_of(const struct sim_memory *memory, const CUmemLocation *location,
                          uint32_t *bit)
{
    if (location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA && memory->is_host) {
        *bit = SIM_HOST_BIT; /* the id is ignored */
        return CUDA_SUCCESS;
    }
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (sim_device(location->id) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *bit = UINT32_C(1) << location->id;
    return sim.settings.peers || memory->is_host || location->id == memory->device->ordinal
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult access_parse(const struct sim_memory *memory, const CUmemAccessDesc *desc,
                             size_t count, struct access_change *change)
{
    memset(change, 0, sizeof(*change));
    for (size_t i = 0; i < count; i++) {
        uint32_t bit = 0;
        CUresult result = access_of(memory, &desc[i].location, &bit);
        if (result != CUDA_SUCCESS)
            return result;
        change->touched |= bit;
        switch (desc[i].flags) {
        case CU_MEM_ACCESS_FLAGS_PROT_NONE:
            break;
        case CU_MEM_ACCESS_FLAGS_PROT_READ:
            change->readable |= bit;
            break;
        case CU_MEM_ACCESS_FLAGS_PROT_READWRITE:
            change->readable |= bit;
            change->writable |= bit;
            break;
        default:
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

static int mapping_protection(const struct sim_mapping *mapping)
{
    return (mapping->readable != 0 ? PROT_READ : 0) | (mapping->writable != 0 ? PROT_WRITE : 0);
}

static int changed_protection(const struct sim_mapping *mapping, const struct access_change *change)
{
    struct sim_mapping after = *mapping;
    after.readable = (after.readable & ~change->touched) | change->readable;
    after.writable = (after.writable & ~change->touched) | change->writable;
    return mapping_protection(&after);
}

/* Gives the kernel mapping of [base, base + bytes) a protection: the whole range is one stretch of
 * one file. An unreadable one is the reservation's own again, which merges with its neighbours. */
static int range_protect(CUdeviceptr base, uint64_t bytes, const struct sim_memory *first,
                         int protection)
{
    if (protection == PROT_NONE)
        return range_hide(base, bytes);
    return (!sim.has_access && !first->is_host) ||
           mmap((void *)(uintptr_t)base, bytes, protection, MAP_SHARED | MAP_FIXED, first->file,
                (off_t)first->offset) != MAP_FAILED;
}

/* Applies the change up to end; the kernel is called once per stretch that it can take as one. */
static int access_apply(const struct sim_region *region, CUdeviceptr base, CUdeviceptr end,
                        const struct access_change *change)
{
    while (base < end) {
        const struct sim_mapping *first = sim_mapping_find(region, base);
        const struct sim_memory *memory = first->memory;
        int protection = changed_protection(first, change);
        int differs = protection != mapping_protection(first);
        CUdeviceptr at = first->base + memory->bytes;
        while (at < end) {
            const struct sim_mapping *next = sim_mapping_find(region, at);
            if (next->memory->file != memory->file ||
                next->memory->offset != memory->offset + (at - first->base) ||
                changed_protection(next, change) != protection ||
                (mapping_protection(next) != protection) != differs)
                break;
            at += next->memory->bytes;
        }
        if (differs && !range_protect(first->base, at - first->base, memory, protection))
            return 0;
        base = at;
    }
    return 1;
}

static CUresult set_access(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    struct sim_region *region = range_region(ptr, size);
    struct access_change change;
    if (region == NULL || desc == NULL || count == 0 || !range_mapped(region, ptr, size, 1))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = access_parse(sim_mapping_find(region, ptr)->memory, desc, count, &change);
    if (result != CUDA_SUCCESS)
        return result;
    if (!access_apply(region, ptr, ptr + size, &change)) {
        result = sim_kernel_map_error("cuMemSetAccess", ptr, size);
        /* Take back what was done: putting back what was there needs no more mappings. */
        for (CUdeviceptr at = ptr; at < ptr + size;) {
            const struct sim_mapping *mapping = sim_mapping_find(region, at);
            (void)range_protect(at, mapping->memory->bytes, mapping->memory,
                                mapping_protection(mapping));
            at += mapping->memory->bytes;
        }
        return result;
    }
    for (CUdeviceptr at = ptr; at < ptr + size;) {
        struct sim_mapping *mapping = sim_mapping_find(region, at);
        mapping->readable = (mapping->readable & ~change.touched) | change.readable;
        mapping->writable = (mapping->writable & ~change.touched) | change.writable;
        sim_cost_add(SIM_cuMemSetAccess, SIM_COST_ACCESS, mapping->memory->bytes);
        at += mapping->memory->bytes;
    }
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
                                size_t count)
{
    SIM_ENTER(cuMemSetAccess, SIM_NEEDS_VMM);
    return sim_leave(set_access(ptr, size, desc, count));
}

CUresult CUDAAPI cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                                CUdeviceptr ptr)
{
    SIM_ENTER(cuMemGetAccess, SIM_NEEDS_VMM);
    const struct sim_region *region = sim_region_find(ptr);
    if (flags == NULL || location == NULL || region == NULL || region->kind != SIM_RESERVED ||
        (location->type != CU_MEM_LOCATION_TYPE_DEVICE &&
         location->type != CU_MEM_LOCATION_TYPE_HOST_NUMA))
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    int is_host = location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    const struct sim_mapping *mapping = sim_mapping_find(region, ptr);
    if (!is_host && sim_device(location->id) == NULL)
        return sim_leave(CUDA_ERROR_INVALID_DEVICE);
    if (mapping == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    uint32_t bit = is_host ? SIM_HOST_BIT : UINT32_C(1) << location->id;
    *flags = (mapping->writable & bit) != 0   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
             : (mapping->readable & bit) != 0 ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                              : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return sim_leave(CUDA_SUCCESS);
}
