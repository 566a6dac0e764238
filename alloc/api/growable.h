/* SPDX-License-Identifier: Apache-2.0 */
/* The arenas of a pool that belong to growable blocks: see miss/grow.h. */
#ifndef TNRI_API_GROWABLE_H
#define TNRI_API_GROWABLE_H

#include "memory/pool/pool.h"

/* Reserves a growable block of a pool for a stream. */
tnr_status tnri_pool_reserve(tnr_pool pool, size_t bytes_max, tnr_stream stream, void **ptr);

#endif
