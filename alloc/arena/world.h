/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A world: the spans of an arena that hold blocks of one kind, small or large, and their free
 * memory. Small and large blocks live apart so that a long-lived small block does not pin a large
 * piece of memory.
 *
 * What a world knows how to do is geometry: carve a block out of a free run, merge neighbours, cut
 * whole chunks out of free runs, turn holes into memory and back. It calls no driver and decides
 * no policy (ladder/plan.h, ladder/ladder.h do).
 *
 * Equations, checked by tnri_world_validate:
 *   records tile each span and each borrowed range, in address order, without gap or overlap
 *   the index holds the FREE records; bytes_in[s] == sum of records in state s, but that of LIVE
 *   has the BINNED ones in it, so that a block that goes between the two changes one sum
 *   every mapped page of a span lies in FREE, LIVE or BINNED records, every page of a HOLE is
 *   unmapped
 *
 * Everything here is under the arena's lock.
 */
#ifndef TNRI_ARENA_WORLD_H
#define TNRI_ARENA_WORLD_H

#include "arena/index.h"
#include "space/address_space.h"

enum {
    TNRI_BIN_SLOTS = 1024,   /* hash slots for exact sizes */
    TNRI_BIN_MISSES = 8,     /* after so many in a row the large world's bin is not used */
    TNRI_SLAB_RECORDS = 63,  /* records to a slab, so that a slab is 4 KiB */
    TNRI_CARVE_RECORDS = 2,  /* new records that one carve can need */
    TNRI_CUT_RECORDS = 2,    /* new records that one cut can need */
    TNRI_SPANS_MAX = 48,     /* spans of a world; each new one doubles its addresses */
    TNRI_RECEIVE_RECORDS = 2 /* new records that tnri_world_receive can need */
};

/* A slab of records. Returned only when the world has no memory: see tnri_world_dissolve. */
typedef struct tnri_slab {
    struct tnri_slab *next;
    uint64_t unused[7];
    tnri_block records[TNRI_SLAB_RECORDS];
} tnri_slab;

/*
 * Recently freed blocks by exact size. A slot of the hash holds blocks of one size only; a freed
 * block whose slot is taken by another size is merged at once. When the bins are full a block of
 * the next slot in turn is merged, so a free never does the work of many.
 *
 * The large world has a single bin, for the block freed last: it keeps what is allocated and freed
 * again and again from being merged and carved again each time. It is merged as soon as another
 * size is asked for, so large runs are as large as can be when one is chosen. A program that never
 * asks for the same size again would pay for both; so after some misses only the size of the block
 * freed last is kept, until any size is asked for: if it is that one, the bin gets another try.
 */
typedef struct tnri_bins {
    size_t max;          /* BINNED records; constant, but 0 while the world is spent */
    unsigned hand;       /* the slot of the last block that had to go */
    unsigned misses;     /* of the large world's bin, in a row */
    size_t passed_bytes; /* freed last since it misses; 0: none */
    uint64_t *words;     /* bit s: slots[s] may hold a block; 0: it is empty */
    tnri_block **slots;
} tnri_bins;

/* The large tables of a world. Most streams have memory of one kind, and many have none for now, so
 * they come with the world's first record; until then a world has tnri_world_nothing, which is only
 * read: it says that nothing is there. */
typedef struct tnri_world_tables {
    tnri_index index;
    uint64_t words[TNRI_BIN_SLOTS / 64];
    tnri_block *slots[TNRI_BIN_SLOTS];
    tnri_block *spans_few[TNRI_SPANS_MAX]; /* what span_first is while nothing is borrowed */
} tnri_world_tables;
extern tnri_world_tables tnri_world_nothing;

/* Numbers of blocks, of their bytes, and of the bytes that were asked for. */
typedef struct tnri_count {
    uint64_t blocks, bytes, requested;
} tnri_count;

