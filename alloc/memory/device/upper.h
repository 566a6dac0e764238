/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this layer asks of the rooms above it: each registers one table of the same type. A function
 * that a room has nothing to say to is null in its table, and until it has registered all are: the
 * program does not use the room, and there is nothing to ask. Most rooms register with the first
 * call that makes something of theirs.
 *
 * All are called with no lock held, in the device's context, unless a comment says otherwise.
 */
#ifndef TNRI_DEVICE_UPPER_H
#define TNRI_DEVICE_UPPER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <tenure/alloc.h>

struct tnri_arena;
struct tnri_asking;
struct tnri_block;
struct tnri_conf;
struct tnri_device;
struct tnri_event;
struct tnri_group_counts;
struct tnri_listener;
struct tnri_request;
struct tnri_uses;
struct tnri_wait;

/* The rooms that register, from the bottom up. */
typedef enum tnri_room {
    TNRI_ROOM_ORDER,   /* lifetime/order; `free` is there when the library is loaded */
    TNRI_ROOM_SHARE,   /* lifetime/share */
    TNRI_ROOM_GROUP,   /* lifetime/share/group; when the library is loaded */
    TNRI_ROOM_GRAPH,   /* capture/graph; there whenever tnri_capturing() says yes */
    TNRI_ROOM_AWAY,    /* capture/away */
    TNRI_ROOM_CONTROL, /* capture/control; when the library is loaded */
    TNRI_ROOM_COUNT
} tnri_room;

/* The life of a device, in order. Of a step that may fail, the comment says so. */
typedef enum tnri_device_step {
    TNRI_DEVICE_STARTS, /* it is put into use: the group that the settings name is joined, in_group
                         * and ceiling_bytes are set. Under the library lock, not in the context.
                         * Fails: TNR_ERR_FILE, TNR_ERR_HOST_MEMORY, TNR_ERR_BUSY (no place) */
    TNRI_DEVICE_IS_LIMITED, /* it is in use, and its memory is watched: control groups limit it, or
                             * it is the host's too. Under the library lock */
    TNRI_DEVICE_PAUSES,     /* from here until RESUMES the room's threads do nothing with the device
                             * (null: with any). Waits for what they do now */
    TNRI_DEVICE_RESUMES,
    TNRI_DEVICE_VALIDATES,     /* fails with TNR_ERR_INTERNAL: what the room knows is not right */
    TNRI_DEVICE_MAY_END,       /* fails with TNR_ERR_BUSY: the room has something of it. Not in the
                            * context */
    TNRI_DEVICE_ENDS_CAPTURES, /* captures that need its memory end, in the driver too. Fails with
                                * TNR_ERR_CAPTURE: only others can end one. Not in the context */
    TNRI_DEVICE_ENDS_HOLDS, /* by force: what graphs and other processes have of it, and it of them,
                             * ends. May fail */
    TNRI_DEVICE_TRIMS_CONTENTS, /* of a GPU whose host memory is trimmed: gives back what the room
                                 * has spare there. May fail */
    TNRI_DEVICE_ENDS_CONTENTS,  /* of a GPU whose host memory is about to end: gives back what the
                                * room has there, and its stream here. In the context or not.
                                * Fails with TNR_ERR_BUSY: contents are kept there */
    TNRI_DEVICE_ENDS_USES,      /* it has no arena any more */
    TNRI_DEVICE_STOPS           /* it leaves its group. Not in the context */
} tnri_device_step;

/* How far tnri_upper.collect may go to end retired blocks. Each value includes those before it. */
typedef enum tnri_collect {
    TNRI_COLLECT_OWN,   /* ask only about the oldest of the arena's blocks */
    TNRI_COLLECT_OVER,  /* ask which uses are over, of all streams */
    TNRI_COLLECT_ORDER, /* make the blocks' stream wait for uses, on the device */
    TNRI_COLLECT_WAIT   /* wait for uses on the host */
} tnri_collect;

