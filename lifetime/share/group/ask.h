/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The side of a member that grows: what it asks of the others, what it leaves to them, and how long
 * it waits. member.h has the whole.
 */
#ifndef TNRI_GROUP_ASK_H
#define TNRI_GROUP_ASK_H

#include "base/prim/thread.h"
#include "memory/device/group.h"
#include "share/group/board.h"

/* This process in the group of one device. */
typedef struct tnri_member {
    /* Constant while it is one. */
    tnri_device *device;
    tnri_sitting at;
    tnri_system_thread thread; /* gives */
    uint64_t given_before;     /* what the seat had been given when this process took it */

    tnri_mutex turn;       /* kept while memory is given, and while that is paused */
    int is_paused;         /* of the thread that has paused it */
    _Atomic int is_ending; /* the thread ends after what it does now */

    uint64_t seen[TNRI_SEATS_MAX]; /* what each other member had asked for when the thread last
                                    * looked; the thread's */
    _Atomic uint64_t waived;       /* bytes that it asked for and wants no more */
    _Atomic uint64_t asks;         /* times that something was short */
    _Atomic uint64_t yields, yielded_bytes; /* published blocks that ended for that, here or
                                             * elsewhere; their bytes */
} tnri_member;

/* The member on a device, which may be in no group. */
tnri_member *tnri_member_on(const tnri_device *device);

/* Ends a published block of this process that yields and has no user. 1: one has ended. No lock
 * held but `turn`. */
int tnri_member_yield(tnri_member *self);

/* A member that has just joined asks for its floor. */
void tnri_ask_floor(tnri_member *self);

/* For the table of the room: tnri_upper. */
tnr_status tnri_ask_take(tnri_device *device, size_t bytes);
void tnri_ask_took(tnri_device *device, size_t asked, int64_t change);
int tnri_ask_wait(tnri_device *device, size_t bytes, tnri_asking *asking);

#endif
