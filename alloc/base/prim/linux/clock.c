/* SPDX-License-Identifier: Apache-2.0 */
/* See clock.h. */
#include "base/prim/clock.h"

#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

uint64_t tnri_clock_epoch_ns(void)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void tnri_yield(void)
{
    (void)sched_yield();
}

/* The C library's nanosleep would be a point at which threads are cancelled. */
void tnri_nap(uint64_t ns)
{
    struct timespec nap = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    (void)syscall(SYS_nanosleep, &nap, NULL);
}
