/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A finding as it is kept after the block, its streams and the code may be gone; and what is said
 * of it. Only the count changes afterwards, so the rest is read without the lock. The functions ask
 * the loader, and are called without the lock.
 */
#ifndef TENURE_PRELOAD_CHECK_KEPT_H
#define TENURE_PRELOAD_CHECK_KEPT_H

#include "check/findings.h"
#include "check/suppress.h"
#include "check/text.h"

/* One side of a finding. */
typedef struct check_side {
    check_touch touch; /* its place is null: there is no such side */
    const char *label; /* the program's name for the stream; null: it has none */
    const char *is;    /* "used", "freed", "allocated" */
} check_side;

/* The sides in the order in which they came about. */
typedef enum check_side_index {
    CHECK_SIDE_MADE,
    CHECK_SIDE_BEFORE, /* the free of the block that had the memory */
    CHECK_SIDE_EARLIER,
    CHECK_SIDE_LATER,
    CHECK_SIDE_COUNT
} check_side_index;

struct check_kept {
    check_kind kind;
    int is_certain;
    CUdeviceptr base, address;
    CUdeviceptr base_before; /* of the block that had the memory, if that side is there */
    size_t bytes;
    size_t touched; /* bytes from the address on, if that is what is wrong */
    int device;
    int is_made_earlier; /* the earlier side is the allocation */
    check_side sides[CHECK_SIDE_COUNT];
    const char *means;            /* why it is not certain although the use is; null: it is */
    check_kept *leader;           /* that the same call would mend, and was said; null: itself */
    uint64_t pairs, times_of_all; /* of those that it leads, and itself; counted at the end */
    uint64_t times;               /* under the lock */
    uint64_t met;                 /* races that it has led to, on the simulated device; the same */
    _Atomic uint64_t number;      /* as it was said; 0: not yet, or never */
    _Atomic int is_suppressed;
};

extern const char *const check_kind_keys[];

/* For people, and one line of JSON. */
void check_kept_text(check_text *to, const check_kept *one);
void check_kept_json(check_text *to, const check_kept *one);

/* One side alone, with its stack. */
void check_side_text(check_text *to, const check_side *side);

/* The same as a member of an object of JSON, after a comma. */
void check_side_json(check_text *to, const char *key, const check_side *side);

/* 1 if it rests on a word that may be no address. */
int check_kept_may_be_none(const check_kept *one);

/* 1 if right programs have such findings: they are printed only on request. */
int check_kept_is_doubted(const check_kept *one);

/* The rule that suppresses it; -1: none. */
int check_kept_rule(const check_kept *one, const suppress_rules *rules);

/* Where findings are said, and --waste: what `tenure run` prints, with lines of the source if
 * frames have their places behind them, and should, if the second says 1; and the lines for
 * machines. Without the lock: findings.c. */
void check_said_write(const check_text *from);
int check_said_has_places(void);
void check_json_write(const check_text *from);

#endif
