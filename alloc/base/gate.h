/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate: one word that says whether anything is out of the ordinary. While nothing is, the word
 * is 0. Then history, snapshots, captures and rare settings cost only a look at it: one load and
 * one branch in each operation.
 *
 *   LIGHT   operations are recorded
 *   STACKS  and with each of them the stack it was called from
 *   CUT     a picture is being taken: a thread that takes an arena's lock copies the arena first,
 *           if nobody has (see/snapshot/cut.h); the highest bits are the number of the picture
 *   STOPPED the library is not running, or this is a forked child
 *   STEPS   sizes are changed by the settings roundup_power2_divisions and apart
 *   SYNC    frees wait for all streams, by the setting auto_record
 *   TRAPS   blocks are guarded, poisoned or have canaries (see/trap/trap.h)
 *   NVTX    a tool is told of blocks (log/nvtx.h)
 *   and the number of captures under way
 *
 * The first three mean that somebody is looking. Code to which only that matters asks for
 * TNRI_GATE_OPEN.
 *
 * The gate is read without order. That is enough: see Note [why it is consistent] in
 * see/snapshot/cut.h.
 */
#ifndef TNRI_BASE_GATE_H
#define TNRI_BASE_GATE_H

#include <stdatomic.h>
#include <stdint.h>

enum {
    TNRI_GATE_LIGHT = 1,
    TNRI_GATE_STACKS = 2,
    TNRI_GATE_CUT = 4,
    TNRI_GATE_OPEN = 7, /* any of them */
    TNRI_GATE_STOPPED = 8,
    TNRI_GATE_STEPS = 16,
    TNRI_GATE_SYNC = 32,
    TNRI_GATE_TRAPS = 64,
    TNRI_GATE_NVTX = 128,
    TNRI_GATE_CAPTURES_SHIFT = 8,
    TNRI_GATE_NUMBER_SHIFT = 24
};
#define TNRI_GATE_CAPTURES_MASK (UINT64_C(0xffff) << TNRI_GATE_CAPTURES_SHIFT)

/* Each part has its lock. LIGHT, STACKS, CUT and the number are under the lock of snapshots and
 * history (log/history.h), the others under the library lock. Captures are counted without
 * a lock. */
extern _Atomic uint64_t tnri_gate_word;

/* Grows with every start and shutdown of the library; routes and marks of an earlier one are void.
 * Library lock to write. */
extern _Atomic uint64_t tnri_library_epoch;

/* Changes some bits, and no others. */
static inline void tnri_gate_set(uint64_t clear, uint64_t set)
{
    uint64_t now = atomic_load(&tnri_gate_word);
    while (!atomic_compare_exchange_weak(&tnri_gate_word, &now, (now & ~clear) | set))
        ;
}

static inline uint64_t tnri_gate(void)
{
    return atomic_load_explicit(&tnri_gate_word, memory_order_relaxed);
}

#endif
