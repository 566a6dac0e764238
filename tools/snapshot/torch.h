/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What PyTorch calls things in its snapshots.
 */
#ifndef TENURE_TOOLS_TORCH_H
#define TENURE_TOOLS_TORCH_H

typedef enum torch_action {
    TORCH_ALLOC,
    TORCH_FREE_REQUESTED,
    TORCH_FREE_COMPLETED,
    TORCH_SEGMENT_ALLOC,
    TORCH_SEGMENT_FREE,
    TORCH_SEGMENT_MAP,
    TORCH_SEGMENT_UNMAP,
    TORCH_SNAPSHOT,
    TORCH_OOM,
    TORCH_ANNOTATE,
    TORCH_ACTIONS_COUNT,
} torch_action;

extern const char *const torch_actions[TORCH_ACTIONS_COUNT];

/* The reason of `map` and `unmap` records that were a segment_alloc and a segment_free. */
#define TORCH_REASON_SEGMENT "segment"

#endif
