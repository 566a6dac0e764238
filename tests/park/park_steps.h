/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of parked blocks share: a device, and a block that is parked.
 */
#ifndef TENURE_TEST_PARK_STEPS_H
#define TENURE_TEST_PARK_STEPS_H

#include "../sleep/sleep.h"

#include <tenure/park.h>

static inline void start(const char *conf, const char *schedule)
{
    unit_start(conf, schedule, "MEMORY=256M", "RACES=1", NULL);
    sleep_context_enter();
}

static inline void end(void)
{
    assert_int_equal(simcuda_races(), 0);
    sleep_context_leave();
}

/* Parks a block, all of which is chunks. */
static inline void park(void *ptr, size_t bytes, tnr_stream stream)
{
    size_t parked = 1;
    assert_ok(tnr_park(&parked, ptr, stream, TNR_CONTENT_DISCARD));
    assert_int_equal(parked, bytes);
}

#endif
