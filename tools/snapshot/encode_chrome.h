/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a snapshot's history to trace events as JSON, which Perfetto and Chrome's trace viewer open:
 * docs/snapshot-tool.md says what is in it.
 */
#ifndef TENURE_TOOLS_ENCODE_CHROME_H
#define TENURE_TOOLS_ENCODE_CHROME_H

#include "encode.h"

/* How many slices of blocks are written by default: the largest. */
enum { CHROME_SLICES = 50000 };

/* Returns 0, or -1 without memory. */
int encode_chrome(const model *snapshot, size_t slices_max, output *out, losses *lost);

#endif
