/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring of records, lock-free where it matters: threads write side by side and never meet.
 *
 *   1. The ring consists of pages of 255 records. A thread that has something to write takes the
 *      oldest page for itself and fills it alone. It takes a lock for that, once for 255 records.
 *   2. A record is written, then the page's count is raised; a reader takes no more than the count.
 *      So no record is ever half there.
 *   3. When a page is taken, the records in it are overwritten, and counted. A page has a number,
 *      which changes when the page is taken. A reader copies a page, looks at its number again, and
 *      drops the copy if the number has changed.
 *   4. Pages that threads hold are passed over, so the last records of an idle thread stay longer
 *      than those of others. A thread that ends gives its page up.
 *
 * A change of size makes a new ring; the old one is kept until no thread holds a page of it.
 */
#ifndef TNRI_HISTORY_RING_H
#define TNRI_HISTORY_RING_H

#include "base/lock.h"
#include "log/page.h"

enum { TNRI_RING_PAGES_MIN = 64 };

typedef struct tnri_ring {
    uint64_t id; /* never given twice; constant */
    size_t pages_count;
    tnri_page *pages;
    struct tnri_ring *older; /* a ring of which threads still hold pages; the ring's lock */

    /* The ring's lock: */
    uint64_t taken;       /* pages taken so far, and the number of the latest */
    uint64_t overwritten; /* records */
    uint64_t lost_ticks;  /* nothing is missing after this moment */
} tnri_ring;

/* A thread's part, in its thread-local memory. */
typedef struct tnri_writer {
    uint64_t ring_id; /* of the ring that `page` is in; 0: none */
    tnri_page *page;
    uint32_t count;                  /* of the page */
    struct tnri_writer *next, *prev; /* among all writers; the ring's lock */
    int is_listed;                   /* 1: in that list; the thread */
} tnri_writer;

/* The ring that is written to; null: none. Changed under the ring's lock. Only a thread that holds
 * that lock, or that sets and frees rings, may look into it: otherwise another thread may free it
 * meanwhile. */
extern tnri_ring *_Atomic tnri_ring_current;
/* Its id; 0: none. Threads without a page in the ring may look at this. Changed with the ring. */
extern _Atomic uint64_t tnri_ring_current_id;
/* Records that found no page; any thread. */
extern _Atomic uint64_t tnri_ring_missed;

/* Makes a ring of at least so many records the current one. 0: no host memory, nothing changed. */
int tnri_ring_set(size_t records);
/* From now on, what was written before counts as having gaps. */
void tnri_ring_interrupt(void);
/* Frees all rings, while no other thread is inside Tenure. */
void tnri_ring_free(void);

/* Takes a page of the current ring for the calling thread; 0 if there is none. */
int tnri_writer_take(tnri_writer *writer);

/* A place for the next record of the calling thread; null: there is none, and the record is counted
 * as missed. */
static inline tnri_record *tnri_writer_next(tnri_writer *writer)
{
    uint64_t id = atomic_load_explicit(&tnri_ring_current_id, memory_order_relaxed);
    if (tnri_unlikely(id == 0))
        return NULL;
    /* The page is the thread's own, and stays as long as the thread holds it. */
    if (tnri_unlikely(writer->ring_id != id || writer->count == TNRI_PAGE_RECORDS) &&
        !tnri_writer_take(writer))
        return NULL;
    return &writer->page->records[writer->count];
}

/* The record is complete. */
static inline void tnri_writer_done(tnri_writer *writer)
{
    tnri_page_raise(writer->page, ++writer->count);
}

/* How the current ring is doing; all 0 without one. */
typedef struct tnri_ring_sums {
    uint64_t capacity, written, overwritten, missed;
} tnri_ring_sums;
tnri_ring_sums tnri_ring_sums_get(void);

/* What was read of a ring. */
typedef struct tnri_ring_copy {
    tnri_recorded *records; /* in no order */
    size_t count, room;
    uint64_t written, overwritten, missed, capacity;
    uint64_t lost_ticks;
} tnri_ring_copy;

/* Copies what is there, without stopping anybody. 0: no host memory. Only one thread at a time may
 * read, set or free rings. */
int tnri_ring_read(tnri_ring_copy *copy);
void tnri_ring_copy_free(tnri_ring_copy *copy);

#endif
