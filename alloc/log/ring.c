/* SPDX-License-Identifier: Apache-2.0 */
/* Pages, and who writes them: see ring.h. */
#include "log/ring.h"

#include <string.h>

#include "base/host_memory.h"
#include "base/prim/thread.h"
#include "base/ticks.h"

tnri_ring *_Atomic tnri_ring_current;
_Atomic uint64_t tnri_ring_current_id;
_Atomic uint64_t tnri_ring_missed;

static struct {
    tnri_lock lock;
    tnri_writer *writers;
    uint64_t last_id;
} rings = {.lock = {.rank = TNRI_RANK_HISTORY}};

static tnri_once end_once = TNRI_ONCE_INIT;
static tnri_key end_key; /* constant after end_once */
static int has_end_key;  /* likewise */

/* ---- rings ---------------------------------------------------------------------------------- */

/* How many records a ring made for so many has room for. */
static size_t ring_room(size_t records)
{
    size_t pages = (records + TNRI_PAGE_RECORDS - 1) / TNRI_PAGE_RECORDS;
    return (pages < TNRI_RING_PAGES_MIN ? TNRI_RING_PAGES_MIN : pages) * TNRI_PAGE_RECORDS;
}

static void ring_destroy(tnri_ring *ring)
{
    size_t touched = ring->taken < ring->pages_count ? (size_t)ring->taken : ring->pages_count;
    tnri_host_touched(-(int64_t)(touched * sizeof(tnri_page)));
    tnri_host_unreserve(ring->pages, ring->pages_count * sizeof(tnri_page));
    tnri_host_free(ring, sizeof(*ring));
}

/* 1 if a thread may be writing into the ring. Under the lock. */
static int ring_is_held(const tnri_ring *ring)
{
    for (const tnri_writer *writer = rings.writers; writer != NULL; writer = writer->next)
        if (writer->ring_id == ring->id)
            return 1;
    return 0;
}

/* Takes the older rings that no thread holds out of the list that begins at the current one. */
static tnri_ring *rings_unheld(void)
{
    tnri_ring *unheld = NULL;
    tnri_lock_take(&rings.lock);
    tnri_ring *current = atomic_load(&tnri_ring_current);
    for (tnri_ring **link = current == NULL ? NULL : &current->older;
         link != NULL && *link != NULL;) {
        tnri_ring *ring = *link;
        if (ring_is_held(ring)) {
            link = &ring->older;
            continue;
        }
        *link = ring->older;
        ring->older = unheld;
        unheld = ring;
    }
    tnri_lock_release(&rings.lock);
    return unheld;
}

static void rings_destroy(tnri_ring *ring)
{
    while (ring != NULL) {
        tnri_ring *older = ring->older;
        ring_destroy(ring);
        ring = older;
    }
}

int tnri_ring_set(size_t records)
{
    size_t pages = ring_room(records) / TNRI_PAGE_RECORDS;
    tnri_ring *current = atomic_load(&tnri_ring_current);
    if (current != NULL && current->pages_count == pages)
        return 1;
    tnri_ring *ring = tnri_host_alloc(sizeof(*ring));
    if (ring == NULL)
        return 0;
    ring->pages_count = pages;
    ring->pages = tnri_host_reserve(pages * sizeof(tnri_page));
    if (ring->pages == NULL) {
        tnri_host_free(ring, sizeof(*ring));
        return 0;
    }
    tnri_lock_take(&rings.lock);
    ring->id = ++rings.last_id;
    ring->older = current;
    ring->lost_ticks = tnri_ticks();
    atomic_store(&tnri_ring_current, ring);
    atomic_store(&tnri_ring_current_id, ring->id);
    tnri_lock_release(&rings.lock);
    atomic_store(&tnri_ring_missed, 0);
    rings_destroy(rings_unheld());
    return 1;
}

void tnri_ring_interrupt(void)
{
    tnri_lock_take(&rings.lock);
    tnri_ring *ring = atomic_load(&tnri_ring_current);
    if (ring != NULL)
        ring->lost_ticks = tnri_ticks();
    tnri_lock_release(&rings.lock);
}

void tnri_ring_free(void)
{
    atomic_store(&tnri_ring_current_id, 0);
    rings_destroy(atomic_exchange(&tnri_ring_current, NULL));
    atomic_store(&tnri_ring_missed, 0);
}

/* ---- writers -------------------------------------------------------------------------------- */

/* Gives the writer's page up, if its ring is still there. Under the lock. */
static void writer_give_up(tnri_writer *writer)
{
    tnri_ring *ring = atomic_load(&tnri_ring_current);
    while (ring != NULL && ring->id != writer->ring_id)
        ring = ring->older;
    if (ring != NULL) {
        writer->page->is_held = 0;
        writer->page->last_ticks = tnri_ticks();
    }
    writer->ring_id = 0;
    writer->page = NULL;
    writer->count = 0;
}

/* The thread is ending. */
static void writer_end(void *argument)
{
    tnri_writer *writer = argument;
    tnri_lock_take(&rings.lock);
    writer_give_up(writer);
    if (writer->next != NULL)
        writer->next->prev = writer->prev;
    if (writer->prev != NULL)
        writer->prev->next = writer->next;
    else
        rings.writers = writer->next;
    writer->is_listed = 0;
    tnri_lock_release(&rings.lock);
}

static void end_key_create(void)
{
    has_end_key = tnri_key_make(&end_key, writer_end);
}

/* Enters the thread's writer in the list; 0 if its end could not be noticed. */
static int writer_list(tnri_writer *writer)
{
    tnri_once_run(&end_once, end_key_create);
    if (!has_end_key || !tnri_key_set(end_key, writer))
        return 0;
    tnri_lock_take(&rings.lock);
    writer->prev = NULL;
    writer->next = rings.writers;
    if (rings.writers != NULL)
        rings.writers->prev = writer;
    rings.writers = writer;
    writer->is_listed = 1;
    tnri_lock_release(&rings.lock);
    return 1;
}

