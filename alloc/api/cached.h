/* SPDX-License-Identifier: Apache-2.0 */
/* The cached path, for callers that know the arena: see cached.c. */
#ifndef TNRI_API_CACHED_H
#define TNRI_API_CACHED_H

#include "memory/arena/arena.h"

/* Serves a request: bins, index, then the ladder. */
tnr_status tnri_arena_malloc(tnri_arena *arena, const tnri_request *request, void **ptr);

/* The same for `bytes`, above 0, of the default alignment, while the gate is shut: no setting
 * rounds sizes, nothing is captured, and the gate is shut. */
tnr_status tnri_arena_malloc_quick(tnri_arena *arena, size_t bytes, void **ptr);

/* Frees the block that starts at `ptr`. `block` is the map's record for `ptr`; it must be that
 * block and live, otherwise nothing is freed. */
tnr_status tnri_arena_free(tnri_block *block, void *ptr);

/* The same, and tools are told of it. If captures or settings decide how the block is freed, it is
 * freed that way. */
tnr_status tnri_free_found(tnri_block *block, void *ptr);
/* The same while the gate is shut. `recent` is the address of the arena that the block probably
 * belongs to; any other value is allowed. */
tnr_status tnri_arena_free_quick(tnri_block *block, void *ptr, uintptr_t recent);

/* Tells tools, while the gate says NVTX, of a block that is about to be freed. */
void tnri_free_annotate(const tnri_block *block, const void *ptr);

/* Frees at an address outside every device's range: in a foreign segment; otherwise refuses. */
tnr_status tnri_free_outside(void *ptr);

/* The error for an address that the library knows nothing of: why it cannot be freed or
 * described. */
tnr_status tnri_foreign_error(const void *ptr);

#endif
