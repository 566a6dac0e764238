/* SPDX-License-Identifier: Apache-2.0 */
/* Spinning, yielding and napping: see rest.h. */
#include "base/rest.h"

#include "base/heuristics.h"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline void rest_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void tnri_rest(unsigned round)
{
    if (round < TNRI_REST_SPINS) {
        for (unsigned i = 0; i < 1u << (round < TNRI_REST_DOUBLED ? round : TNRI_REST_DOUBLED); i++)
            rest_pause();
    } else if (round < TNRI_REST_SPINS + TNRI_REST_YIELDS) {
        sched_yield();
    } else {
        struct timespec nap = {0, TNRI_REST_NAP_NS};
        (void)syscall(SYS_nanosleep, &nap, NULL); /* who waits for a lock is not cancelled there */
    }
}
