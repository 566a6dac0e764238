/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing snapshots from the model, in both formats. `lost` gets a sentence for each thing that a
 * format cannot hold.
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

/* The same with a thinned history, for the report alone. `history` has "left_out": how many records
 * are missing. Rows have `live`, `retired` and `reserved` of the record's device after the record.
 * A row of the kind `left_out` has in `value` the number of records that it stands for. Returns 0,
 * or -1 without memory. */
int encode_tenure_thin(const model *snapshot, const thin *plan, output *out);

/* PyTorch's pickle, protocol 2, with the instructions that its viewer knows, consistent enough for
 * it to replay the history backwards. Returns 0, or -1 without memory. */
int encode_torch(const model *snapshot, output *out, losses *lost);

#endif
