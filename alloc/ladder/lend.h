/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lending: a free run goes from one world of a pool to another as it is, addresses, chunks and
 * mappings together. (Step 5 of the ladder.)
 *
 * Moving a chunk costs two mappings and a removal, each paid by the chunk. Where another world has
 * a free run that the request fits into, none of that is needed:
 *
 *   1. Under the giving arena's lock the run's whole chunks that the request needs are taken out
 *      of it (PENDING).
 *   2. This arena's stream is made to wait for the other's, as for chunks that move; unless both
 *      are lanes of one stream, which come first.
 *   3. The giving world keeps a LENT record for addresses of its own spans, so that they still tile
 *      them, and no record for addresses that it had borrowed itself (arena/world_lend.c).
 *   4. The receiving world has the addresses as a range of its own, in which it carves and merges
 *      as in a span. If they are of one of its own spans, they are just back.
 *
 * So each byte that is lent is in one LENT record, of the world whose span it lies in, and in one
 * borrowed range, of whichever world of the pool has it now. A mapping is never touched.
 *
 * What is lent consists of whole chunks, since a chunk belongs to one arena. The rest of a run goes
 * along if it is not much larger than the request. So streams that use blocks of different sizes
 * do not cut each other's runs into pieces that only moves could put together again; and it costs
 * nothing, since what a stream does not use can be lent by it in turn.
 */
#ifndef TNRI_LADDER_LEND_H
#define TNRI_LADDER_LEND_H

#include "arena/arena.h"

/* Serves the request from a free run of another arena of the pool; *ptr stays as it is if none can.
 * With `chooses`, from the arena whose run fits best, instead of the first that has one. In the
 * device's context, no lock held. Errors: the driver's, and TNR_ERR_HOST_MEMORY for the record of
 * the block; that no host memory is left for a loan is none. */
tnr_status tnri_lend(tnri_arena *arena, const tnri_request *request, int chooses, void **ptr);

/* The same from other lanes of the arena's stream alone, if one has at least twice as much: no
 * driver call at all, and no context. */
tnr_status tnri_lend_lanes(tnri_arena *arena, const tnri_request *request, void **ptr);

#endif
