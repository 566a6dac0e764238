/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which lanes of a structure, four bytes each, have ever been something else than zero.
 *
 * A lane may be a length, or a choice. If it is zero now, and was something else before, the kernel
 * may leave the addresses beside it unread. A lane that always was zero says nothing: what lies
 * behind the last of a few dimensions, or between fields.
 *
 * Lengths may also be differences: of offsets, of where something begins and ends. So the same goes
 * for what a lane differs by from the next one, and from the one after that, which belongs to the
 * next number of eight bytes.
 *
 * Between check_enter and check_leave.
 */
#include "check/lanes.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint32_t four __attribute__((vector_size(16)));
enum { LANE = sizeof(uint32_t), FOUR = sizeof(four) };

/* Bits that were set at any launch: in the lanes themselves, and in which of them the next one, and
 * the one after that, were others. */
typedef struct lanes_four {
    four were, next, after;
} lanes_four;

struct check_lanes {
    size_t count;
    _Alignas(FOUR) lanes_four list[];
};

static check_lanes *lanes_make(size_t count)
{
    size_t bytes = sizeof(check_lanes) + count * sizeof(lanes_four);
    check_lanes *fresh = aligned_alloc(FOUR, bytes);
    if (fresh == NULL)
        return NULL;
    memset(fresh, 0, bytes);
    fresh->count = count;
    return fresh;
}

/* The lanes from a byte on; behind the end they are zero, always. */
static four lanes_at(const char *from, size_t at, size_t bytes)
{
    four here = {0};
    if (at + FOUR <= bytes)
        memcpy(&here, from + at, FOUR);
    else if (at < bytes)
        memcpy(&here, from + at, bytes - at);
    return here;
}

/* The lanes that are zero and were not before. */
static four lanes_clear(four *were, four now)
{
    four cleared = (four)(now == 0) & (four)(*were != 0);
    *were |= now;
    return cleared;
}

int check_lanes_note(check_lanes **self, const void *from, size_t bytes)
{
    four cleared = {0};
    if (*self == NULL)
        *self = lanes_make((bytes + FOUR - 1) / FOUR);
    if (*self == NULL)
        return 1;
    for (size_t i = 0; i < (*self)->count; i++) {
        lanes_four *one = &(*self)->list[i];
        four here = lanes_at(from, i * FOUR, bytes);
        cleared |= lanes_clear(&one->were, here);
        cleared |= lanes_clear(&one->next, here ^ lanes_at(from, i * FOUR + LANE, bytes));
        cleared |= lanes_clear(&one->after, here ^ lanes_at(from, i * FOUR + 2 * LANE, bytes));
    }
    return (cleared[0] | cleared[1] | cleared[2] | cleared[3]) != 0;
}
