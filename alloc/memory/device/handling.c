/* SPDX-License-Identifier: Apache-2.0 */
/* Who has physical memory in hand: see handling.h. */
#include "memory/device/handling.h"

#include "base/assert.h"
#include "base/lock.h"
#include "base/rest.h"

#define ENTERED (UINT64_C(1) << 32)

/* One object, which is found once in each call. */
static _Thread_local struct {
    unsigned depth;   /* enters of this thread that are not left */
    uint32_t entered; /* outermost ones, ever */
    int is_alone;
} own;

static uint32_t threads_inside(const tnri_handling *handling)
{
    return (uint32_t)atomic_load(&handling->inside);
}

void tnri_handling_enter(tnri_handling *handling)
{
    tnri_assert_none_held();
    if (own.depth++ > 0)
        return;
    own.entered++;
    for (unsigned round = 0;; round++) {
        atomic_fetch_add(&handling->inside, ENTERED + 1);
        if (tnri_likely(atomic_load(&handling->is_alone) == 0))
            return;
        atomic_fetch_sub(&handling->inside, ENTERED + 1);
        tnri_rest(round);
    }
}

void tnri_handling_leave(tnri_handling *handling)
{
    tnri_assert(own.depth > 0);
    if (--own.depth == 0)
        atomic_fetch_sub(&handling->inside, 1);
}

uint32_t tnri_handling_others(const tnri_handling *handling)
{
    uint64_t now = atomic_load(&handling->inside);
    return (uint32_t)(now >> 32) - (uint32_t)now - own.entered;
}

int tnri_handling_was_met(const tnri_handling *handling, uint32_t others)
{
    return threads_inside(handling) != 0 || tnri_handling_others(handling) != others;
}

void tnri_handling_alone_begin(tnri_handling *handling)
{
    tnri_assert_none_held();
    tnri_assert(own.depth == 0);
    for (unsigned round = 0; atomic_exchange(&handling->is_alone, 1) != 0; round++)
        tnri_rest(round);
    for (unsigned round = 0; threads_inside(handling) != 0; round++)
        tnri_rest(round);
    own.depth = 1;
    own.is_alone = 1;
}

void tnri_handling_alone_end(tnri_handling *handling)
{
    tnri_assert(own.depth == 1);
    own.depth = 0;
    own.is_alone = 0;
    atomic_store(&handling->is_alone, 0);
}

int tnri_handling_is_alone(void)
{
    return own.is_alone;
}
