/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this layer asks of the layer above: a small table that the lifetime layer registers when it
 * is first used. Until then the table is null, no block has uses on other streams, and a free is
 * ordered on its own stream alone.
 *
 * All functions are called with no lock held, in the device's context, unless a function's comment
 * says otherwise.
 */
#ifndef TNRI_ARENA_UPPER_H
#define TNRI_ARENA_UPPER_H

#include "memory/arena/arena.h"
#include "memory/arena/wait.h"

/* How far tnri_upper.collect may go to end retired blocks. Each value includes those before it. */
typedef enum tnri_collect {
    TNRI_COLLECT_OWN,   /* ask only about the oldest of the arena's blocks */
    TNRI_COLLECT_OVER,  /* ask which uses are over, of all streams */
    TNRI_COLLECT_ORDER, /* make the blocks' stream wait for uses, on the device */
    TNRI_COLLECT_WAIT   /* wait for uses on the host */
} tnri_collect;

/* Memory of another process that is mapped here. */
typedef struct tnri_seen_import {
    uintptr_t address;
    size_t bytes;
    int device;
    int process;         /* that it is from; 0: not known */
    uint64_t generation; /* of what it was published as, under a name; 0: it was not */
    char published[64];
    int is_read_only;
} tnri_seen_import;

typedef struct tnri_upper {
    /* Frees a live block that has uses: marks them, then retires or frees it. Not in the
     * context. */
    tnr_status (*free_used)(tnri_arena *arena, tnri_block *block, void *ptr);

    /* Ends retired blocks of an arena until `bytes` are free again, as far as `how` allows. Returns
     * the bytes that became free in this arena. */
    size_t (*collect)(tnri_arena *arena, size_t bytes, tnri_collect how);

    /* Forgets the uses of a live block that is freed by force; its arena's lock is held. */
    void (*forget)(tnri_arena *arena, tnri_block *block);

    /* Tells what a retired block waits for: fills at most `room` of `waits` and returns how many
     * there are. Its arena's lock is held. */
    size_t (*describe)(const struct tnri_uses *uses, tnri_wait *waits, size_t room);

    /* 1 if a retired block is memory that was freed inside a capture, and that the capture hands
     * out again: in a picture it is free. Its arena's lock is held. */
    int (*is_piece)(const struct tnri_uses *uses);

    /* The arena is about to be destroyed; it holds no block. */
    void (*arena_gone)(tnri_arena *arena);

    /* The device is about to be put out of use; it has no arena any more. */
    void (*device_gone)(struct tnri_device *device);

    /* Tries again to mark what was freed where its uses could not be marked. Called where memory is
     * looked for or counted. Not in the context. */
    void (*retry)(void);
} tnri_upper;

extern _Atomic(const tnri_upper *) tnri_upper_table;

/* Frees a block as tnr_free_sync does, where the setting auto_record asks for it. That may come
 * before any call of the layer above, so the function is offered when the library is loaded. Null:
 * the program is one of our tests, linked without that layer. */
extern tnr_status (*tnri_upper_free_sync)(tnri_block *block, void *ptr);

static inline const tnri_upper *tnri_upper_get(void)
{
    return atomic_load_explicit(&tnri_upper_table, memory_order_acquire);
}

/* What this layer, and lifetime/order, ask of the room that lets memory live beyond its process
 * (lifetime/share). Registered before the first export or import is made. */
typedef struct tnri_sharing {
    /* Closes offers whose blocks have been freed. Cheap where there are none. */
    void (*withdraw)(void);

    /* Lets go of what other processes held and have closed. Never waits. Not in the context. */
    void (*settle)(void);

    /* Tells of one import, by its index from 0 on. Returns 0 if there are not so many. */
    int (*import_at)(size_t index, tnri_seen_import *seen);

    /* The device is about to be put out of use. With `force`, in the context: ends what other
     * processes have of it, and what it has of theirs. Without, not in the context: returns
     * TNR_ERR_BUSY if there is anything. */
    tnr_status (*device_ending)(struct tnri_device *device, int force);
} tnri_sharing;

extern _Atomic(const tnri_sharing *) tnri_sharing_table;

