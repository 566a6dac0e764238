/* SPDX-License-Identifier: Apache-2.0 */
/* See clock.h. */
#include "base/prim/clock.h"

#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

uint64_t tnri_clock_epoch_ns(void)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* x86-64 says so in a leaf of its own: "invariant TSC". */
int tnri_counter_is_good(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8) != 0;
#else
    return 1;
#endif
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
