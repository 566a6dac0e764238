/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Witnesses: streams that stay known when what they allocated from is gone.
 *
 * tnr_free_sync waits for every stream that was ever allocated on and lives, and finds it by its
 * arena. An arena of the device's default pool is there until its stream ends. One of another pool
 * goes with the pool, and that of a growable block passes to another stream with its addresses. For
 * a stream that has only such arenas, or that was only ever allocated on or recorded in a capture,
 * the default pool keeps a *witness*: an arena without memory and outside of the table, which names
 * the stream until that is sealed, and then another one.
 *
 * It is made when the stream is allocated on, since only then it is certain that the stream lives.
 */
#ifndef TNRI_POOL_WITNESS_H
#define TNRI_POOL_WITNESS_H

#include "pool/pool.h"

/* Makes sure that the device knows the stream, which lives, until it is destroyed.
 * TNR_ERR_HOST_MEMORY. No lock held. */
tnr_status tnri_witness_stream(tnri_device *device, tnr_stream stream);

#endif
