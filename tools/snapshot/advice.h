/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What would lower the peak, and to what value: from the picture and its history alone.
 *
 * A history says when blocks were allocated and freed, but not when they were used. So blocks that
 * are idle while they live are not found. Found is memory that is held for the whole history,
 * waits, is rounded, or keeps a segment that is nearly empty.
 */
#ifndef TENURE_TOOLS_ADVICE_H
#define TENURE_TOOLS_ADVICE_H

#include "model.h"

typedef enum advice_kind {
    ADVICE_KEPT,    /* allocated in the first tenth of the history, or before, and still live */
    ADVICE_WAITING, /* freed, and not free yet */
    ADVICE_ROUNDED, /* set aside beyond what was asked for */
    ADVICE_PINNED,  /* free, in segments of which blocks use at most a tenth */
    ADVICE_KINDS_COUNT,
} advice_kind;

extern const char *const advice_names[ADVICE_KINDS_COUNT];

typedef struct advice {
    advice_kind kind;
    uint32_t device; /* place in devices */
    uint32_t stack;  /* of the blocks that are kept, or that pin; else 0 */
    uint64_t blocks; /* kept, or that pin; else 0 */
    uint64_t bytes;  /* kept; at the most, or rounded, at the peak; or free */
    /* What the peak of memory in use would be; of ADVICE_PINNED, what would be reserved now. */
    uint64_t without_bytes;
} advice;

typedef struct advice_peak {
    uint64_t in_use; /* live and waiting memory, as it is set aside: the most there ever was */
    uint64_t live;   /* the most without what waits */
    uint64_t asked;  /* the most without rounding of what is live */
    uint64_t early;  /* in_use in the first tenth of the history alone */
    size_t records;  /* of the history, how many came before in_use was that high, the last time */
} advice_peak;

/* Finds the advice, largest saving first, and the peaks of each device. Without a history the peaks
 * are those of the picture. Returns 0, or -1 without memory. The caller releases both in both
 * cases. */
int advice_find(const model *in, array *result, array *peaks);
void advice_release(const model *in, array *result, array *peaks);

#endif
