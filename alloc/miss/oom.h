/* SPDX-License-Identifier: Apache-2.0 */
/* Running out of memory: the user's callback, and the report. */
#ifndef TNRI_MISS_OOM_H
#define TNRI_MISS_OOM_H

#include "memory/pool/pool.h"

/* The stream on which the calling thread asks for memory of a graph. */
extern _Thread_local tnr_stream tnri_oom_asks_on;
/* The stream on which the calling thread asks for memory of an arena. */
tnr_stream tnri_oom_stream(const tnri_arena *arena);

/* Asks the user's callback, if there is one, about a request that has just met a shortage;
 * tnri_chunk_lacks says which one. Returns 1 if the callback says that it has freed something. No
 * lock is held. */
int tnri_oom_callback_run(const tnri_arena *arena, const tnri_request *request);

/* Writes the report for a request that failed with `status` (TNR_ERR_OUT_OF_MEMORY or
 * TNR_ERR_LIMIT) as the thread's last error, and returns the status. In the device's context. */
tnr_status tnri_oom_report(tnri_arena *arena, const tnri_request *request, tnr_status status);

#endif
