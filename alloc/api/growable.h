/* SPDX-License-Identifier: Apache-2.0 */
/* The arenas of a pool that belong to growable blocks: see miss/grow.h. */
#ifndef TNRI_API_GROWABLE_H
#define TNRI_API_GROWABLE_H

#include "memory/pool/pool.h"

/* The arena of the growable block that begins at `ptr`. It stays as long as the block is reserved.
 * Errors: TNR_ERR_FOREIGN_POINTER, TNR_ERR_NOT_LIVE, TNR_ERR_INTERIOR_POINTER,
 * TNR_ERR_INVALID_ARGUMENT. */
tnr_status tnri_growable_find(tnri_arena **arena, const void *ptr);

#endif