typedef struct tnri_world {
    struct tnri_arena *arena; /* constant */
    tnri_space *space;        /* constant */
    int is_small;             /* constant */
    int has_many;             /* several of its blocks may begin in a granule; constant */

    /* The arena's statistics of this world: see tnri_arena_live. */
    tnri_count room; /* what may become live before more is live than ever was */
    tnri_count ever; /* what became live, in all */
    tnri_count peak; /* the most that was live */

    size_t bytes_in[TNRI_STATE_COUNT]; /* by state; LIVE: those of LIVE and BINNED */
    size_t count_in[TNRI_STATE_COUNT];

    tnri_world_tables *tables;
    tnri_bins bins;    /* with its part of the tables */
    tnri_index *index; /* of the tables */
    tnri_block *holes; /* HOLE records, doubly linked, newest first */
    tnri_block *lent;  /* LENT records, likewise */
    tnri_block *spares;
    size_t spares_count;
    size_t spares_promised; /* of these, to plans that may have to be undone */
    tnri_slab *slabs;
    size_t slabs_count;
    tnri_span *spans;
    size_t spans_bytes;
    /* The lowest record of each range of addresses that it has: its own spans, spans_own of them,
     * and then what it has borrowed from other worlds, borrowed_bytes in all. */
    tnri_block **span_first;
    size_t spans_count, spans_own;
    size_t borrowed_bytes;
    size_t borrows_promised; /* places for more, besides those of all the spans there may be */
    size_t borrows_room;

    /* Whether another arena may find a whole chunk that is free here: see pool/givers.h. */
    _Atomic uint64_t *giving; /* has its bit; null: nobody looks. Constant, as the bit is */
    uint64_t giving_bit;
    int is_spent;          /* 1: there is none; the bit is 0, and the bins are shut: */
    unsigned spent_misses; /* what bins.misses was, */
    size_t spent_max;      /* and bins.max */
} tnri_world;

/* Prepares a zeroed world. */
void tnri_world_create(tnri_world *world, struct tnri_arena *arena, tnri_space *space, int is_small,
                       size_t bin_blocks);
/* Frees the host memory and returns the spans; everything in them is a HOLE. */
void tnri_world_destroy(tnri_world *world);

/* Gives back all that a world without memory has: addresses, records, tables. 0, and nothing has
 * changed, if something is mapped, lent, borrowed or promised, or it has nothing. Whoever asks
 * later for an address that was in it finds no block. */
int tnri_world_dissolve(tnri_world *world);

/* Has at least `count` spare records besides those promised. 0 if there is no host memory. */
int tnri_world_spares_more(tnri_world *world, size_t count);
static inline int tnri_world_spares(tnri_world *world, size_t count)
{
    return tnri_likely(world->spares_count >= count + world->spares_promised) ||
           tnri_world_spares_more(world, count);
}
/* Sets `count` spare records aside for a later change that must not fail; 0 if there is no host
 * memory. tnri_world_unpromise makes them usable. */
int tnri_world_promise(tnri_world *world, size_t count);
void tnri_world_unpromise(tnri_world *world, size_t count);

/* Adds a span as one HOLE. Needs one spare record. */
void tnri_world_add_span(tnri_world *world, tnri_span *span);

/* ---- serving and freeing -------------------------------------------------------------------- */

/* FREE -> LIVE: takes `bytes` at `alignment` from a run that is large enough. Needs
 * TNRI_CARVE_RECORDS spares and a prepared map entry. The caller sets the slack. */
tnri_block *tnri_world_carve(tnri_world *world, tnri_block *run, size_t bytes, size_t alignment);

/* LIVE -> RETIRED: keeps block->uses. */
void tnri_world_retire(tnri_world *world, tnri_block *block);

/* LIVE, RETIRED or PENDING -> FREE, merged with free neighbours. Returns the resulting run. */
tnri_block *tnri_world_free(tnri_world *world, tnri_block *block);

/* BINNED -> FREE for all. Returns 1 if there were any. */
int tnri_world_flush(tnri_world *world);

/* Makes room in full bins: BINNED -> FREE for one. */
void tnri_world_evict(tnri_world *world);

/* LIVE, without uses, -> BINNED if the bins may hold it; else 0 and nothing changed. */
static inline int tnri_world_bin(tnri_world *world, tnri_block *block);

/* BINNED -> LIVE: a block of exactly `bytes`, or null. */
static inline tnri_block *tnri_world_unbin(tnri_world *world, size_t bytes);

/* The record, of any state, that contains an address of the world; null if the address is in none
 * of its spans. Walks up from `hint`, a record of the world (may be null), if that lies below in
 * the same span, else from the span's start. */
tnri_block *tnri_world_find(const tnri_world *world, tnri_block *hint, uintptr_t address);

/* ---- retired memory, for captures ------------------------------------------------------------ */

/* RETIRED + RETIRED -> RETIRED: a record takes in its upper neighbour, and keeps its own uses. */
void tnri_world_join(tnri_world *world, tnri_block *block);

/* FREE -> FREE + RETIRED + FREE: takes [base, end) of a run out of everyone's reach. Needs
 * TNRI_CUT_RECORDS spares. */
