/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A full memory barrier in all threads of this process, run from one of them: the price of the
 * others having none on their fast path (base/lock.h).
 *
 * The kernel does it (membarrier), in a microsecond or some. A process may lose that later, when a
 * sandbox puts a filter on its system calls, and a lock that has an owner by then cannot be taken
 * away without a barrier on the owner's processor. What serves then, on x86-64 and on AArch64: the
 * caller runs once on each processor that it is allowed (sched_setaffinity). Whoever ran there has
 * been switched for it, and a switch of threads is a full barrier; who has moved meanwhile was
 * switched, too. It costs some microseconds for each processor, or a time slice if that is busy.
 *
 * It is not the whole answer: the filter may refuse this as well, an emulated kernel may only
 * pretend, and threads of one process may be kept on processors of their own (cpusets). So the
 * caller also lets some time pass. No architecture says when a store leaves its processor, but
 * each processor has an end to it, after microseconds and whatever its thread does then.
 *
 * What does not serve: to change a page's protection interrupts other processors on some x86-64
 * only (AArch64 and newer AMD ones are told of it without an interrupt); a signal to the owner
 * needs a handler, which is the program's; to wait until the owner comes and sees by itself can
 * take for ever, because it may be asleep; /proc tells when it was switched, which may take as
 * long, and is what sandboxes hide first.
 */
#ifndef TNRI_BASE_BARRIER_H
#define TNRI_BASE_BARRIER_H

/* 1 if the kernel does it for this process. Again and again does nothing. */
int tnri_barrier_start(void);

/* Returns when each other thread has, since the call, been at a point where all its earlier loads
 * and stores were done and no later one had begun; the calling one, too. 0: the kernel has refused,
 * and it took milliseconds: better not to need it again. The calling thread's processors are as
 * before then, but set: it does not get those that the process is allowed later. Keeps errno. */
int tnri_barrier_run(void);

#endif
