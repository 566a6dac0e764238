/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks: the records that tile an arena's address ranges, and the worlds that hold them.
 *
 * A *span* is a range of addresses that belongs to one world of one arena. Every byte of it
 * belongs to exactly one record, so a record's upper neighbour starts where it ends:
 *
 *     above->base == base + bytes        (checked by tnri_world_validate)
 *
 * States and transitions (functions are named for them; each asserts the old state):
 *
 *              carve                         free
 *     FREE  ----------->  LIVE  ----------------------->  BINNED or FREE
 *      ^                   |  retire
 *      +---- unretire ---- RETIRED
 *      ^ |                 ^  ^        bin hit              |  ^
 *      | |                 |  +-----------------------------+  |
 *      | |                 |                   flush (merges)  |
 *      | |                 +-- commit --+                      v
 *      | | cut                          |                     FREE
 *      | +------> STALE -- unmapped --> HOLE -- plan --> PENDING
 *      |            |                                        |
 *      +-- uncut ---+                 undo: FREE and HOLE <--+
 *
 *     LIVE <-- park, unpark --> PARKED, which a free makes FREE, HOLE and STALE by its pages
 *
 * Each enumerator says what its state is; docs/hacking.md has a table that is made of those
 * comments.
 *
 * Records are host memory of their world. Tenure returns them only when the world has no memory
 * (tnri_world_dissolve) or ends, and wipes the world's entries in the block map first. So if the
 * map still holds a pointer to a record, the record may be looked at. All fields are protected by
 * the arena's lock, except `world`, which is constant. One change needs less: LIVE to BINNED by a
 * thread that returns a block (memory/arena/returns.h). So code on the cached path, which holds
 * that lock alone, reads the state of a neighbour by tnri_block_state_near.
 */
#ifndef TNRI_SPACE_BLOCK_H
#define TNRI_SPACE_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include <tenure/alloc.h>

typedef enum tnri_state {
    TNRI_UNUSED = 0, /* a spare record. Becomes: any (it is entered) */
    TNRI_FREE,    /* mapped, in the index; never beside another FREE. Becomes: LIVE (carve), STALE
                   * (cut), PENDING (claim, offer) */
    TNRI_LIVE,    /* handed out. Becomes: BINNED or FREE (free), RETIRED (retire) */
    TNRI_BINNED,  /* freed, kept by exact size, not merged; or returned, and not taken back yet (see
                   * memory/arena/returns.h). Becomes: LIVE (bin hit), FREE (flush) */
    TNRI_RETIRED, /* freed, with uses that are not known to be over, or kept by a graph; the layer
                   * above owns it. Becomes: FREE (unretire) */
    TNRI_HOLE,    /* addresses without memory, page by page; never beside another HOLE. Becomes:
                   * PENDING (claim) */
    TNRI_STALE,   /* the old mapping of chunks that moved away, or are to be released; unusable.
                   * Becomes: HOLE (unmapped, with proof of idleness), FREE (cut taken back) */
    TNRI_PENDING, /* being given memory outside the lock by the thread that planned it, or on its
                   * way to another world with its memory. Becomes: LIVE and FREE (commit), FREE
                   * and HOLE (undo), LENT (lend) */
    TNRI_PARKED,  /* handed out, but its whole chunks may serve others until it is unparked: see
                   * miss/park.h. Becomes: LIVE (unpark); FREE, HOLE and STALE (free) */
    TNRI_LENT,    /* addresses that another world of the pool has now, with their memory; never
                   * beside another LENT. Becomes: FREE (they are back) */
    TNRI_ALIAS,   /* an old mapping that stays, of chunks that are elsewhere now. Becomes: PENDING
                  * (claim: they come back), FREE (they are back), STALE (released) */
    TNRI_STATE_COUNT
} tnri_state;

typedef struct tnri_block {
    uintptr_t base;
    size_t bytes; /* multiple of TNR_ALIGNMENT_DEFAULT; of the page for HOLE and STALE */
    union {
        struct {
            uint64_t slack : 52;  /* LIVE, RETIRED: bytes not asked for; STALE, and ALIAS whose
                                   * chunks are forgotten: mappings; FREE: class */
            uint64_t holds : 1;   /* STALE: 1 if its chunks are still its own, and released with it;
                                   * LIVE and RETIRED: 1 if its slack is a canary; BINNED: 1 if it
                                   * was returned, and is in no bin */
            uint64_t stamped : 1; /* LIVE and RETIRED: 1 if `stamp` is set; else nothing */
            uint64_t content : 2; /* LIVE: what its owner wants of a sleep; else 0 */
            uint64_t state : 8;   /* tnri_state */
        };
        uint64_t what; /* all of them: see tnri_block_what */
    };
    struct tnri_world *world;
    union {
        struct tnri_block
            *next;      /* in the list of its state: class, bin, holes, lent, aliases, stale,
                         * spares */
        uint64_t stamp; /* LIVE and RETIRED, in no list: the history's; see note.h */
    };
    union {
        struct tnri_block *prev;  /* in a doubly linked list: HOLE, LENT, ALIAS */
        struct tnri_block **link; /* FREE: the pointer to it in the list of its class */
        struct tnri_event *event; /* STALE: what must be over; null: nothing */
        struct tnri_uses *uses; /* LIVE and RETIRED: the layer above's; null: none. BINNED: null */
    };
    struct tnri_block *below, *above; /* address neighbours in the span; null at its ends */
} tnri_block;

/* What fits into the bit-field; no size of device memory comes near it. */
#define TNRI_SLACK_MASK (((uint64_t)1 << 52) - 1)

_Static_assert(sizeof(void *) != 8 || sizeof(tnri_block) == 64, "a record is one cache line");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tnri_block_what knows where `state` is");

/* The word of a record that is in this state, has this slack, and none of the other marks. Written
 * and read as one word, because a processor does not forward a store to a wider load. */
static inline uint64_t tnri_block_what(tnri_state state, size_t slack)
{
    return (uint64_t)state << 56 | (slack & TNRI_SLACK_MASK);
}

/* The word of a BINNED record that was returned. */
static inline uint64_t tnri_block_what_returned(size_t slack)
{
    return tnri_block_what(TNRI_BINNED, slack) | (TNRI_SLACK_MASK + 1); /* with `holds` */
}

/* The state of a block that another thread may be returning. */
static inline unsigned tnri_block_state_near(const tnri_block *block)
{
    return __atomic_load_n((const uint8_t *)&block->what + 7, __ATOMIC_RELAXED);
}

static inline uintptr_t tnri_block_end(const tnri_block *block)
{
    return block->base + block->bytes;
}

static inline size_t tnri_block_requested(const tnri_block *block)
{
    return block->bytes - block->slack;
}

/* "live", "free", ...: for reports and validators. */
const char *tnri_state_name(unsigned state);

#endif
