/* SPDX-License-Identifier: Apache-2.0 */
/* An amount that comes and goes (alloc/memory/device/held.c), as it is, with the explorer's
 * atomics. */
#undef TNR_CHECK
#define TNR_CHECK 1

#include <stdint.h>

#include "base/assert.h"

#include "atomics.h"
#include "flow.h"

#undef atomic_fetch_add_explicit
#define atomic_fetch_add_explicit(object, amount, order)                                           \
    __extension__({                                                                                \
        uint64_t model_before = atomic_load_explicit(object, memory_order_relaxed);                \
        while (!atomic_compare_exchange_strong_explicit(                                           \
            object, &model_before, model_before + (amount), order, memory_order_relaxed))          \
            ;                                                                                      \
        model_before;                                                                              \
    })

#include "memory/device/held.c"

static tnri_flow flow;

static void start_empty(void)
{
    explorer_atomic(&flow.came, sizeof(flow.came));
    explorer_atomic(&flow.gone, sizeof(flow.gone));
    explorer_atomic(&flow.peak, sizeof(flow.peak));
}

enum { COME_MAX = 3 }; /* in all */

static void must_be_sane(uint64_t amount)
{
    if (amount > COME_MAX)
        explorer_failed("no more is there than ever came", __LINE__);
}

/* Thread 0's come and go, one after the other. Thread 1's comes, and it looks. */
static void run_one_comes_as_others_go(int thread)
{
    for (int left = thread == 0 ? 2 : 0; left > 0; left--) {
        tnri_flow_come(&flow, 1);
        tnri_flow_go(&flow, 1);
    }
    if (thread == 0)
        return;
    tnri_flow_come(&flow, 1);
    must_be_sane(tnri_flow_now(&flow));
    must_be_sane(atomic_load_explicit(&flow.peak, memory_order_relaxed));
}

const explorer_program flow_program = {"one comes while others go", 2, start_empty,
                                       run_one_comes_as_others_go, 0};
