/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page of the ring: records that one thread writes while any other may read them, without a lock
 * between the two. This file has what may be seen in which order; tests/lock_model runs it in every
 * way that the memory model of C11 allows.
 *
 * The writer empties the page, gives it its number, writes a record's words, raises the count. A
 * reader looks at the number, then at the count, copies so many records, and looks at the number
 * again. If it sees the new number first, it sees the page empty or what was written since. If it
 * had the old number and sees a word that was written since, it sees the new number when it looks
 * again, and drops its copy.
 */
#ifndef TNRI_HISTORY_PAGE_H
#define TNRI_HISTORY_PAGE_H

#include "log/record.h"

enum { TNRI_PAGE_RECORDS = 255 }; /* so that a page is 16 KiB */

typedef struct tnri_page {
    _Atomic uint64_t number; /* of the taking; 0: never taken. Changed under the ring's lock */
    _Atomic uint32_t count;  /* records that are there; raised by the thread that holds the page */
    uint32_t is_held;        /* 1: a thread writes; the ring's lock */
    uint64_t last_ticks;     /* when it was given up; the ring's lock */
    uint64_t unused[5];
    tnri_record records[TNRI_PAGE_RECORDS];
} tnri_page;

_Static_assert(sizeof(tnri_page) == 16384, "a page of the ring is 16 KiB");

/* What was in the page counts no more. The number is stored after the count. The other way round a
 * reader could find the new number beside the old count, and take records for whole that the new
 * holder is about to overwrite. */
static inline void tnri_page_empty(tnri_page *page, uint64_t number)
{
    atomic_store_explicit(&page->count, 0, memory_order_relaxed);
    atomic_store_explicit(&page->number, number, memory_order_release);
}

/* One record more is complete. */
static inline void tnri_page_raise(tnri_page *page, uint32_t count)
{
    atomic_store_explicit(&page->count, count, memory_order_release);
}

/* How many records there are, and the number that tnri_page_is_still wants. */
static inline uint32_t tnri_page_look(const tnri_page *page, uint64_t *number)
{
    *number = atomic_load_explicit(&page->number, memory_order_acquire);
    return atomic_load_explicit(&page->count, memory_order_acquire);
}

/* The words of one record. Acquire, so that the next look at the number finds no older one. */
static inline void tnri_record_load(uint64_t words[TNRI_RECORD_WORDS], const tnri_record *from)
{
    for (int i = 0; i < TNRI_RECORD_WORDS; i++)
        words[i] = atomic_load_explicit(&from->words[i], memory_order_acquire);
}

/* 1 if the copy made since tnri_page_look is what the page held then. */
static inline int tnri_page_is_still(const tnri_page *page, uint64_t number)
{
    return atomic_load_explicit(&page->number, memory_order_relaxed) == number;
}

#endif
