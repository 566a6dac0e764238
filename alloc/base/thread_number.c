/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of threads: see thread_number.h. */
#include "base/thread_number.h"

#include <stdatomic.h>

uint64_t tnri_thread_number(void)
{
    static _Atomic uint64_t last;
    static _Thread_local uint64_t own; /* 0: not given yet */
    if (own == 0)
        own = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    return own;
}
