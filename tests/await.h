/* SPDX-License-Identifier: Apache-2.0 */
/* What another thread, another process or the system does in its own time is waited for, and never
 * taken for done: on a busy machine a thread that could go on may get no processor for seconds. For
 * CMocka's programs, and there for the thread that runs the test. */
#ifndef TNRI_TESTS_AWAIT_H
#define TNRI_TESTS_AWAIT_H

#include <time.h>

/* What has not come after ten minutes never does. It is less than the deadline of a test, so that
 * the test says what it waited for. */
enum { AWAIT_SECONDS = 600 };

/* Rests for a millisecond. 0 if the time is up; *end is 0 at first. */
static inline int await_rest(time_t *end)
{
    const struct timespec rest = {0, 1000000};
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    if (*end == 0)
        *end = now.tv_sec + AWAIT_SECONDS;
    (void)nanosleep(&rest, NULL);
    return now.tv_sec < *end;
}

/* Asks every millisecond, so the condition may do something each time, such as a trim. */
#define await_true(condition)                                                                      \
    do {                                                                                           \
        time_t await_end = 0;                                                                      \
        while (!(condition))                                                                       \
            if (!await_rest(&await_end))                                                           \
                fail_msg("after %d s not yet: %s", (int)AWAIT_SECONDS, #condition);                \
    } while (0)

#endif
