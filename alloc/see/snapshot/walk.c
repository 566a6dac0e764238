/* SPDX-License-Identifier: Apache-2.0 */
/* A picture shown to a function of the caller's, without any lock: see <tenure/history.h>. */
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "log/history.h"
#include "see/snapshot/snapshot.h"

static tnr_walked_state state_of(unsigned shown)
{
    if (shown == TNRI_SHOWN_LIVE)
        return TNR_WALKED_LIVE;
    return shown == TNRI_SHOWN_RETIRED ? TNR_WALKED_RETIRED : TNR_WALKED_FREE;
}

/* All blocks in the caller's form; null if there is no host memory. At least one in size. */
static tnr_walked_block *blocks_copy(const tnri_picture *picture)
{
    tnr_walked_block *blocks = tnri_host_reserve((picture->blocks_count + 1) * sizeof(blocks[0]));
    for (size_t i = 0; blocks != NULL && i < picture->blocks_count; i++) {
        const tnri_shown_block *block = &picture->blocks[i];
        blocks[i].base = block->address;
        blocks[i].bytes = block->bytes;
        blocks[i].state = state_of(block->shown);
        blocks[i].bytes_requested = blocks[i].state == TNR_WALKED_FREE ? 0 : block->requested;
    }
    return blocks;
}

static void stretches_visit(const tnri_picture *picture, const tnr_walked_block *blocks,
                            tnr_pool handle, int device, tnr_walk_visit visit, void *user)
{
    for (size_t i = 0; i < picture->segments_count; i++) {
        const tnri_shown_segment *segment = &picture->segments[i];
        const tnri_shown_pool *pool = &picture->pools[segment->pool];
        if (pool->device != device || (handle != NULL && pool->handle != handle))
            continue;
        tnr_stretch stretch = {.base = segment->address,
                               .bytes = segment->bytes,
                               .device = device,
                               .stream = picture->streams[segment->stream].handle,
                               .pool = pool->handle,
                               .is_small = segment->is_small,
                               .blocks = blocks + segment->block_first,
                               .blocks_count = segment->blocks_count};
        visit(&stretch, user);
    }
}

tnr_status tnri_memory_walk(tnr_pool handle, int device, tnr_walk_visit visit, void *user)
{
    tnri_picture picture;
    tnri_picture_still();
    tnri_history_lock_take();
    tnr_status status = tnri_picture_take(&picture, TNRI_SNAPSHOT_CALL);
    tnri_history_lock_release();
    if (status != TNR_OK)
        return status;
    size_t bytes = (picture.blocks_count + 1) * sizeof(tnr_walked_block);
    tnr_walked_block *blocks = blocks_copy(&picture);
    if (blocks != NULL) {
        stretches_visit(&picture, blocks, handle, device, visit, user);
        tnri_host_unreserve(blocks, bytes);
    } else {
        status = tnri_error(TNR_ERR_HOST_MEMORY, "tnr_memory_walk: no host memory for a copy of "
                                                 "the blocks.");
    }
    tnri_picture_free(&picture);
    return status;
}
