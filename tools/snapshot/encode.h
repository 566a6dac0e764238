/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing snapshots from the model, in both formats. What a format cannot hold is noted as a
 * sentence each in `lost`.
 */
#ifndef TENURE_TOOLS_ENCODE_H
#define TENURE_TOOLS_ENCODE_H

#include "model.h"
#include "output.h"
#include "thin.h"

enum { LOSSES_MAX = 24 };

typedef struct losses {
    char sentences[LOSSES_MAX][256];
    size_t count;
} losses;

__attribute__((format(printf, 2, 3))) void losses_add(losses *lost, const char *format, ...);

/* docs/snapshots.md. Loses nothing of the model. */
void encode_tenure(const model *snapshot, output *out);

/* The same with a history that is thinned, for the report alone: `history` has "left_out", how many
 * records are not there, rows have `live`, `retired` and `reserved` after the record, of its
 * device, and the kind `left_out` has in `value` for how many records a row stands. Returns 0, or
 * -1 without memory. */
int encode_tenure_thin(const model *snapshot, const thin *plan, output *out);

/* PyTorch's pickle, protocol 2, with the instructions that its viewer knows, consistent enough for
 * it to replay the history backwards. Returns 0, or -1 without memory. */
int encode_torch(const model *snapshot, output *out, losses *lost);

#endif
