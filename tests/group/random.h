/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a member does at random: blocks of all sizes, pools and streams come and go, with work on
 * them; memory sleeps, is trimmed, published, attached, taken over. Equal seeds draw equal
 * operations. Every block has its bytes looked at before it goes, and every attached one says
 * itself what must be in it.
 */
#ifndef TENURE_TESTS_GROUP_RANDOM_H
#define TENURE_TESTS_GROUP_RANDOM_H

#include "peer.h"

enum {
    RANDOM_OPERATIONS = 1, /* `count` of them, drawn from `seed` */
    RANDOM_ALONE = 2,      /* the same; the other process does not answer: nothing of it is asked */
    RANDOM_REFUSED = 3,    /* the same; the driver may refuse calls */
    RANDOM_CLOSE = 4,      /* closes what is of others */
    RANDOM_END = 5,        /* gives everything up, and waits for all work; count 1: also what sleeps
                            * and finds no room to wake */
    RANDOM_LEAVE = 6,      /* lets go of streams and context */
    RANDOM_FULL = 7,       /* operations; there is no room for files */
    RANDOM_TELL = 8,       /* prints what it has of others, and they of it */
};

/* Ends the process with a sentence if anything is not as it must be. TNR_ERR_ASLEEP: its memory
 * sleeps, and finds no room to wake. */
tnr_status random_operate(uint64_t what, uint64_t count, uint64_t seed);

#endif
