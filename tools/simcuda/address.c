/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address space: the regions that the simulation owns, and where new ones go.
 *
 * Two fixed windows of the 47 bits are used, one for reservations and one for allocations and
 * pinned memory, each filled upwards (next fit, wrapping): the same calls give the same addresses
 * in every run, and a freed address is not soon used again. If a window is not available (under
 * ThreadSanitizer, under Valgrind), the kernel chooses, and addresses differ between runs.
 *
 * Regions are kept in an array sorted by address and found by binary search; the latest one found
 * is remembered, because callers nearly always ask about the same reservation.
 */
#include "sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* ThreadSanitizer's mmap turns an address it does not like into 0, and ends the program there. */
#if defined(__SANITIZE_THREAD__)
#define CHOOSES_ADDRESSES 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CHOOSES_ADDRESSES 0
#endif
#endif
#ifndef CHOOSES_ADDRESSES
#define CHOOSES_ADDRESSES 1
#endif

#define BLOCK_GAP_BYTES UINT64_C(65536) /* between allocations, so that overruns fault */
enum { WINDOW_TRIES = 32 };

struct window {
    CUdeviceptr first;
    CUdeviceptr end;
    CUdeviceptr next;
};

/* Above AddressSanitizer's shadow, below where Linux loads programs. Eight times 8 TiB fit. */
static struct window reservation_window = {UINT64_C(0x101000000000), UINT64_C(0x502000000000), 0};
static struct window block_window = {UINT64_C(0x502000000000), UINT64_C(0x54e000000000), 0};

/* ---- the sorted array ----------------------------------------------------------------------- */

