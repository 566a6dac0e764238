/* SPDX-License-Identifier: Apache-2.0 */
/* Writing records: see note.h. */
#include "log/note.h"

#include "base/thread_number.h"

_Thread_local tnri_note_thread tnri_this_note_thread;

/* ---- words for what there is ---------------------------------------------------------------- */

const char *tnri_kind_text(unsigned kind)
{
    static const char *const texts[] = {
#define KIND_TEXT(name, text) text,
        TNRI_KIND_LIST(KIND_TEXT)
#undef KIND_TEXT
    };
    return kind < TNRI_NOTED_COUNT ? texts[kind] : "?";
}

const char *tnri_why_text(unsigned why)
{
    static const char *const texts[] = {"",
#define WHY_TEXT(name, text) text,
                                        TNR_SERVED_LIST(WHY_TEXT) TNR_REUSE_LIST(WHY_TEXT)
#undef WHY_TEXT
    };
    _Static_assert(sizeof(texts) / sizeof(texts[0]) == TNRI_WHY_COUNT, "each has its text");
    return why < TNRI_WHY_COUNT ? texts[why] : "?";
}

/* ---- one record ----------------------------------------------------------------------------- */

/* A mark of an earlier start of the library is none. Once for each page of records. */
void tnri_note_refresh(tnri_note_thread *thread)
{
    if (thread->mark_epoch != atomic_load_explicit(&tnri_library_epoch, memory_order_relaxed))
        thread->mark = 0;
    thread->number = tnri_thread_number();
}

void tnri_note_record(uint32_t origin, uint32_t order, tnri_kind kind, unsigned why,
                      uintptr_t address, size_t bytes, size_t requested, uint64_t value)
{
    tnri_note_write(tnri_note_here(), tnri_ticks(), origin, order, kind, why, address, bytes,
                    requested, value);
}

uint32_t tnri_note_stack(void)
{
    if (tnri_note_here()->stack != 0)
        return 0; /* the call that this one is part of has taken it */
    tnri_note_here()->stack = tnri_stack_take();
    return tnri_note_here()->stack;
}

void tnri_note_moment(tnri_kind kind)
{
    if (tnri_is_noting())
        tnri_note_record(0, 0, kind, TNRI_WHY_NONE, 0, 0, 0, 0);
}
