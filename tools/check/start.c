/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the checker is on: see check.h. */
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "check/findings.h"
#include "check/pinned.h"
#include "check/places.h"
#include "check/race.h"
#include "driver.h"

_Atomic int check_state = -1;

int check_begin(void)
{
    int state = atomic_load(&check_state);
    const char *wanted = getenv("TENURE_PRELOAD_CHECK");
    const char *recorded = getenv("TENURE_PRELOAD_RECORD");
    if (state >= 0)
        return state;
    state = wanted != NULL && strcmp(wanted, "1") == 0 ? CHECK_REPORTS : 0;
    if (recorded != NULL && strcmp(recorded, "seen") == 0)
        state |= CHECK_RECORDS;
    if (recorded != NULL && strcmp(recorded, "all") == 0)
        state |= CHECK_SYNCS;
    atomic_store(&check_state, state);
    return state;
}

static void driver_found(void)
{
    check_state_hold();
    check_races_begin();
    check_pinned_driver();
}

/* Before the program runs; and the unwinder, which is loaded when it is first used. */
__attribute__((constructor)) static void begin_early(void)
{
    if ((check_begin() & CHECK_REPORTS) == 0)
        return;
    check_stack room;
    (void)check_stack_here(&room);
    check_findings_begin();
    check_pinned_begin();
    atomic_store(&driver_when_found, driver_found);
    if (atomic_load(&driver_is_found))
        driver_found(); /* a library's constructor was here before */
}
