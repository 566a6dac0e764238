/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was found: said once for each pair of places, counted when it repeats, summed up at the end.
 * Between check_enter and check_leave.
 *
 * A finding is written to stderr and to the file for machines as soon as it is made. So it is said
 * even if the program dies. `tenure run` waits for the program and learns what it needs from a file
 * with one byte for each thing that may come about. Its room is allocated at the beginning, so that
 * a full disk changes no exit code.
 *
 *   TENURE_PRELOAD_CHECK           1: on; TENURE_PRELOAD_WASTE uses the files, too
 *   TENURE_PRELOAD_CHECK_JSON      file to which a line of JSON is added for each finding
 *   TENURE_PRELOAD_CHECK_STATE     file of bytes that become 1: the first with a certain finding,
 *                                  those after it with a use of the rule of that number
 *   TENURE_PRELOAD_CHECK_SAID      file to which is added what is said: `tenure run` prints it,
 *                                  with lines of the source. Its frames have a file, an offset and
 *                                  a build id behind them, apart by bytes 0x1f
 *   TENURE_PRELOAD_CHECK_SUPPRESS  file of rules: suppress.h
 *   TENURE_PRELOAD_CHECK_LEAKS     1: what is live at the end is listed
 *   TENURE_PRELOAD_CHECK_POSSIBLE  1: what rests on words that may be no address is printed
 *   TENURE_PRELOAD_CHECK_HOST      1: pinned memory is watched, too: pinned.h
 */
#ifndef TENURE_PRELOAD_CHECK_FINDINGS_H
#define TENURE_PRELOAD_CHECK_FINDINGS_H

#include "check/blocks.h"
#include "check/kinds.h"

typedef struct check_finding {
    check_kind kind;
    int is_certain;
    const char *means; /* by which the program may order it unseen, so that it is only possible */
    const check_block *block;
    CUdeviceptr address;        /* that was used or freed */
    size_t bytes;               /* from there on, if that is what is wrong */
    const check_touch *earlier; /* null: none */
    const char *earlier_is;     /* "used", "freed", "allocated" */
    const check_touch *later;
    const char *later_is;
    uint64_t times; /* 0: once */
} check_finding;

typedef struct check_kept check_kept;

/* Reads the rules, and what else the environment says. Once, before anything is found. */
void check_findings_begin(void);

/* The program has found a driver: `tenure run` waits for this process, whatever its parent is. */
void check_state_hold(void);

/* The first gives the finding as it is kept. That may be one that was known already: of a race, the
 * error that it comes from. Null: there is no room. The second: the same finding again. */
check_kept *check_found(const check_finding *finding);
void check_found_again(check_kept *one, check_kind kind, uint64_t times);

/* So many certain findings that cannot be told apart. */
void check_found_beyond(uint64_t times);

/* Says what was found since the last call, with the names of functions. It asks the loader for
 * those: so without the lock, and outside of Tenure. */
extern _Atomic size_t check_findings_count, check_findings_said;
void check_findings_say_new(void);
static inline void check_findings_say(void)
{
    if (__builtin_expect(atomic_load_explicit(&check_findings_said, memory_order_relaxed) !=
                             atomic_load_explicit(&check_findings_count, memory_order_relaxed),
                         0))
        check_findings_say_new();
}

/* A launch that was seen; and one whose parameters could not be read, or not all. */
extern uint64_t check_launches, check_launches_unread;
static inline void check_count_launch(int is_read)
{
    check_launches++;
    check_launches_unread += !is_read;
}

/* An engine's block that is followed, beside those that are served. */
void check_count_block(void);
void check_counts_get(uint64_t *seen, uint64_t *unread);

/* What depends on order is only possible from now on, by these means; or, if a stream is named, on
 * it and on what waits for it. Said at the end. */
void check_unseen_note(const char *means, const check_place *place, uint64_t stream);

/* The driver does not tell what parameters a kernel has. Said once. */
void check_cannot_read(void);

#endif
