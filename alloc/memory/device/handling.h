/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has physical memory in hand: a thread that takes it from the driver for a request, moves it,
 * or gives it back. Meanwhile it is in no arena, and the driver does not have it either.
 *
 * A request that lacks memory at such a moment would be refused though there is enough. So
 * before it is refused, if others were at it, it tries with the device to itself, a few times:
 * those inside are waited for, and those who want to enter wait. Who is inside asks the driver
 * and takes locks of arenas, pools and streams; it waits for no request, takes no lock of the
 * graphs, and calls nobody's functions (owners of segments are called from outside), so it
 * always leaves. Work of the device may itself wait for a thread that wants memory, so it is
 * waited for from outside, too, except where addresses run out.
 */
#ifndef TNRI_DEVICE_HANDLING_H
#define TNRI_DEVICE_HANDLING_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct tnri_handling {
    /* Synchronisation: atomics. */
    _Atomic uint64_t inside;   /* low half: threads that have memory in hand, or have just begun to
                                * look; high half: how often threads have entered, modulo 2^32 */
    _Atomic uint32_t is_alone; /* 1: a thread has the device alone, or waits for those inside */
} tnri_handling;

/* Around all that takes memory from where others find it. May be nested. Waits while another thread
 * has the device alone. No lock held but that of the graphs. */
void tnri_handling_enter(tnri_handling *handling);
void tnri_handling_leave(tnri_handling *handling);

/* How often other threads than the calling one have left. To be compared with an earlier answer, if
 * this thread has entered on no other device meanwhile. Not from inside. */
uint32_t tnri_handling_others(const tnri_handling *handling);
/* 1 if others were inside since that answer. Not from inside. */
int tnri_handling_was_met(const tnri_handling *handling, uint32_t others);

/* Waits until no other thread is inside, and keeps them out. Not from inside. No lock held but that
 * of the graphs. */
void tnri_handling_alone_begin(tnri_handling *handling);
void tnri_handling_alone_end(tnri_handling *handling);
/* 1 if this thread keeps others out: then it waits for no work. */
int tnri_handling_is_alone(void);

#endif
