/* SPDX-License-Identifier: Apache-2.0 */
/* A block at an address that the caller chooses, out of memory that is free there. */
#ifndef TNRI_MISS_AT_H
#define TNRI_MISS_AT_H

#include "memory/arena/arena.h"
#include "memory/pool/pool.h"

/* See tnr_pool_malloc_at. The pool is held by the caller; no lock is held. */
tnr_status tnri_malloc_at(tnr_pool pool, uintptr_t address, const tnri_request *request,
                          tnr_stream handle);

#endif
