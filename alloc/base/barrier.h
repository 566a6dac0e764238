/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A full memory barrier in all threads of this process, run from one of them: the price of the
 * others having none on their fast path (base/lock.h).
 */
#ifndef TNRI_BASE_BARRIER_H
#define TNRI_BASE_BARRIER_H

/* 1 if the kernel can do it for this process. Again and again does nothing. */
int tnri_barrier_start(void);

/* Returns when each other thread has, since the call, been at a point where all its earlier loads
 * and stores were done and no later one had begun; the calling one, too. After a successful
 * start. */
void tnri_barrier_run(void);

#endif