/* How many regions begin at or before the address. */
static size_t region_rank(CUdeviceptr address)
{
    size_t low = 0;
    size_t high = sim.region_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sim.regions[middle]->base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct sim_region *sim_region_find(CUdeviceptr address)
{
    struct sim_region *region = sim.last_region;
    if (region != NULL && address - region->base < region->bytes)
        return region;
    size_t rank = region_rank(address);
    if (rank == 0)
        return NULL;
    region = sim.regions[rank - 1];
    if (address - region->base >= region->bytes)
        return NULL;
    sim.last_region = region;
    return region;
}

int sim_is_device(CUdeviceptr address)
{
    const struct sim_region *region = sim_region_find(address);
    if (region == NULL || region->kind == SIM_PINNED)
        return 0;
    const struct sim_mapping *mapping =
        region->kind == SIM_RESERVED ? sim_mapping_find(region, address) : NULL;
    return mapping == NULL || !mapping->memory->is_host;
}

static int region_insert(struct sim_region *region)
{
    struct sim_region **larger =
        sim_grow(sim.regions, &sim.region_room, sim.region_count + 1, sizeof(*larger));
    if (larger == NULL)
        return 0;
    sim.regions = larger;
    size_t rank = region_rank(region->base);
    memmove(&larger[rank + 1], &larger[rank], (sim.region_count - rank) * sizeof(*larger));
    larger[rank] = region;
    sim.region_count++;
    return 1;
}

/* ---- finding a place ------------------------------------------------------------------------ */

/* What can be written to is written soon: with few faults, if the kernel has large pages for it. */
static void *region_map(CUdeviceptr at, uint64_t bytes, int protection, int more)
{
    void *mapped = mmap((void *)(uintptr_t)at, bytes, protection,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | more, -1, 0);
    if (mapped == MAP_FAILED)
        return NULL;
    if (protection != PROT_NONE)
        (void)madvise(mapped, bytes, MADV_HUGEPAGE);
    return mapped;
}

/* Maps exactly there or nowhere; old kernels take the address for a hint only. */
static int region_map_at(CUdeviceptr at, uint64_t bytes, int protection)
{
    void *mapped = region_map(at, bytes, protection, MAP_FIXED_NOREPLACE);
    if (mapped != NULL && (uintptr_t)mapped != at) {
        munmap(mapped, bytes);
        return 0;
    }
    return mapped != NULL;
}

static CUdeviceptr align_up(CUdeviceptr address, uint64_t alignment)
{
    return (address + alignment - 1) & ~(CUdeviceptr)(alignment - 1);
}

/* The first gap of our own regions at or after from; end if there is none before it. */
static CUdeviceptr window_gap(CUdeviceptr from, CUdeviceptr end, uint64_t bytes, uint64_t alignment)
{
    CUdeviceptr at = align_up(from, alignment);
    for (size_t rank = region_rank(at); at < end && bytes <= end - at; rank++) {
        if (rank != 0) {
            const struct sim_region *before = sim.regions[rank - 1];
            if (before->base + before->bytes > at)
                at = align_up(before->base + before->bytes, alignment);
        }
        if (rank == sim.region_count || sim.regions[rank]->base - at >= bytes)
            return at < end && bytes <= end - at ? at : end;
    }
    return end;
}

/* Maps in the window, from where the last one ended and then from its beginning; 0 if full. */
static CUdeviceptr window_map(struct window *window, uint64_t bytes, uint64_t alignment,
                              int protection)
{
    CUdeviceptr from = window->next == 0 ? window->first : window->next;
    for (int tries = 0; tries < WINDOW_TRIES; tries++) {
        CUdeviceptr at = window_gap(from, window->end, bytes, alignment);
        if (at == window->end && from > window->first && tries < WINDOW_TRIES / 2) {
            tries = WINDOW_TRIES / 2;
            from = window->first;
            continue;
        }
        if (at == window->end)
            return 0;
        if (region_map_at(at, bytes, protection)) {
            window->next = at + bytes;
            return at;
        }
        if (errno != EEXIST)
            return 0;
        from = at + (UINT64_C(1) << 30);
    }
    return 0;
}

/* Anywhere the kernel likes, cut down to the alignment. */
static CUdeviceptr region_map_anywhere(uint64_t bytes, uint64_t alignment, int protection)
{
    if (bytes > UINT64_MAX - alignment)
        return 0;
    void *mapped = region_map(0, bytes + alignment, protection, 0);
    if (mapped == NULL)
        return 0;
    CUdeviceptr low = (uintptr_t)mapped;
    CUdeviceptr base = align_up(low, alignment);
    if (base != low)
        munmap(mapped, base - low);
    if (low + alignment != base)
        munmap((void *)(uintptr_t)(base + bytes), low + alignment - base);
    return base;
}

/* ---- regions -------------------------------------------------------------------------------- */

/* A reservation's page table: one pointer per granule, untouched entries cost no memory. */
static int region_table(struct sim_region *region)
{
    size_t bytes = region->bytes / sim.settings.granularity_bytes * sizeof(*region->pages);
    void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    region->pages = table == MAP_FAILED ? NULL : table;
    return region->pages != NULL;
}

static void region_unmap(struct sim_region *region)
{
    if (region->is_registered)
        return;
    munmap((void *)(uintptr_t)region->base, region->bytes);
    if (region->pages != NULL)
        munmap(region->pages,
               region->bytes / sim.settings.granularity_bytes * sizeof(*region->pages));
}

static CUdeviceptr region_place(uint64_t bytes, uint64_t alignment, CUdeviceptr hint,
                                enum sim_region_kind kind)
{
    int protection = kind == SIM_RESERVED ? PROT_NONE : PROT_READ | PROT_WRITE;
    if (!CHOOSES_ADDRESSES)
        return region_map_anywhere(bytes, alignment, protection);
    if (hint != 0 && hint % alignment == 0 && region_map_at(hint, bytes, protection))
        return hint;
    struct window *window = kind == SIM_RESERVED ? &reservation_window : &block_window;
    uint64_t gap = kind == SIM_RESERVED ? 0 : BLOCK_GAP_BYTES;
    if (gap != 0 && window->next != 0)
        window->next += gap;
    CUdeviceptr base = window_map(window, bytes, alignment, protection);
    return base != 0 ? base : region_map_anywhere(bytes, alignment, protection);
}

/* Null when address space or memory is short. bytes and alignment are multiples of a page. A region
 * without a context counts for device 0. */
struct sim_region *sim_region_new(uint64_t bytes, uint64_t alignment, CUdeviceptr hint,
                                  enum sim_region_kind kind, struct sim_context *context)
{
    struct sim_region *region = calloc(1, sizeof(*region));
    if (region == NULL)
        return NULL;
    region->base = region_place(bytes, alignment, hint, kind);
    if (region->base == 0) {
        free(region);
        return NULL;
    }
    region->bytes = bytes;
    region->kind = kind;
    region->context = context;
    region->device = context == NULL ? &sim.devices[0] : context->device;
    region->buffer_id = ++sim.next_id;
    if ((kind == SIM_RESERVED && !region_table(region)) || !region_insert(region)) {
        region_unmap(region);
        free(region);
        return NULL;
    }
    sim.reserved_bytes += kind == SIM_RESERVED ? bytes : 0;
    return region;
}

/* The first region that has one of these addresses; null: none. */
static struct sim_region *region_within(CUdeviceptr base, uint64_t bytes)
{
    struct sim_region *region = sim_region_find(base);
    size_t rank = region_rank(base);
    if (region == NULL && rank < sim.region_count && sim.regions[rank]->base - base < bytes)
        region = sim.regions[rank];
    return region;
}

/* Memory of the program's own, which stays its own. */
CUresult sim_region_register(CUdeviceptr base, uint64_t bytes, unsigned flags,
                             struct sim_context *context)
{
    const struct sim_region *other = region_within(base, bytes);
    if (other != NULL)
        return other->kind == SIM_PINNED ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                                         : CUDA_ERROR_INVALID_VALUE;
    struct sim_region *region = calloc(1, sizeof(*region));
    if (region == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *region = (struct sim_region){.base = base,
                                  .bytes = bytes,
                                  .kind = SIM_PINNED,
                                  .context = context,
                                  .device = context->device,
                                  .buffer_id = ++sim.next_id,
                                  .flags = flags,
                                  .is_registered = 1};
    if (region_insert(region))
        return CUDA_SUCCESS;
    free(region);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void sim_region_free(struct sim_region *region)
{
    size_t rank = region_rank(region->base);
    memmove(&sim.regions[rank - 1], &sim.regions[rank],
            (sim.region_count - rank) * sizeof(*sim.regions));
    sim.region_count--;
    if (sim.last_region == region)
        sim.last_region = NULL;
    sim.reserved_bytes -= region->kind == SIM_RESERVED ? region->bytes : 0;
    sim_race_memory_gone(&region->shadow);
    region_unmap(region);
    free(region);
}

/* What to tell when the kernel refuses a mapping: nearly always its limit on their number. */
CUresult sim_kernel_map_error(const char *what, CUdeviceptr address, uint64_t bytes)
{
    int reason = errno;
    sim_note("%s of %llu bytes at 0x%llx: the kernel refuses (%s); this process has %llu mappings, "
             "and Linux allows vm.max_map_count (65530 by default). Use larger handles, or map "
             "them in the order they were created",
             what, (unsigned long long)bytes, (unsigned long long)address, strerror(reason),
             (unsigned long long)simcuda_linux_mappings());
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void sim_region_reset(void)
{
    while (sim.region_count != 0) {
        struct sim_region *region = sim.regions[sim.region_count - 1];
        for (uint64_t i = 0; region->kind == SIM_RESERVED && region->mappings != 0; i++) {
            struct sim_mapping *mapping = region->pages[i];
            if (mapping != NULL) {
                uint64_t granules = mapping->memory->bytes / sim.settings.granularity_bytes;
                mapping->memory->mappings--;
                region->mappings--;
                i += granules - 1;
                free(mapping);
            }
        }
        sim_region_free(region);
    }
    reservation_window.next = 0;
    block_window.next = 0;
}
