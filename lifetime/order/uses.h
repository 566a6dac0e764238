/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses: which streams other than its own still need a block, and how far.
 *
 * A block that was ever used elsewhere has a `tnri_uses` with one `tnri_use` for each such stream,
 * so the list is no longer than the number of streams. While the block is live, the arena's lock
 * protects all of it. From the free on (retire.h) it belongs to the retirement: the list is
 * constant, the using stream owns the heap links, and `pending` is an atomic count.
 */
#ifndef TNRI_LIFETIME_USES_H
#define TNRI_LIFETIME_USES_H

#include <tenure/export.h>
#include <tenure/lifetime.h>

#include "memory/arena/arena.h"
#include "memory/arena/wait.h"
#include "memory/stream/stream.h"

/* Uses that need no record of their own: most blocks have one, and few have more than these. */
enum { TNRI_USES_FEW = 4 };

/* tnri_use.until_free */
enum {
    TNRI_UNTIL_FREE_NO,
    TNRI_UNTIL_FREE_OPEN,  /* tnr_record_stream: is to be marked at the free */
    TNRI_UNTIL_FREE_MARKED /* was, by a free that goes on; open again if that free fails */
};

typedef struct tnri_use {
    struct tnri_uses *owner;
    struct tnri_use *next;      /* in owner->first */
    struct tnri_stream *stream; /* holds a reference */
    uint64_t number;            /* of the mark where the use ends; 0: not marked yet */
    tnri_event *event;          /* of the mark; holds a reference; null with number 0 */
    int until_free;

    /* The lock of the stream's pending uses: */
    int is_pending; /* 1: in the stream's heap */
    struct tnri_use *child, *sibling, *back;
} tnri_use;

/* An export that has a name (tnr_export_offer). */
typedef struct tnri_offer {
    tnr_export number;
    _Atomic int is_freed; /* 1: the block was freed, so it is to be closed */
} tnri_offer;

typedef struct tnri_uses {
    tnri_block *block;
    tnri_arena *arena;
    tnri_use *first;
    size_t bytes;                    /* of the block; for after it is gone */
    _Atomic uint32_t pending;        /* uses not over, and threads that look; see retire.h */
    struct tnri_uses *older, *newer; /* among the arena's retired ones; its life's lock */
    struct tnri_uses *batch_next;    /* tnr_free_sync: in the device's batch; its lock */
    _Atomic int is_unfenced;         /* 1: in a batch whose fence has not been made */
    uint32_t holds;   /* graphs, captures and exports that keep the block: see hold.h; the arena's
                     * lock */
    uint32_t exports; /* exports among the holds; the arena's lock */
    struct tnri_offer *offer; /* the export that ends with the block's free; null: there is none;
                               * the arena's lock */
    int is_freed;             /* 1: freed while held; the arena's lock */
    int is_sync;              /* 1: by tnr_free_sync; constant once freed */
    /* What captures know of the block: a record of the layer above, which has this list inside.
     * Null: the list is this layer's own. */
    void *captured;
    int is_orphaned; /* 1: its own stream cannot be named, so it is freed as by tnr_free_sync; the
                      * arena's lock */
    uint32_t freed_stack; /* where it was freed, for traps; 0: not known. Constant once freed */
    tnri_use fence;       /* tnr_free_sync: the use that the fence becomes */
    tnri_use few[TNRI_USES_FEW]; /* for streams' uses; one is free if its owner is null */
    uint64_t freed_ticks; /* when it was freed, for pictures; 0: inside a capture, as a piece; the
                           * arena's lock */
} tnri_uses;

/* An arena's part in retirement. Lives as long as the arena. */
typedef struct tnri_life {
    tnri_lock lock;
    tnri_uses *oldest, *newest; /* retired blocks, in the order of their frees; the lock */
    _Atomic uint32_t coming; /* retired blocks not in the list yet; raised under the arena's lock */
} tnri_life;

/* The life of an arena, made if there is none; null: no host memory. */
tnri_life *tnri_life_of(tnri_arena *arena);

/* The stream's use in the list, or null. */
static inline tnri_use *tnri_uses_find(const tnri_uses *uses, const tnri_stream *stream)
{
    tnri_use *use = uses->first;
    while (use != NULL && use->stream != stream)
        use = use->next;
    return use;
}

/* Moves the end of a use on to a mark; takes over the mark's event. A stream is a queue, so its
 * later mark covers its earlier one. Returns the event that is not needed any more; the caller
 * recycles it. */
static inline tnri_event *tnri_use_advance(tnri_use *use, uint64_t number, tnri_event *event)
{
    if (tnri_unlikely(use->number > number))
        return event;
    tnri_event *before = use->event;
    use->event = event;
    use->number = number;
    return before;
}

/* 1 if tnr_free_sync freed the block and its batch has no fence yet. */
static inline int tnri_uses_are_unfenced(const tnri_uses *uses)
{
    return atomic_load_explicit(&uses->is_unfenced, memory_order_acquire);
}

/* Adds a mark to a live block's uses, or moves the stream's mark on; takes over the reference to
 * *event. With a null event the use lasts until the free. Sets *event to the event that is not
 * needed any more, or to null; the caller gives it to tnri_stream_recycle after it has given up the
 * lock. Under the arena's lock. TNR_ERR_HOST_MEMORY: nothing has changed. */
tnr_status tnri_use_add(tnri_arena *arena, tnri_block *block, tnri_stream *stream, uint64_t number,
                        tnri_event **event);

/* The same for the first use of a block by a stream, with an event. Under the stream's lock too,
 * which has the reference to the stream that the use needs. */
tnr_status tnri_use_begin(tnri_arena *arena, tnri_block *block, tnri_stream *stream,
                          uint64_t number, tnri_event **event);

/* Makes a stream wait, on the device, for all uses of the live block at `ptr`. Uses that are open
 * until the free are marked now. Errors: TNR_ERR_NOT_LIVE, TNR_ERR_CAPTURE; and, without a
 * sentence, TNR_ERR_INVALID_STREAM if the stream has ended. No lock is held. */
tnr_status tnri_uses_order(tnri_arena *arena, const void *ptr, tnri_stream *stream);

/* Takes back the use until the free of the stream with that key (tnri_stream_key), if there is one.
 * Under the arena's lock. */
void tnri_use_forget(tnri_uses *uses, uintptr_t key);

/* Makes sure that a live block has a list, which may be empty. Under the arena's lock. */
tnr_status tnri_uses_prepare(tnri_arena *arena, tnri_block *block);

/* A list with the same marked uses, for memory that parts from a live block. Under its arena's
 * lock. Null: no host memory. */
tnri_uses *tnri_uses_copy(const tnri_uses *of);

/* Tells what a retired block waits for: tnri_upper.describe. */
size_t tnri_uses_describe(const tnri_uses *uses, tnri_wait *waits, size_t room);

/* Returns the records' memory if none is in use. */
void tnri_use_records_trim(void);

/* Frees a block's uses with all references. Keeps the events for their streams, unless a lock is
 * held. */
void tnri_uses_free(tnri_uses *uses, int is_locked);

#endif
