/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How large new chunks are. The driver is paid by the chunk: some 30 us on an H200, whether it has
 * 2 MiB or 64. What large chunks cost is memory: one that is free but for a corner cannot move, and
 * none can be split.
 */
#ifndef TNRI_MISS_CHUNK_SIZE_H
#define TNRI_MISS_CHUNK_SIZE_H

#include "miss/plan.h"

/* Pages of the next new chunk of a plan: as many as it may have and the gap allows. */
size_t tnri_chunk_size_pages(const tnri_plan *plan);

#endif
