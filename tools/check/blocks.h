/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks that the program has, and those that it had: who allocated, used and freed them.
 *
 * A freed block is remembered until its addresses are handed out again. Then it becomes the
 * `before` of the new block. If there are too many, the oldest are forgotten.
 *
 * Between check_enter and check_leave.
 */
#ifndef TENURE_PRELOAD_CHECK_BLOCKS_H
#define TENURE_PRELOAD_CHECK_BLOCKS_H

#include <sys/types.h>

#include "check/places.h"
#include "check/streams.h"

/* One thing that was done with a block. */
typedef struct check_touch {
    const check_place *place; /* null: nothing */
    size_t index;             /* of the stream */
    uint64_t number;          /* of the work there; 0: on the host, on no stream */
    uint64_t stream;          /* its name, and its handle, which may be another's later */
    const void *handle;
    pid_t thread;
    int is_certain; /* 0: a word that may be an address, and may be none; of a free: its stream
                     * waits for what cannot be seen */
} check_touch;

/* What the program has recorded: uses up to a point (`covered`), and the streams whose uses are
 * recorded up to the free. */
typedef struct check_records {
    check_clock covered;
    check_stamp *until_free;
    size_t count, room;
} check_records;

enum { CHECK_USES_INSIDE = 2 };

enum { CHECK_LINE_BYTES = 64 };

/* Cache lines, by what reads them: a use reads the first one, and mostly writes the second; a free
 * reads these two and the fourth, and writes the third and the last. */
typedef struct check_block {
    _Alignas(CHECK_LINE_BYTES) CUdeviceptr base;
    size_t bytes;
    struct check_block *next_base; /* others where bases meet: bases.h */
    uint64_t own; /* made.stream: in whose order it was allocated; 0: for all at once */
    struct check_block *lower; /* the neighbour by address, as `upper`, whether live or freed */
    check_touch *uses;         /* the last of each stream, certain ones and others apart */
    uint32_t uses_count, uses_room;
    uint16_t named; /* how often in the launch that it was last named in */
    uint8_t is_live;
    uint8_t is_engine;         /* allocated by a call of Tenure's own */
    uint8_t is_known_free;     /* Tenure has said so, of what was freed */
    uint8_t is_awaited;        /* freed, with uses that its next owner must come after */
    uint8_t is_of_end : 1;     /* freed as the interpreter ended: the memory is not handed on */
    uint8_t is_graph : 1;      /* allocated in a capture: its uses in graphs are not followed */
    uint8_t is_beside;         /* it begins where `lower` ends; see bases.h */
    check_records *records;    /* what the program has recorded with Tenure; null: nothing */
    struct check_waste *waste; /* with --waste, while it lives; else null */
    check_touch uses_inside[CHECK_USES_INSIDE]; /* `uses`, if few */
    struct check_block *older, *newer;          /* freed ones, by age */
    check_touch made;
    struct check_block *upper;
    struct check_block *before; /* that had the addresses; null: none that is known */
    check_touch freed;
    uint64_t serial;   /* no two blocks have one */
    uint64_t named_in; /* that launch */
} check_block;
_Static_assert(sizeof(check_block) == 5 * CHECK_LINE_BYTES, "a block takes five lines");

/* The block that contains an address: live or freed, only live, only freed. Null: none. */
static inline check_block *check_block_at(CUdeviceptr address);
static inline check_block *check_block_live(CUdeviceptr address);
static inline check_block *check_block_freed(CUdeviceptr address);

/* Enters a block that was handed out. Blocks that were at its addresses are none any more. Null: no
 * memory. */
check_block *check_block_make(CUdeviceptr base, size_t bytes);

/* The first: the block has been freed, and its uses and records are dropped. The second: it has
 * been freed, and its uses are kept until somebody gets the memory, or could get it. The third:
 * forgets all that is known of these addresses. */
void check_block_free(check_block *block);
void check_block_await(check_block *block);
void check_blocks_forget(CUdeviceptr base, size_t bytes);

/* 1 if no block that is gone has had the address where this one begins. 0: one has, or one that was
 * forgotten may have. */
static inline int check_block_is_first(const check_block *block);

/* The records of a block, made when first asked for; null: no memory. */
check_records *check_block_records(check_block *block);

/* The stream's uses are recorded up to the free. 0: no memory. */
int check_records_add(check_records *records, check_stamp stream);

/* Notes a use, in place of the stream's last one. `is_certain` counts, not what the use says of
 * it. */
static inline void check_block_use(check_block *block, const check_touch *use, int is_certain);

/* Calls for each block that was freed with uses that are kept. 1: they are dropped now. */
void check_blocks_awaited(int (*judge)(const check_block *block, void *user), void *user);

/* Calls for each live block, in the order of addresses. */
void check_blocks_each(void (*visit)(const check_block *block, void *user), void *user);

/* ---- finding one ----------------------------------------------------------------------------- */

/* Most addresses that are looked up are where a block begins: bases.h. As long as there are few
 * blocks they have the first few pages of the table. */
enum { CHECK_TABLE_MAX = 1 << 16 };
extern check_block *check_bases_table[CHECK_TABLE_MAX]; /* more in next_base */
extern size_t check_bases_mask;

static inline check_block **check_bases_in_table(CUdeviceptr base)
{
    uint64_t mixed = (uint64_t)base * UINT64_C(0x9e3779b97f4a7c15);
    return &check_bases_table[mixed >> 48 & check_bases_mask];
}

/* The block that begins at the address; null: none. */
static inline check_block *check_bases_at(CUdeviceptr base)
{
    check_block *one = *check_bases_in_table(base);
    while (one != NULL && one->base != base)
        one = one->next_base;
    return one;
}

/* The block that contains an address and begins below it. */
check_block *check_block_around(CUdeviceptr address);

extern CUdeviceptr check_forgotten_low, check_forgotten_end; /* around what was forgotten */
static inline int check_block_is_first(const check_block *block)
{
    return block->before == NULL &&
           (block->base < check_forgotten_low || block->base >= check_forgotten_end);
}

static inline check_block *check_block_at(CUdeviceptr address)
{
    check_block *found = check_bases_at(address);
    return found != NULL ? found : check_block_around(address);
}

static inline check_block *check_block_live(CUdeviceptr address)
{
    check_block *found = check_block_at(address);
    return found != NULL && found->is_live ? found : NULL;
}

static inline check_block *check_block_freed(CUdeviceptr address)
{
    check_block *found = check_block_at(address);
    return found != NULL && !found->is_live ? found : NULL;
}

/* ---- uses ------------------------------------------------------------------------------------ */

void check_block_use_more(check_block *block, const check_touch *use, int is_certain);

/* 1 if a use is forgotten for a later one. A certain use takes the place of a possible one, too:
 * whoever waits for the certain one waits for the possible one. So a stream's certain use always
 * comes first. */
static inline int check_touch_ends(const check_touch *last, const check_touch *use, int is_certain)
{
    return last->index == use->index && last->is_certain <= is_certain;
}

/* Most blocks are used by one stream only: for certain, and besides as a word of a list, which is
 * possible. */
static inline void check_block_use(check_block *block, const check_touch *use, int is_certain)
{
    check_touch *last = block->uses;
    if (block->uses_count == 0 ||
        (!check_touch_ends(last, use, is_certain) &&
         (block->uses_count == 1 || !check_touch_ends(++last, use, is_certain)))) {
        check_block_use_more(block, use, is_certain);
        return;
    }
    *last = *use;
    last->is_certain = is_certain;
}

#endif
