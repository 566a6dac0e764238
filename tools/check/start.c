/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the checker is on: see check.h. */
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "check/ending.h"
#include "check/findings.h"
#include "check/launch.h"
#include "check/pinned.h"
#include "check/places.h"
#include "check/race.h"
#include "check/waste.h"
#include "driver.h"

_Atomic int check_state = -1;

int check_begin(void)
{
    int state = atomic_load(&check_state);
    const char *wanted = getenv("TENURE_PRELOAD_CHECK");
    const char *recorded = getenv("TENURE_PRELOAD_RECORD");
    const char *idle = getenv("TENURE_PRELOAD_WASTE");
    if (state >= 0)
        return state;
    state = wanted != NULL && strcmp(wanted, "1") == 0 ? CHECK_REPORTS : 0;
    if (recorded != NULL && strcmp(recorded, "seen") == 0)
        state |= CHECK_RECORDS;
    if (recorded != NULL && strcmp(recorded, "all") == 0)
        state |= CHECK_SYNCS;
    if ((state & CHECK_REPORTS) == 0 && idle != NULL && *idle != '\0') {
        state |= CHECK_WASTE;
        check_waste_begin(strtoull(idle, NULL, 10) * 1000 * 1000);
        check_launches_time();
    }
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
    if (check_begin() != 0)
        check_ending_begin();
    if ((check_begin() & (CHECK_REPORTS | CHECK_WASTE)) == 0)
        return;
    check_stack room;
    (void)check_stack_of_block(&room);
    check_findings_begin();
    check_pinned_begin();
    atomic_store(&driver_when_found, driver_found);
    if (atomic_load(&driver_is_found))
        driver_found(); /* a library's constructor was here before */
}
