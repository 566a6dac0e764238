/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the bytes of device memory are for the operations that touch them.
 *
 * As a rule they are at the device address itself, which cuMemSetAccess maps. With
 * TENURE_SIM_VIEW=1 the memory of VMM handles is mapped once for all, as a view of the device's
 * file, and the addresses that the program sees stay without access. Then a mapping costs the
 * kernel nothing. A page that has been touched never faults again, whatever is mapped where. And
 * host code that touches device memory crashes, as it does with a real device. With
 * TENURE_SIM_VIEW=beside operations use the view, and the memory is at its addresses as well, for
 * host code that looks at it.
 *
 * Ranges of the file are given out again, the latest first, and contain what was left in them. File
 * and view survive simcuda_reset, so that many short programs in one process pay for their pages
 * once. There is no view in `threads` mode, where operations run without the lock, and none of
 * memory that another process made.
 *
 * Everything here is under the lock. Kernels run without the lock and use simcuda_memory_at.
 */
#include "sim.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Address space, of which little is ever touched: as much as can be had, a quarter after each
 * refusal. Valgrind and the thread sanitizer, which needs several times as much for each mapping,
 * do not always have the most. */
#define VIEW_MOST (UINT64_C(1) << 40)
#define VIEW_LEAST (UINT64_C(1) << 34)
/* What may stay resident of released ranges, and after a reset, for each device. */
#define SPARE_PAGES (UINT64_C(256) << 20)

/* A released range of the file. */
struct spare {
    uint64_t offset;
    uint64_t bytes;
};

static struct view {
    unsigned char *base; /* null: none yet */
    uint64_t bytes;
    int file;
    int is_parents;       /* inherited by a fork */
    struct spare *spares; /* a stack */
    size_t spare_count;
    size_t spare_room;
    uint64_t spare_bytes; /* of all spares */
} views[SIM_DEVICES_MAX];

/* ---- their life ----------------------------------------------------------------------------- */

/* Makes the file and maps it. */
static int view_map(struct view *view)
{
    int file = sim_device_file();
    if (file < 0)
        return 0;
    for (uint64_t bytes = VIEW_MOST; bytes >= VIEW_LEAST; bytes /= 4) {
        void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
        if (base != MAP_FAILED) {
            view->base = base;
            view->bytes = bytes;
            view->file = file;
            return 1;
        }
    }
    close(file);
    return 0;
}

/* The device's view, made if there is none. 0 if there is no memory or address space for it. */
int sim_view_open(struct sim_device *device)
{
    struct view *view = &views[device->ordinal];
    view->spare_count = 0;
    view->spare_bytes = 0;
    if (view->is_parents) { /* there may be no address space for two of them */
        (void)munmap(view->base, view->bytes);
        (void)close(view->file);
        view->base = NULL;
        view->is_parents = 0;
    }
    if (view->base == NULL) {
        if (!view_map(view)) {
            sim_note("no view of device %d's memory: the kernel refuses its file or a mapping of "
                     "%d GiB; unset TENURE_SIM_VIEW",
                     device->ordinal, (int)(VIEW_LEAST >> 30));
            return 0;
        }
    }
    device->file = view->file;
    device->view = view->base;
    return 1;
}

/* The device ends and the view stays, for the next one; but not with any number of pages. */
void sim_view_close(const struct sim_device *device)
{
    struct stat status;
    if (fstat(device->file, &status) == 0 && (uint64_t)status.st_blocks * 512 > SPARE_PAGES)
        (void)fallocate(device->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                        (off_t)views[device->ordinal].bytes);
}

/* A child has the parent's files mapped; they are the parent's memory, which it may look at until
 * it has a view of its own. */
void sim_view_forked(void)
{
    for (int i = 0; i < SIM_DEVICES_MAX; i++)
        views[i].is_parents = views[i].base != NULL;
}

/* ---- ranges of the file --------------------------------------------------------------------- */

/* Where the next handle lies in the file. 0 if the view is too small for it. */
int sim_view_take(struct sim_device *device, uint64_t bytes, uint64_t *offset)
{
    struct view *view = &views[device->ordinal];
    for (size_t i = view->spare_count; i-- > 0;) {
        if (view->spares[i].bytes == bytes) {
            *offset = view->spares[i].offset;
            view->spare_bytes -= bytes;
            view->spares[i] = view->spares[--view->spare_count];
            return 1;
        }
    }
    if (bytes > view->bytes - device->next_offset)
        return 0;
    *offset = device->next_offset;
    device->next_offset += bytes;
    return 1;
}

void sim_view_give(const struct sim_device *device, uint64_t offset, uint64_t bytes)
{
    struct view *view = &views[device->ordinal];
    struct spare *larger =
        sim_grow(view->spares, &view->spare_room, view->spare_count + 1, sizeof(*larger));
    if (larger != NULL) { /* otherwise the range is not used again, which does no harm */
        view->spares = larger;
        larger[view->spare_count++] = (struct spare){offset, bytes};
    }
    view->spare_bytes += bytes;
    if (view->spare_bytes > SPARE_PAGES && !sim.settings.keep_pages)
        (void)fallocate(device->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                        (off_t)bytes);
}

/* ---- bytes ---------------------------------------------------------------------------------- */

/* Where the memory at an address is: in one piece to the end of the granule at least. */
void *sim_bytes(CUdeviceptr address)
{
    if (sim.has_view) {
        const struct sim_region *region = sim_region_find(address);
        if (region != NULL && region->kind == SIM_RESERVED) {
            const struct sim_mapping *mapping = sim_mapping_find(region, address);
            if (mapping == NULL)
                return NULL;
            const struct sim_memory *memory = mapping->memory;
            if (!memory->is_imported) /* that is not in this device's file */
                return memory->device->view + memory->offset + (address - mapping->base);
        }
    }
    return (void *)(uintptr_t)address;
}

void *simcuda_memory_at(CUdeviceptr address)
{
    if (sim.has_access) /* changes only where no kernel can be running */
        return (void *)(uintptr_t)address;
    sim_lock();
    void *bytes = sim_bytes(address);
    sim_unlock();
    return bytes;
}
