/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See late.h.
 */
#include "late.h"

#include <stdlib.h>

int late_add(late_list *late, size_t free_op, void *block)
{
    if (late->count == late->capacity) {
        size_t capacity = late->capacity ? late->capacity * 2 : 256;
        late_block *more = realloc(late->at, capacity * sizeof(*more));
        if (!more)
            return -1;
        late->at = more;
        late->capacity = capacity;
    }
    late->at[late->count++] = (late_block){free_op, block};
    return 0;
}

void *late_take(late_list *late, size_t free_op)
{
    size_t low = 0, high = late->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (late->at[middle].free_op < free_op)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == late->count || late->at[low].free_op != free_op)
        return NULL;
    void *block = late->at[low].block;
    late->at[low].block = NULL;
    return block;
}

void *late_take_any(late_list *late)
{
    while (late->count > 0) {
        void *block = late->at[--late->count].block;
        if (block)
            return block;
    }
    return NULL;
}

void late_release(late_list *late)
{
    free(late->at);
    *late = (late_list){.count = 0};
}
