/* SPDX-License-Identifier: Apache-2.0 */
/* Free pages of chunks that are in use: see pinned.h. */
#include "memory/arena/pinned.h"

#include "memory/device/chunk.h"

/* The whole pages of a run, chunk by chunk. */
static void run_walk(const tnri_space *space, tnri_block *run, tnri_pinned_visit visit, void *with)
{
    size_t page = tnri_page_of(space, run->base + tnri_page_bytes(space) - 1);
    size_t end = tnri_page_of(space, tnri_block_end(run));
    while (page < end) {
        tnri_chunk *chunk = space->pages[page];
        size_t chunk_end = chunk->page + chunk->pages;
        size_t stop = chunk_end < end ? chunk_end : end;
        if (page > chunk->page || stop < chunk_end)
            visit(&(tnri_pinned){run, chunk, page, stop - page}, with);
        page = stop;
    }
}

void tnri_pinned_walk(const tnri_world *world, tnri_pinned_visit visit, void *with)
{
    tnri_index_walk walk = {tnri_index_class(tnri_page_bytes(world->space)), NULL};
    tnri_block *run;
    while ((run = tnri_index_next(world->index, &walk)) != NULL)
        run_walk(world->space, run, visit, with);
}
