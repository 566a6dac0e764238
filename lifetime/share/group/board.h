/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A board: the file in which the members of a group on one device see each other. It lies in the
 * folder where processes of a user are found (folder.h). All members map it, and it stays when all
 * have gone.
 *
 * A member has a seat, and a lock on the byte of that number. The kernel lets go of the lock when
 * the process ends, however it ends; forked children never have it. So a member asks the kernel
 * whether another one lives, and the answer is right across containers too. A seat without a lock
 * can be taken by the next process. No member ever waits for a lock. Everything else is atomics: a
 * member that is stopped at any instruction keeps no other from anything.
 *
 * Numbers of bytes that only grow go on from one owner of a seat to the next. So a member that
 * remembers such a sum of the former owner sees no sudden difference.
 */
#ifndef TNRI_GROUP_BOARD_H
#define TNRI_GROUP_BOARD_H

#include <stdatomic.h>
#include <stdint.h>

#include <tenure/status.h>

enum { TNRI_SEATS_MAX = 64, TNRI_PROGRAM_BYTES = 32 };

/* Written by its owner, except where it says otherwise. */
typedef struct tnri_seat {
    _Alignas(64) _Atomic int32_t process; /* as it sees itself; 0: the seat is free */
    char program[TNRI_PROGRAM_BYTES];     /* written before `process` */
    _Atomic uint64_t floor_bytes, ceiling_bytes;
    _Atomic uint64_t reserved_bytes; /* that it has of the device */
    _Atomic uint64_t coming_bytes;   /* that it is asking the driver for now */
    _Atomic uint64_t gave_bytes;     /* for others, since it sits here */
    _Atomic uint64_t asked_bytes;    /* of others: only grows */
    _Atomic uint64_t given_bytes;    /* of that, by others: they add */
    _Atomic uint32_t short_count;    /* its threads that wait for what they asked for */

    _Atomic uint32_t rings;       /* others add one, and wake the member that waits for it */
    _Atomic uint32_t urgent;      /* likewise: rings whose sender waits for the answer */
    _Atomic uint32_t answered;    /* which ring was answered last */
    _Atomic uint32_t is_silent;   /* set by a member that waited in vain, until this one answers
                                 * again */
    _Atomic uint64_t limit_bytes; /* of all members together; UINT64_MAX: none */
} tnri_seat;

typedef struct tnri_board {
    _Atomic uint64_t magic;
    _Atomic uint32_t answers; /* grows with every answer of anybody; askers wait for that */
    tnri_seat seats[TNRI_SEATS_MAX];
} tnri_board;

/* A board that this process sits at. */
typedef struct tnri_sitting {
    tnri_board *board; /* null: it does not */
    int file, own;     /* its descriptor; the number of the seat */
} tnri_sitting;

/* Opens a board in a folder, makes it if it is not there and `may_make`, and takes a seat. Errors:
 * TNR_ERR_FILE, TNR_ERR_BUSY (all seats are taken). */
tnr_status tnri_board_sit(tnri_sitting *sitting, int folder, const char *path, const char *name,
                          int may_make);

/* Gives the seat up. `is_leaving` 0: what the seat says stays until somebody sees that its owner
 * has gone. */
void tnri_board_rise(tnri_sitting *sitting, int is_leaving);

/* In a forked child: lets go of what is the parent's. */
void tnri_board_forget(tnri_sitting *sitting);

static inline tnri_seat *tnri_seat_own(const tnri_sitting *sitting)
{
    return &sitting->board->seats[sitting->own];
}

/* 1 if somebody else sits there and lives. */
int tnri_seat_lives(const tnri_sitting *sitting, int seat);

/* If the process that sat there has ended, clears the seat. Returns the bytes that it had of the
 * device, at least 1; the driver may be about to get them back. 0: no member has ended there. */
uint64_t tnri_seat_clear_dead(const tnri_sitting *sitting, int seat);

#endif
