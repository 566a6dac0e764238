/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which lanes of a structure, four bytes each, have ever been something else than zero.
 *
 * A lane may be a length, or a choice. If it is zero now, and was something else before, the kernel
 * may leave the addresses beside it unread. A lane that always was zero says nothing: what lies
 * behind the last of a few dimensions, or between fields.
 *
 * Between check_enter and check_leave.
 */
#include "check/lanes.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint32_t four __attribute__((vector_size(16)));
enum { FOUR = sizeof(four) };

struct check_lanes {
    size_t count;
    four were[]; /* the bits that were set at any launch */
};

static check_lanes *lanes_make(size_t count)
{
    size_t bytes = sizeof(check_lanes) + count * FOUR;
    check_lanes *fresh = aligned_alloc(FOUR, bytes);
    if (fresh == NULL)
        return NULL;
    memset(fresh, 0, bytes);
    fresh->count = count;
    return fresh;
}

int check_lanes_note(check_lanes **self, const void *from, size_t bytes)
{
    four cleared = {0};
    if (*self == NULL)
        *self = lanes_make((bytes + FOUR - 1) / FOUR);
    if (*self == NULL)
        return 1;
    four *were = (*self)->were;
    for (size_t i = 0; i < (*self)->count; i++) {
        size_t left = bytes - i * FOUR;
        four here = {0}; /* behind the end always */
        memcpy(&here, (const char *)from + i * FOUR, left < FOUR ? left : FOUR);
        cleared |= (four)(here == 0) & (four)(were[i] != 0);
        were[i] |= here;
    }
    return (cleared[0] | cleared[1] | cleared[2] | cleared[3]) != 0;
}