tnri_block *tnri_world_withhold(tnri_world *world, tnri_block *run, uintptr_t base, uintptr_t end);

/* ---- moving memory -------------------------------------------------------------------------- */

/* FREE -> FREE + STALE + FREE: takes the pages [first, first + count), all inside the run and made
 * of so many mappings, out of use. Needs TNRI_CUT_RECORDS spares. Returns the STALE record, which
 * waits for no event yet. */
tnri_block *tnri_world_cut(tnri_world *world, tnri_block *run, size_t page_first, size_t pages,
                           size_t mappings);

/* STALE -> FREE: takes a cut back; its chunks are still mapped. */
void tnri_world_uncut(tnri_world *world, tnri_block *stale);

/* STALE -> HOLE: its mappings are gone. */
void tnri_world_hole(tnri_world *world, tnri_block *stale);

/* FREE and HOLE records that together span [base, end) -> one PENDING record. What sticks out of
 * the outermost two stays as it was. Needs TNRI_CARVE_RECORDS spares. */
tnri_block *tnri_world_claim(tnri_world *world, tnri_block *first, uintptr_t base, uintptr_t end);

/* PENDING -> FREE and HOLE again, by what the page table says is mapped. Pages marked with
 * tnri_chunk_stuck become STALE records, which are passed to `stuck`. Needs a spare for each change
 * between the three. */
void tnri_world_unclaim(tnri_world *world, tnri_block *pending,
                        void (*stuck)(struct tnri_arena *arena, tnri_block *stale));

/* PENDING -> LIVE: the memory above a live block becomes part of it; with no block (null), the
 * memory becomes one. Returns the live block, whose slack the caller sets. */
tnri_block *tnri_world_extend(tnri_world *world, tnri_block *block, tnri_block *pending);

/* ---- lending (world_lend.c) ----------------------------------------------------------------- */

/* Sets a place aside for a range that is borrowed, or cut in two by a loan; 0 if there is no host
 * memory. tnri_world_unpromise_borrow makes it usable. */
int tnri_world_promise_borrow(tnri_world *world);
void tnri_world_unpromise_borrow(tnri_world *world);

/* PENDING -> LENT, or, if the addresses are borrowed themselves, -> no record of this world: whole
 * pages that tnri_world_claim has taken out of a run leave the world, with their memory. The block
 * map forgets them. Needs a place for a borrowed range. */
void tnri_world_lend(tnri_world *world, tnri_block *pending);

/* -> FREE: takes over what tnri_world_lend of another world has let go. Addresses of one of this
 * world's own spans are back; others are borrowed. Returns the run. Needs TNRI_RECEIVE_RECORDS
 * spares and a place for a borrowed range. */
tnri_block *tnri_world_receive(tnri_world *world, uintptr_t base, size_t bytes);

/* HOLE -> PENDING: up to `most` holes in borrowed ranges, to be given back. Their count. */
size_t tnri_world_holes_claim(tnri_world *world, size_t most, tnri_block **claimed);
/* The reverse. */
void tnri_world_hole_unclaim(tnri_world *world, tnri_block *pending);
/* PENDING -> no record of this world: the addresses go back to the world in whose span they lie. */
void tnri_world_give_back(tnri_world *world, tnri_block *pending);
/* LENT -> HOLE: takes over what tnri_world_give_back of another world has let go. Needs
 * TNRI_RECEIVE_RECORDS spares. */
void tnri_world_take_back(tnri_world *world, uintptr_t base, size_t bytes);

/* 1 if the address lies in a span of the world's own, lent or not. */
int tnri_world_owns(const tnri_world *world, uintptr_t address);

/* ---- giving (world_spent.c) ----------------------------------------------------------------- */

/* 1 if a free run has a whole chunk, or if that would take more than `looks_max` looks at runs. */
int tnri_world_has_whole(const tnri_world *world, int looks_max);

/* Somebody has flushed the bins and looked for memory in vain: notes that the world is spent, if it
 * is. From then on nobody looks at it until something of it is free again. */
void tnri_world_spend(tnri_world *world);

/* Something of the world is about to be free. */
void tnri_world_unspend_now(tnri_world *world);
static inline void tnri_world_unspend(tnri_world *world)
{
    if (tnri_unlikely(world->is_spent))
        tnri_world_unspend_now(world);
}

/* tnri_world_bin in a world that is spent. */
int tnri_world_bin_spent(tnri_world *world, tnri_block *block);