static inline const tnri_sharing *tnri_sharing_get(void)
{
    return atomic_load_explicit(&tnri_sharing_table, memory_order_acquire);
}

/* What this layer asks of the layer that follows captures. Registered before the first capture
 * begins, so the table is there whenever tnri_capturing() says yes. */
typedef struct tnri_captures {
    /* Serves a request if its stream is being captured: returns 1, and the outcome in *status.
     * `handle` is what the caller named as the pool; null: none. */
    int (*malloc)(int device, tnr_pool handle, tnr_stream stream, const tnri_request *request,
                  void **ptr, tnr_status *status);

    /* Asked, while a capture is under way, about the free of a block that may be live and start at
     * `ptr`: returns 1 if it took the free over, with the outcome in *status. */
    int (*free)(tnri_arena *arena, tnri_block *block, void *ptr, int is_sync, tnr_status *status);

    /* Asked, while a capture is under way, about a use of the block that contains `ptr` by a
     * stream: returns 1 if the stream is being captured, with the outcome in *status. */
    int (*use)(tnri_arena *arena, const void *ptr, tnr_stream stream, int until_free,
               tnr_status *status);

    /* A block of which this layer knows `captured` has ended, or was freed by force. The arena's
     * lock may be held. */
    void (*captured_gone)(void *captured);

    /* The stream that a live block of a graph pool was handed out on; its arena's lock is held. */
    tnr_stream (*home)(const tnri_block *block);

    /* Looks for graphs that have ended, and lets go what they held. */
    void (*settle)(struct tnri_device *device);

    /* Called, while a capture is under way, when memory is short: lets go of what was freed in
     * captures that the calling thread takes part in, as far as it is known that they do not refer
     * to it. Returns how many bytes that may make free. */
    size_t (*memory_is_short)(void);

    /* From the first of these to the last, no capture or graph begins, ends or changes. `describe`
     * tells of the graphs of all devices, and of the blocks, live or freed, that they and captures
     * under way keep. `still_begin` is called before the lock of the history is taken, because a
     * thread that runs out of memory in a capture writes a snapshot. */
    void (*still_begin)(void);
    void (*describe)(const tnri_graph_listener *listener);
    void (*still_end)(void);

    /* A graph pool is being destroyed; it has no arena any more. */
    void (*pool_gone)(struct tnr_pool_st *pool);

    /* Ends all captures that need memory of the device, in the driver too. TNR_ERR_CAPTURE: only
     * others can end one. Not in the context. */
    tnr_status (*captures_end)(struct tnri_device *device);

    /* The device is about to be put out of use. With `force`, in the context: ends what graphs hold
     * of it, whichever device they are of; no capture needs its memory. Without, returns
     * TNR_ERR_BUSY if a graph or a capture holds anything. */
    tnr_status (*device_ending)(struct tnri_device *device, int force);

    /* Walks what is known of captures and graphs of a device. Returns null, or what is wrong, in a
     * buffer of the thread. */
    const char *(*validate)(struct tnri_device *device);
} tnri_captures;

extern _Atomic(const tnri_captures *) tnri_captures_table;

static inline const tnri_captures *tnri_captures_get(void)
{
    return atomic_load_explicit(&tnri_captures_table, memory_order_acquire);
}

/* See tnri_sharing.settle. */
static inline void tnri_sharing_settle(void)
{
    const tnri_sharing *sharing = tnri_sharing_get();
    if (sharing != NULL)
        sharing->settle();
}

/* See tnri_sharing.withdraw. */
static inline void tnri_sharing_withdraw(void)
{
    const tnri_sharing *sharing = tnri_sharing_get();
    if (sharing != NULL)
        sharing->withdraw();
}

/* What other processes held goes on before what could not be marked is tried again. */
static inline void tnri_upper_settle(void)
{
    const tnri_upper *upper = tnri_upper_get();
    tnri_sharing_settle();
    if (upper != NULL)
        upper->retry();
}

/* tnri_upper_settle, and tnri_captures.settle. Called where memory is looked for or counted. */
static inline void tnri_captures_settle(struct tnri_device *device)
{
    const tnri_captures *captures = tnri_captures_get();
    if (captures != NULL)
        captures->settle(device);
    tnri_upper_settle();
}

#endif