/* Empties a page for its new holder. Under the lock. */
static void page_take(tnri_ring *ring, tnri_page *page)
{
    uint32_t count = atomic_load_explicit(&page->count, memory_order_relaxed);
    if (count > 0) {
        ring->overwritten += count;
        if (page->last_ticks > ring->lost_ticks)
            ring->lost_ticks = page->last_ticks;
    }
    page->is_held = 1;
    tnri_page_empty(page, ring->taken);
}

int tnri_writer_take(tnri_writer *writer)
{
    if (!writer->is_listed && !writer_list(writer)) {
        atomic_fetch_add_explicit(&tnri_ring_missed, 1, memory_order_relaxed);
        return 0;
    }
    tnri_page *found = NULL;
    int is_new = 0;
    tnri_lock_take(&rings.lock);
    writer_give_up(writer);
    tnri_ring *ring = atomic_load(&tnri_ring_current);
    for (size_t i = 0; ring != NULL && i < ring->pages_count && found == NULL; i++) {
        is_new = ring->taken < ring->pages_count;
        tnri_page *page = &ring->pages[ring->taken++ % ring->pages_count];
        if (page->is_held)
            continue;
        page_take(ring, page);
        __builtin_prefetch(&ring->pages[ring->taken % ring->pages_count], 1, 3);
        found = page;
    }
    if (found != NULL) {
        writer->ring_id = ring->id;
        writer->page = found;
    } else if (ring != NULL) {
        ring->lost_ticks = tnri_ticks();
    }
    tnri_lock_release(&rings.lock);
    if (is_new)
        tnri_host_touched((int64_t)sizeof(tnri_page));
    if (found == NULL)
        atomic_fetch_add_explicit(&tnri_ring_missed, 1, memory_order_relaxed);
    return found != NULL;
}

/* ---- reading -------------------------------------------------------------------------------- */

static void record_read(tnri_recorded *to, const tnri_record *from)
{
    uint64_t words[TNRI_RECORD_WORDS];
    tnri_record_load(words, from);
    to->ticks = words[TNRI_WORD_TICKS];
    to->address = words[TNRI_WORD_ADDRESS];
    to->bytes = words[TNRI_WORD_BYTES];
    to->requested = words[TNRI_WORD_REQUESTED];
    to->origin = (uint32_t)words[TNRI_WORD_PLACE];
    to->order = (uint32_t)(words[TNRI_WORD_PLACE] >> 32);
    to->thread = (uint32_t)words[TNRI_WORD_CALLER];
    to->mark = (uint32_t)(words[TNRI_WORD_CALLER] >> 32);
    to->stack = (uint32_t)words[TNRI_WORD_WHAT];
    to->kind = (uint8_t)(words[TNRI_WORD_WHAT] >> 32);
    to->why = (uint8_t)(words[TNRI_WORD_WHAT] >> 40);
    to->value = words[TNRI_WORD_VALUE];
}

/* Appends a page's records; they are dropped again if it was taken by another thread meanwhile. */
static void page_read(tnri_ring_copy *copy, const tnri_page *page)
{
    uint64_t number;
    uint32_t count = tnri_page_look(page, &number);
    for (uint32_t i = 0; i < count; i++)
        record_read(&copy->records[copy->count + i], &page->records[i]);
    if (tnri_page_is_still(page, number))
        copy->count += count;
}

tnri_ring_sums tnri_ring_sums_get(void)
{
    tnri_ring_sums sums = {0, 0, 0, atomic_load(&tnri_ring_missed)};
    tnri_lock_take(&rings.lock);
    const tnri_ring *ring = atomic_load(&tnri_ring_current);
    if (ring != NULL) {
        sums.capacity = ring->pages_count * TNRI_PAGE_RECORDS;
        sums.overwritten = ring->overwritten;
        sums.written = ring->overwritten;
        size_t pages = ring->taken < ring->pages_count ? (size_t)ring->taken : ring->pages_count;
        for (size_t i = 0; i < pages; i++)
            sums.written += atomic_load_explicit(&ring->pages[i].count, memory_order_relaxed);
    }
    tnri_lock_release(&rings.lock);
    return sums;
}

int tnri_ring_read(tnri_ring_copy *copy)
{
    memset(copy, 0, sizeof(*copy));
    tnri_ring *ring = atomic_load(&tnri_ring_current);
    if (ring == NULL)
        return 1;
    copy->capacity = ring->pages_count * TNRI_PAGE_RECORDS;
    tnri_lock_take(&rings.lock);
    size_t pages = ring->taken < ring->pages_count ? (size_t)ring->taken : ring->pages_count;
    tnri_lock_release(&rings.lock);
    if (pages > 0) {
        copy->room = pages * TNRI_PAGE_RECORDS;
        copy->records = tnri_host_reserve(copy->room * sizeof(copy->records[0]));
        if (copy->records == NULL)
            return 0;
    }
    for (size_t i = 0; i < pages; i++)
        page_read(copy, &ring->pages[i]);
    tnri_lock_take(&rings.lock);
    copy->overwritten = ring->overwritten;
    copy->lost_ticks = ring->lost_ticks;
    tnri_lock_release(&rings.lock);
    copy->missed = atomic_load(&tnri_ring_missed);
    copy->written = copy->overwritten + copy->count;
    return 1;
}

void tnri_ring_copy_free(tnri_ring_copy *copy)
{
    tnri_host_unreserve(copy->records, copy->room * sizeof(copy->records[0]));
    memset(copy, 0, sizeof(*copy));
}
