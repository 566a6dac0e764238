/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate: one word that says whether anybody is looking. While nobody is, it is 0, and looking
 * at it is all that history and snapshots cost: one load and one branch in each operation.
 *
 *   LIGHT   operations are recorded
 *   STACKS  and with each of them the stack it was called from
 *   CUT     a picture is being taken: whoever takes an arena's lock copies the arena first, if
 *           nobody has (snapshot/cut.h); the bits above are the number of the picture
 *
 * It is read without order. That is enough: see "Why it is consistent" in snapshot/cut.h.
 */
#ifndef TNRI_HISTORY_GATE_H
#define TNRI_HISTORY_GATE_H

#include <stdatomic.h>
#include <stdint.h>

enum {
    TNRI_GATE_LIGHT = 1,
    TNRI_GATE_STACKS = 2,
    TNRI_GATE_CUT = 4,
    TNRI_GATE_OPEN = 7, /* any of them */
    TNRI_GATE_NUMBER_SHIFT = 8
};

/* Changed under the lock of snapshots and history (history/history.h). */
extern _Atomic uint64_t tnri_gate_word;

static inline uint64_t tnri_gate(void)
{
    return atomic_load_explicit(&tnri_gate_word, memory_order_relaxed);
}

#endif