/* Length of the longest FREE run. */
size_t tnri_world_largest_free(const tnri_world *world);

/* ---- checking ------------------------------------------------------------------------------- */

/* What was asked for of all LIVE records, counted by walking. */
size_t tnri_world_requested(const tnri_world *world);

/* Walks everything. Returns null, or what is wrong, in a buffer of the thread. */
const char *tnri_world_validate(const tnri_world *world);

/* ---- the cached path ------------------------------------------------------------------------ */

static inline unsigned tnri_bin_slot(size_t bytes)
{
    size_t units = bytes / TNR_ALIGNMENT_DEFAULT;
    return (unsigned)(units ^ units >> 10) % TNRI_BIN_SLOTS;
}

/* BINNED -> LIVE for the first block of a slot. */
static inline tnri_block *tnri_bin_pop(tnri_world *world, unsigned slot)
{
    tnri_block *block = world->bins.slots[slot];
    tnri_assert_hot(block->state == TNRI_BINNED && block->uses == NULL);
    world->bins.slots[slot] = block->next;
    block->what = tnri_block_what(TNRI_LIVE, 0);
    world->bytes_in[TNRI_BINNED] -= block->bytes;
    world->count_in[TNRI_BINNED]--;
    return block;
}

/* Puts a block into a slot, which is empty or has blocks of its size. */
static inline void tnri_bin_push(tnri_world *world, tnri_block *block, unsigned slot)
{
    tnri_bins *bins = &world->bins;
    block->what = tnri_block_what(TNRI_BINNED, 0);
    block->next = bins->slots[slot];
    bins->slots[slot] = block;
    bins->words[slot / 64] |= (uint64_t)1 << slot % 64;
    world->bytes_in[TNRI_BINNED] += block->bytes;
    world->count_in[TNRI_BINNED]++;
}

/* 1 if the slot may take a block of the size. */
static inline int tnri_bin_fits(const tnri_bins *bins, unsigned slot, size_t bytes)
{
    const tnri_block *head = bins->slots[slot];
    return head == NULL || head->bytes == bytes;
}

static inline int tnri_world_bin(tnri_world *world, tnri_block *block)
{
    tnri_bins *bins = &world->bins;
    tnri_assert_hot(block->state == TNRI_LIVE && block->uses == NULL);
    unsigned slot = tnri_bin_slot(block->bytes);
    if (bins->misses >= TNRI_BIN_MISSES) {
        bins->passed_bytes = block->bytes;
        return 0;
    }
    if (!tnri_bin_fits(bins, slot, block->bytes))
        return 0;
    if (world->count_in[TNRI_BINNED] >= bins->max) {
        if (bins->max == 0)
            return world->is_spent ? tnri_world_bin_spent(world, block) : 0;
        bins->misses += !world->is_small;
        tnri_world_evict(world);
    }
    tnri_bin_push(world, block, slot);
    return 1;
}

/* The same, but 0 also where it takes more than that. */
static inline int tnri_world_bin_quick(tnri_world *world, tnri_block *block)
{
    tnri_bins *bins = &world->bins;
    tnri_assert_hot(block->state == TNRI_LIVE && block->uses == NULL);
    unsigned slot = tnri_bin_slot(block->bytes);
    if (tnri_unlikely(bins->misses >= TNRI_BIN_MISSES ||
                      world->count_in[TNRI_BINNED] >= bins->max ||
                      !tnri_bin_fits(bins, slot, block->bytes)))
        return 0;
    tnri_bin_push(world, block, slot);
    return 1;
}

static inline tnri_block *tnri_world_unbin(tnri_world *world, size_t bytes)
{
    unsigned slot = tnri_bin_slot(bytes);
    const tnri_block *head = world->bins.slots[slot];
    if (head == NULL || head->bytes != bytes)
        return NULL;
    world->bins.misses = 0;
    return tnri_bin_pop(world, slot);
}

/* What is live. */
static inline size_t tnri_world_live_bytes(const tnri_world *world)
{
    return world->bytes_in[TNRI_LIVE] - world->bytes_in[TNRI_BINNED];
}

static inline size_t tnri_world_live_count(const tnri_world *world)
{
    return world->count_in[TNRI_LIVE] - world->count_in[TNRI_BINNED];
}

/* The whole chunks inside a FREE run: its pages [*first, *end). 0 if there are none. */
int tnri_run_whole_chunks(const tnri_space *space, const tnri_block *run, size_t *first,
                          size_t *end);

#endif
