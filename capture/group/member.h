/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member: this process in the group that its settings name, on one device. docs/elastic.md is for
 * people.
 *
 * Who grows adds to what it has asked for, and rings; a thread of each other member gives as much
 * of its idle memory back to the driver as was asked for and as its floor allows. Who finds the
 * device full does the same and waits: until enough was given, all have answered, or the setting
 * group_wait_ms is over. Who has not answered by then is silent, and is not waited for again until
 * it has. Nobody ever waits for a lock of another process.
 *
 * A floor binds the others: who would grow by more than its own floor asks the driver what is left,
 * and leaves what others lack up to theirs. Two that grow at once each see what the other is about
 * to take, since both say so before they look.
 */
#ifndef TNRI_GROUP_MEMBER_H
#define TNRI_GROUP_MEMBER_H

#include "group/board.h"

/* A member as `tenure ctl` tells of it. */
typedef struct tnri_member_seen {
    int process;
    int is_self;
    int is_silent; /* it did not answer when it was last waited for */
    char program[TNRI_PROGRAM_BYTES];
    uint64_t floor_bytes, ceiling_bytes; /* UINT64_MAX: none */
    uint64_t reserved_bytes, gave_bytes;
} tnri_member_seen;

/* Tells of the members of this process's group on a device, at seats from *seat on, which moves
 * behind the one that was found. 0: there is none any more. Not while the device is put out of
 * use. */
int tnri_member_next(tnri_member_seen *seen, int *seat, int device);

#endif