typedef struct tnri_upper {
    /* ---- of any room ---- */

    tnr_status (*device)(struct tnri_device *device, tnri_device_step step);

    /* A pool ends. First: waits until no copy of the room's own uses its memory, of which it is
     * about to give back all. Then, with `is_gone`: it holds no block, and the room frees what it
     * has for the pool. */
    tnr_status (*pool_end)(tnr_pool pool, int is_gone);

    /* Called where memory is looked for or counted: lets go of what is over, and tries again what
     * could not be done. Never waits. Not in the context. With `is_short`, while a capture is under
     * way, also of what was freed in captures that the calling thread takes part in, as far as they
     * are known not to refer to it; returns how many bytes that may make free. */
    size_t (*settle)(struct tnri_device *device, int is_short);

    /* Tells of what a snapshot has of the room. Graphs: under the graph lock. */
    void (*show)(const struct tnri_listener *listener);

    /* ---- of graph, while a capture is under way; of order ---- */

    /* Frees a block. Graph: any that may be live and start at `ptr`, if a capture has to do with
     * it. Order: a live block that has uses, or with `is_sync` any, as tnr_free_sync does; marks
     * its uses, then retires or frees it. TNR_ERR_NOT_LIVE: it was not freed here, so it is
     * freed as usual. Not in the context. */
    tnr_status (*free)(struct tnri_arena *arena, struct tnri_block *block, void *ptr, int is_sync);

    /* ---- of order ---- */

    /* Ends retired blocks of an arena until `bytes` are free again, as far as `how` allows. Returns
     * the bytes that became free in this arena. */
    size_t (*collect)(struct tnri_arena *arena, size_t bytes, tnri_collect how);

    /* Forgets the uses of a live block that is freed by force; its arena's lock is held. */
    void (*forget)(struct tnri_arena *arena, struct tnri_block *block);

    /* Tells what a retired block waits for: fills at most `room` of `waits` and returns how many
     * there are. SIZE_MAX: it is memory that was freed inside a capture, and that the capture hands
     * out again, so in a picture it is free. Its arena's lock is held. */
    size_t (*describe)(const struct tnri_uses *uses, struct tnri_wait *waits, size_t room);

    /* ---- of graph ---- */

    /* Serves a request if its stream is being captured: returns 1, and the outcome in *status.
     * `handle` is what the caller named as the pool; null: none. Not in the context. */
    int (*malloc)(int device, tnr_pool handle, tnr_stream stream,
                  const struct tnri_request *request, void **ptr, tnr_status *status);

    /* Asked, while a capture is under way, about a use of the block that contains `ptr` by a
     * stream: returns 1 if the stream is being captured, with the outcome in *status. Not in the
     * context. */
    int (*use)(struct tnri_arena *arena, const void *ptr, tnr_stream stream, int until_free,
               tnr_status *status);

    /* A block of which the layers below know `captured` has ended, or was freed by force. The
     * arena's lock may be held. */
    void (*captured_gone)(void *captured);

    /* The stream that a live block of a graph pool was handed out on; its arena's lock is held. */
    tnr_stream (*home)(const struct tnri_block *block);

    /* ---- of group: memory/device/group.h has how they are called ---- */

    /* Memory is about to be taken from the driver. Refuses with TNR_ERR_OUT_OF_MEMORY if others'
     * floors need what is left. */
    tnr_status (*take)(struct tnri_device *device, size_t bytes);
    /* `asked` bytes that `take` was asked about are decided; the process has `change` more. */
    void (*took)(struct tnri_device *device, size_t asked, int64_t change);
    /* Asks the others for memory, if `bytes` is not 0. Waits for them, and for what this process is
     * giving just now. All calls for one request together wait no longer than group_wait_ms. 1:
     * more may be free than before; 0: nothing is, or the time is over. */
    int (*ask)(struct tnri_device *device, size_t bytes, struct tnri_asking *asking);
    void (*count)(const struct tnri_device *device, struct tnri_group_counts *counts);

    /* ---- of away ---- */

    /* A parked block was freed; `kept` is what was kept of its contents. `event`, with a reference,
     * is over when nothing is copied from the block any more. Calls no driver. */
    void (*contents_end)(void *kept, struct tnri_event *event);

    /* ---- of control ---- */

    /* The settings change: starts or ends servers as they say, or fails and changes nothing. Waits
     * for nobody. Under the library lock. */
    tnr_status (*follow)(const struct tnri_conf *before, const struct tnri_conf *after);
    /* Frees servers that were ended, after their threads; with `all`, ends those that are on
     * first. */
    void (*reap)(int all);
} tnri_upper;

extern _Atomic(const tnri_upper *) tnri_uppers[TNRI_ROOM_COUNT];

/* Never null. */
static inline const tnri_upper *tnri_upper_of(tnri_room room)
{
    return atomic_load_explicit(&tnri_uppers[room], memory_order_acquire);
}

/* Any thread, as often as it likes, with the same table. */
static inline void tnri_upper_register(tnri_room room, const tnri_upper *upper)
{
    atomic_store_explicit(&tnri_uppers[room], upper, memory_order_release);
}

/* Of all rooms, from the top down; the first refusal ends it. */
tnr_status tnri_uppers_device(struct tnri_device *device, tnri_device_step step);
tnr_status tnri_uppers_pool_end(tnr_pool pool, int is_gone);
/* The sum of all. */
size_t tnri_uppers_settle(struct tnri_device *device, int is_short);
/* 1 if a block has ever had a use. */
static inline int tnri_upper_collects(void)
{
    return tnri_upper_of(TNRI_ROOM_ORDER)->collect != NULL;
}
/* tnri_upper.collect; nothing if no block has. */
static inline size_t tnri_upper_collect(struct tnri_arena *arena, size_t bytes, tnri_collect how)
{
    const tnri_upper *order = tnri_upper_of(TNRI_ROOM_ORDER);
    return order->collect == NULL ? 0 : order->collect(arena, bytes, how);
}

/* Of one room. */
tnr_status tnri_upper_device(tnri_room room, struct tnri_device *device, tnri_device_step step);
size_t tnri_upper_settle(tnri_room room, struct tnri_device *device);

#endif
