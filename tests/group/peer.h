/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member of a group: another process, which allocates and frees as it is told. It is the same
 * program, started anew with the word "peer". The test itself uses no device.
 *
 * The programs are linked so that what a member does comes by here, in steps: calls of the system
 * and of the driver, rings, waits, and looks at others. A peer may be killed or stopped at any of
 * them.
 */
#ifndef TENURE_TESTS_GROUP_PEER_H
#define TENURE_TESTS_GROUP_PEER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include <tenure/tenure.h>

#define MIB ((size_t)1 << 20)

enum { PEER_SLOTS = 4096 };

typedef enum peer_order {
    PEER_MALLOC, /* into slot a, b bytes; they are marked */
    PEER_FREE,   /* slot a, whose bytes are still marked */
    PEER_STATS,
    PEER_TRIM,
    PEER_WORK,     /* queues work on slot a, which the device does not do before it is waited for */
    PEER_KILL_AT,  /* ends at step a of those from now on; 0: never */
    PEER_STOP_AT,  /* the same, stops */
    PEER_STEPS,    /* how many there were since the latest of these two: value */
    PEER_STATUS,   /* answers the text that `tenure ctl status` is made of */
    PEER_SNAPSHOT, /* into device.json in the folder */
    PEER_SLEEP,    /* the device's memory, contents kept */
    PEER_WAKE,
    PEER_SHUTDOWN,
    PEER_RANDOM,  /* a operations drawn from seed b */
    PEER_FORK,    /* a child that waits for a minute; value: its number */
    PEER_WAIT_MS, /* sets group_wait_ms to a */
    PEER_REFUSE,  /* the driver refuses call b of those that peer_calls[a] names; b 0: no more */
    PEER_OTHER,   /* what the program has set peer_other to, with a and b */
} peer_order;

extern tnr_status (*peer_other)(uint64_t a, uint64_t b);

extern const char *const peer_calls[];

typedef struct peer_answer {
    int64_t status; /* of the call */
    uint64_t value, ns;
    tnr_stats stats; /* PEER_STATS, PEER_RANDOM */
    char text[4096];
} peer_answer;

typedef struct peer {
    pid_t process;
    int file;
} peer;

/* What a peer's main does. Returns its exit code. */
int peer_work(void);

/* Makes a folder for groups and for the device that the peers have in common, of so many MiB. */
void peers_begin(unsigned device_mib);
/* Removes them. */
int peers_end(void **state);

/* Starts one with settings that are added to its folder's. */
peer peer_start(const char *conf);

/* Gives an order, and waits for the answer. 0: it has ended. */
int peer_ask(const peer *to, peer_order what, uint64_t a, uint64_t b, peer_answer *said);
/* The two halves of it. */
int peer_tell(const peer *to, peer_order what, uint64_t a, uint64_t b);
int peer_hear(const peer *from, peer_answer *said);
/* For what must succeed. */
peer_answer peer_must(const peer *to, peer_order what, uint64_t a, uint64_t b);
/* For what must fail with a status, and a text in its sentence. */
peer_answer peer_must_fail(const peer *to, peer_order what, uint64_t a, uint64_t b,
                           tnr_status status, const char *text);
/* What it has mapped. */
uint64_t peer_reserved(const peer *of);
/* Waits until it has mapped at most so much: what is given without a wait takes a moment. */
void peer_awaits(const peer *of, uint64_t reserved_most);

/* Ends it. Returns 1 if it went of itself, with everything in order. */
int peer_end(peer *gone);
void peer_kill(peer *gone);
void peer_stop(const peer *who);
void peer_go_on(const peer *who);

/* 1 if the whole device can be had by a process that starts now. */
int peers_left_nothing(unsigned device_mib);

const char *peers_folder(void);

#endif
