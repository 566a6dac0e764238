/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A full memory barrier in all threads of this process, run from one of them. It is the price for
 * having no barrier on the fast path of the others (base/lock.h).
 *
 * The kernel does it (membarrier), in one or a few microseconds. A process may lose that later,
 * when a sandbox puts a filter on its system calls. A lock that has an owner by then cannot be
 * taken away without a barrier on the owner's processor. On x86-64 and on AArch64 something else
 * serves then: the caller runs once on each processor that it is allowed (sched_setaffinity). A
 * thread that ran there was switched out for it, and a switch of threads is a full barrier. A
 * thread that has moved meanwhile was switched, too. This costs some microseconds for each
 * processor, or a time slice if the processor is busy.
 *
 * That is not enough in every case. The filter may refuse this as well, an emulated kernel may only
 * pretend, and threads of one process may be kept on processors of their own (cpusets). So the
 * caller also lets some time pass. No architecture says when a store leaves its processor, but on
 * each processor it does so after microseconds, whatever its thread does then.
 *
 * Other ways do not serve. A change of a page's protection interrupts other processors only on some
 * x86-64 (AArch64 and newer AMD ones are told of it without an interrupt). A signal to the owner
 * needs a handler, and handlers belong to the program. A wait until the owner comes and sees by
 * itself can take without end, because the owner may be asleep. /proc tells when the owner was
 * switched, but that may take as long, and sandboxes hide /proc first.
 */
#ifndef TNRI_BASE_PRIM_BARRIER_H
#define TNRI_BASE_PRIM_BARRIER_H

/* 1 if the kernel does it for this process. Further calls do nothing. */
int tnri_barrier_start(void);

/* Returns when each thread, the calling one too, has since the call been at a point where all its
 * earlier loads and stores were done and no later one had begun. 0: the kernel has refused, and it
 * took milliseconds: better not to need it again. The calling thread's processors are then as
 * before, but fixed: the thread does not get processors that the process is allowed later. Keeps
 * errno. */
int tnri_barrier_run(void);

#endif
