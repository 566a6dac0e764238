/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's membarrier, and what serves in its place: see barrier.h. */
#include "base/prim/barrier.h"

#include <errno.h>
#include <limits.h>
#include <linux/membarrier.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/prim/clock.h"

/* How long stores are given to leave their processor: a thousand times what they take. */
enum { SETTLE_NS = 2000000, NAPS_MAX = 1 << 20 };

/* Processors, by bits as the kernel wants them: more than any kernel has. */
enum { MASK_WORDS = 256, WORD_BITS = sizeof(unsigned long) * CHAR_BIT };
typedef struct processors {
    unsigned long words[MASK_WORDS];
} processors;

static int barrier_by_kernel(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

int tnri_barrier_start(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 &&
           barrier_by_kernel();
}

static int processors_set(const processors *mask, long bytes)
{
    return syscall(SYS_sched_setaffinity, 0, bytes, mask->words) == 0;
}

/* Runs on each processor that there is for this thread, one after the other. */
static void processors_visit(void)
{
    processors own, one;
    long bytes = syscall(SYS_sched_getaffinity, 0, sizeof(own), own.words);
    if (bytes <= 0)
        return;
    memset(&one, 0, sizeof(one));
    for (long i = 0; i < bytes * CHAR_BIT; i++) {
        one.words[i / WORD_BITS] = 1UL << i % WORD_BITS;
        (void)processors_set(&one, bytes); /* some are not there */
        one.words[i / WORD_BITS] = 0;
    }
    if (!processors_set(&own, bytes)) { /* they have been taken from the process meanwhile: */
        memset(&own, 0xff, sizeof(own));
        (void)processors_set(&own, bytes); /* all that it has now */
    }
}

/* Lets some time pass, even where the kernel refuses naps. */
static void stores_settle(void)
{
    uint64_t began = tnri_clock_ns();
    for (unsigned round = 0; round < NAPS_MAX && tnri_clock_ns() - began < SETTLE_NS; round++) {
        tnri_yield();
        tnri_nap(SETTLE_NS / 8);
    }
}

int tnri_barrier_run(void)
{
    int error = errno;
    int is_done = barrier_by_kernel();
    if (!is_done) {
        atomic_thread_fence(memory_order_seq_cst);
        processors_visit();
        stores_settle();
        atomic_thread_fence(memory_order_seq_cst);
    }
    errno = error;
    return is_done;
}
