/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device's address space: one large reservation, dealt out to arenas in spans.
 *
 * Addresses are plentiful, memory is not: each device has 8 TiB of addresses, and eight such ranges
 * fit into the 47 bits of a process. Free memory never merges over the border of two spans, so the
 * first span of a stream's large blocks has room for all of the device's memory, as long as a
 * quarter of the range is enough for that. Other spans begin small. When its own spans have no
 * room, an arena takes one that is twice as large as all it has. So thousands of arenas share a
 * device's range, and an arena has few spans. The size of a span is a power of two. Spans return
 * when their pool ends. Returned spans that touch become one range again, from which spans of other
 * sizes are cut.
 *
 * The *page* is the unit of mapping: the smallest chunk. A table holds, for each page, the chunk
 * that is mapped there. An entry belongs to the arena that has the addresses, and that arena's lock
 * protects it. That is the span's arena, unless it has lent the addresses (miss/lend.h). The
 * tables are sparse: they cost memory only where addresses were used.
 */
#ifndef TNRI_SPACE_ADDRESS_SPACE_H
#define TNRI_SPACE_ADDRESS_SPACE_H

#include "base/lock.h"
#include "memory/space/block_map.h"

struct tnri_chunk;

enum { TNRI_SPAN_LOG2_MIN = 26, TNRI_SPAN_LOG2_MAX = 44 };

/* A span, kept in its world's list. Constant after creation, but for `begun`. */
typedef struct tnri_span {
    uintptr_t base;
    size_t bytes; /* a power of two, except for ranges that were returned */
    size_t begun; /* no block ever lay above so many of them; the lock of the world's arena */
    struct tnri_span *next;
} tnri_span;

typedef struct tnri_space {
    /* Constant after creation. */
    uintptr_t base;
    size_t bytes;
    unsigned page_shift;
    tnri_block_map map;
    struct tnri_chunk **pages;   /* entries: the owning arena's lock */
    struct tnri_chunk **aliases; /* likewise: a chunk mapped at a page that lies elsewhere */

    tnri_lock lock;            /* protects what follows */
    _Atomic size_t used_bytes; /* from base up: dealt out at least once; read without the lock */
    tnri_span *returned;       /* ranges of any size, by address; no two of them touch */
} tnri_space;

/* Takes over a reservation that the driver made. 0 if there is no host memory. */
int tnri_space_create(tnri_space *space, uintptr_t base, size_t bytes, unsigned page_shift);
void tnri_space_destroy(tnri_space *space);

/* A span of at least `bytes`; null if the range or host memory is used up. *addresses_left tells
 * which: 0 means addresses. */
tnri_span *tnri_space_take(tnri_space *space, size_t bytes, int *addresses_left);
/* The same from the upper half of the range, at a place that `salt` chooses and that nobody has
 * begun to use; null if host memory is used up or all places there are taken. */
tnri_span *tnri_space_take_far(tnri_space *space, size_t bytes, uint64_t salt);
/* The span of exactly these addresses, which lie in the range, in whole pages; null if any of them
 * is dealt out (*is_free: 0) or host memory is used up. */
tnri_span *tnri_space_take_at(tnri_space *space, uintptr_t base, size_t bytes, int *is_free);
/* Takes a span back: nothing is mapped in it and no block is live in it. */
void tnri_space_return(tnri_space *space, tnri_span *span);

/* 1 if the address has ever been part of a span; from then on never 0 again. */
static inline int tnri_space_was_used(const tnri_space *space, uintptr_t address)
{
    return address - space->base < atomic_load_explicit(&space->used_bytes, memory_order_acquire);
}

/* The chunk at a page, for a caller without the lock. Only for a space whose entries are written by
 * tnri_page_enter alone. */
static inline struct tnri_chunk *tnri_page_chunk(const tnri_space *space, size_t page)
{
    return __atomic_load_n(&space->pages[page], __ATOMIC_ACQUIRE);
}
static inline void tnri_page_enter(tnri_space *space, size_t page, struct tnri_chunk *chunk)
{
    __atomic_store_n(&space->pages[page], chunk, __ATOMIC_RELEASE);
}

static inline size_t tnri_page_bytes(const tnri_space *space)
{
    return (size_t)1 << space->page_shift;
}

static inline size_t tnri_page_of(const tnri_space *space, uintptr_t address)
{
    return (address - space->base) >> space->page_shift;
}

static inline uintptr_t tnri_page_address(const tnri_space *space, size_t page)
{
    return space->base + (page << space->page_shift);
}

#endif
