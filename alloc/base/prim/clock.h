/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked of the system: the time, and to wait.
 *
 * The headers of this folder are all that Tenure asks of the system, one for each subject, so that
 * a source names what it needs and a port can be made a subject at a time. linux/ is the one
 * implementation. What lies on a hot path is inline here. No other source of the layers includes a
 * header that is not ISO C's (tests/layers/check_seams.py).
 */
#ifndef TNRI_BASE_PRIM_CLOCK_H
#define TNRI_BASE_PRIM_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of a clock that never goes back. */
static inline uint64_t tnri_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Nanoseconds since 1970. It may be set, and go back. */
uint64_t tnri_clock_epoch_ns(void);

/* The processor's counter, which runs at one rate in all its states; without one, the clock. It is
 * read without a barrier. */
static inline uint64_t tnri_counter(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc(); /* the header of __rdtsc() is 30,000 lines */
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return tnri_clock_ns();
#endif
}
/* 0: its rate changes. */
int tnri_counter_is_good(void);

/* Leaves the processor to other threads. */
void tnri_yield(void);
/* Sleeps for that long, or less: the system may refuse, and a signal ends it. The thread is not
 * cancelled in it. */
void tnri_nap(uint64_t ns);
/* Tells the processor that the thread spins. */
static inline void tnri_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
