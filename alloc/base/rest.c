/* SPDX-License-Identifier: Apache-2.0 */
/* Spinning, yielding and napping: see rest.h. */
#include "base/rest.h"

#include <sched.h>
#include <time.h>

enum {
    DOUBLED_MAX = 6,  /* rests each twice as long as the one before: a microsecond or two, */
    SPINS_MAX = 30,   /* then as long as the last of those: some tens of microseconds in all; */
    YIELDS_MAX = 100, /* then the holder has been preempted: let it run; */
    NAP_NS = 50000    /* then it is starved: get out of its way */
};

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
    if (round < SPINS_MAX) {
        for (unsigned i = 0; i < 1u << (round < DOUBLED_MAX ? round : DOUBLED_MAX); i++)
            rest_pause();
    } else if (round < SPINS_MAX + YIELDS_MAX) {
        sched_yield();
    } else {
        struct timespec nap = {0, NAP_NS};
        nanosleep(&nap, NULL);
    }
}
