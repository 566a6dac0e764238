/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lending: a free run goes from one world of a pool to another as it is, addresses, chunks and
 * mappings together. (Step 5 of the ladder.)
 *
 * Moving costs two mappings and a removal for each chunk. If another world has a free run that the
 * request fits into, none of that is needed:
 *
 *   1. Under the giving arena's lock, the whole chunks that the request needs are taken out of the
 *      run (PENDING).
 *   2. This arena's stream is made to wait for the other's, as for chunks that move. Lanes of one
 *      stream need no wait, and come first.
 *   3. For addresses of its own spans, the giving world keeps a LENT record, so that records still
 *      tile the spans. For addresses that it had borrowed itself, it keeps no record
 *      (memory/arena/world_lend.c).
 *   4. The receiving world has the addresses as a range of its own, and carves and merges in it as
 *      in a span. If the addresses are of one of its own spans, they are just back.
 *
 * So each byte that is lent is in one LENT record, of the world whose span it lies in, and in one
 * borrowed range, of the world of the pool that has it now. No mapping is ever touched.
 *
 * A loan consists of whole chunks, since a chunk belongs to one arena. The rest of a run goes along
 * if it is not much larger than the request. So streams that use blocks of different sizes do not
 * cut each other's runs into pieces that only moves could put together again. This costs nothing,
 * since a stream can in turn lend what it does not use. Of the runs of an arena, those that it has
 * borrowed go first, and whole: most of them come home so, as they left.
 */
#ifndef TNRI_MISS_LEND_H
#define TNRI_MISS_LEND_H

#include "memory/arena/arena.h"

/* Serves the request from a free run of another arena of the pool; *ptr stays as it is if none can.
 * In the device's context, no lock held. Errors: the driver's, and TNR_ERR_HOST_MEMORY for the
 * record of the block. It is no error if no host memory is left for a loan. */
tnr_status tnri_lend(tnri_arena *arena, const tnri_request *request, void **ptr);

/* The same from other lanes of the arena's stream alone, if one has at least twice as much. Makes
 * no driver call at all, and needs no context. */
tnr_status tnri_lend_lanes(tnri_arena *arena, const tnri_request *request, void **ptr);

#endif
