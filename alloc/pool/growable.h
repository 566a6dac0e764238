/* SPDX-License-Identifier: Apache-2.0 */
/* The arenas of a pool that belong to growable blocks: see arena/grow.h. */
#ifndef TNRI_POOL_GROWABLE_H
#define TNRI_POOL_GROWABLE_H

#include "pool/pool.h"

/* Reserves a growable block of a pool for a stream. */
tnr_status tnri_pool_reserve(tnr_pool pool, size_t bytes_max, tnr_stream stream, void **ptr);

/* 1 if a stream with this key has a growable block's arena, or a witness, in the pool. */
int tnri_growables_know(tnr_pool pool, uintptr_t key);

/* The stream with this key is about to be destroyed: seals its growable blocks' arenas, and its
 * witness. */
void tnri_growables_seal(tnr_pool pool, uintptr_t key, tnri_event *event);

#endif
