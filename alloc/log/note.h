/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes: how the rest of the library tells the history what happened. Everything here does nothing
 * unless the gate says that operations are recorded; code on a cached path asks the gate itself.
 * memory/arena/note.h tells what happens to the memory of arenas and pools.
 */
#ifndef TNRI_HISTORY_NOTE_H
#define TNRI_HISTORY_NOTE_H

#include "base/gate.h"
#include "base/ticks.h"
#include "log/record.h"
#include "log/ring.h"
#include "log/stacks.h"

/* What a thread remembers for its records. Its own. */
typedef struct tnri_note_thread {
    tnri_writer writer;
    uint64_t number;     /* tnri_thread_number, once records are written; 0: not yet */
    uint32_t stack;      /* of the call that it is in; 0: not taken */
    uint32_t mark;       /* a text: what tnr_mark said last */
    uint64_t mark_epoch; /* tnri_library_epoch that `mark` belongs to */
} tnri_note_thread;

extern _Thread_local tnri_note_thread tnri_this_note_thread;

static inline tnri_note_thread *tnri_note_here(void)
{
    return &tnri_this_note_thread;
}

static inline int tnri_is_noting(void)
{
    return (tnri_gate() & TNRI_GATE_LIGHT) != 0;
}

/* Around a call of the program. If stacks are wanted, all records until tnri_note_end get the stack
 * of that call. These pairs nest. No lock is held. Returns what tnri_note_end wants. */
uint32_t tnri_note_stack(void);
static inline uint32_t tnri_note_begin(void)
{
    return tnri_unlikely((tnri_gate() & TNRI_GATE_STACKS) != 0) ? tnri_note_stack() : 0;
}
static inline void tnri_note_end(uint32_t began)
{
    if (tnri_unlikely(began != 0))
        tnri_note_here()->stack = 0;
}

/* Writes a record now: the next in the order of an origin (log/origins.h; 0: of none). */
void tnri_note_record(uint32_t origin, uint32_t order, tnri_kind kind, unsigned why,
                      uintptr_t address, size_t bytes, size_t requested, uint64_t value);
/* Something that concerns no memory in particular. */
void tnri_note_moment(tnri_kind kind);

/* ---- the cached path ------------------------------------------------------------------------ */

/* The thread begins a page. Forgets a mark that is from an earlier start of the library. */
void tnri_note_refresh(tnri_note_thread *thread);

/* How many records ahead of the written one a cache line is prefetched. A store to a line that is
 * not there would hold up the next locked instruction, which is the next lock. */
enum { TNRI_RECORDS_AHEAD = 16 };

/* Writes a record. */
static inline __attribute__((always_inline)) void tnri_note_write(
    tnri_note_thread *thread, uint64_t ticks, uint32_t origin, uint32_t order, tnri_kind kind,
    unsigned why, uintptr_t address, size_t bytes, size_t requested, uint64_t value)
{
    tnri_record *record = tnri_writer_next(&thread->writer);
    if (tnri_unlikely(record == NULL))
        return;
    if (tnri_unlikely(thread->writer.count == 0))
        tnri_note_refresh(thread);
    __builtin_prefetch(record + TNRI_RECORDS_AHEAD, 1, 3);
    tnri_record_store(record, TNRI_WORD_TICKS, ticks, address);
    tnri_record_store(record, TNRI_WORD_BYTES, bytes, requested);
    tnri_record_store(record, TNRI_WORD_PLACE, tnri_word_of(origin, order),
                      tnri_word_of((uint32_t)thread->number, thread->mark));
    tnri_record_store(record, TNRI_WORD_WHAT, tnri_word_what(thread->stack, kind, why), value);
    tnri_writer_done(&thread->writer);
}

#endif
