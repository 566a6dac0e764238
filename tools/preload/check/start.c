/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the checker is on: see check.h. */
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "check/places.h"

_Atomic int check_state = -1;

int check_begin(void)
{
    int state = atomic_load(&check_state);
    const char *wanted = getenv("TENURE_PRELOAD_CHECK");
    if (state >= 0)
        return state;
    state = wanted != NULL && strcmp(wanted, "1") == 0;
    atomic_store(&check_state, state);
    return state;
}

/* Before the program runs; and the unwinder, which is loaded when it is first used. */
__attribute__((constructor)) static void begin_early(void)
{
    if (check_begin())
        (void)check_stack_here();
}
