/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member: this process in the group that its settings name, on one device. docs/elastic.md is for
 * people.
 *
 * A member that grows adds to what it has asked for, and rings. A thread of each other member then
 * gives idle memory back to the driver: as much as was asked for and as its floor allows. A member
 * that finds the device full does the same and waits, until enough was given, all have answered, or
 * the setting group_wait_ms is over. A member that has not answered by then is silent; none waits
 * for it again until it has answered. No process ever waits for a lock of another.
 *
 * A floor binds the other members. A member that would grow beyond its own floor asks the driver
 * what is left, and leaves what the others lack up to their floors. If two grow at once, each sees
 * what the other is about to take, because both say so before they look.
 *
 * A limit binds all members together, and is kept in the same way: what they have, and what they
 * are about to take, never exceeds it. A member that finds it reached asks as if the device were
 * full.
 */
#ifndef TNRI_GROUP_MEMBER_H
#define TNRI_GROUP_MEMBER_H

#include "share/group/board.h"

/* A member as `tenure ctl` tells of it. */
typedef struct tnri_member_seen {
    int process;
    int is_self;
    int is_silent; /* it did not answer when it was last waited for */
    char program[TNRI_PROGRAM_BYTES];
    uint64_t floor_bytes, ceiling_bytes, limit_bytes; /* UINT64_MAX: none */
    uint64_t reserved_bytes, gave_bytes;
} tnri_member_seen;

/* Tells of the next member of this process's group on a device, at a seat from *seat on; *seat
 * moves behind it. 0: there is none any more. Not to be called while the device is put out of
 * use. */
int tnri_member_next(tnri_member_seen *seen, int *seat, int device);

#endif
