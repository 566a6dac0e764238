/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations and the queues they wait in.
 *
 * A stream's queue is a ring of operations by value that doubles when it is full, so that queueing
 * one allocates nothing. The head stays in the ring while it runs: "everything up to this ticket is
 * finished" is then "the ring is empty or its head has a higher ticket".
 *
 * sim_submit is the only way into a queue.
 */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

#define LAUNCH_ROOM ((size_t)512) /* storage of a recycled launch block */

/* ---- what an operation is ------------------------------------------------------------------- */

const char *sim_op_name(enum sim_op_kind kind)
{
    static const char *const names[SIM_OP_KINDS] = {
        "an event record", "an event wait", "a value wait",    "a value write",
        "a memset",        "a copy",        "a host function", "a kernel",
        "a free",          "a marker",      "an event wait",
    };
    return names[kind];
}

const struct sim_access *sim_op_accesses(const struct sim_op *op, size_t *count)
{
    if (op->kind == SIM_OP_KERNEL) {
        *count = op->launch->access_count;
        return op->launch->access;
    }
    *count = op->access_count;
    return op->access;
}

/* Adds a range to an operation under construction. */
void sim_op_touch(struct sim_op *op, CUdeviceptr address, uint64_t bytes, int write)
{
    op->access[op->access_count++] =
        (struct sim_access){.address = address, .bytes = bytes, .is_write = write};
}

static struct sim_launch *launch_free_list;

/* A block with room for the launch's parameters and accesses; null when memory is short. */
struct sim_launch *sim_launch_new(size_t room_bytes)
{
    struct sim_launch *launch = room_bytes <= LAUNCH_ROOM ? launch_free_list : NULL;
    if (launch != NULL) {
        launch_free_list = launch->next_free;
    } else {
        size_t room = room_bytes <= LAUNCH_ROOM ? LAUNCH_ROOM : room_bytes;
        launch = malloc(sizeof(*launch) + room);
        if (launch == NULL)
            return NULL;
        launch->room_bytes = room;
    }
    launch->next_free = NULL;
    launch->kernel = NULL;
    launch->packed_bytes = 0;
    launch->access_count = 0;
    launch->access = NULL;
    return launch;
}

static void launch_dispose(struct sim_launch *launch)
{
    if (launch->access != launch->few)
        free(launch->access);
    launch->access = NULL;
    if (launch->room_bytes == LAUNCH_ROOM) {
        launch->next_free = launch_free_list;
        launch_free_list = launch;
    } else {
        free(launch);
    }
}

void sim_launch_reset(void)
{
    while (launch_free_list != NULL) {
        struct sim_launch *launch = launch_free_list;
        launch_free_list = launch->next_free;
        free(launch);
    }
}

/* The stream that the program knows of: a launched graph has some of its own. */
uint64_t sim_op_stream_id(const struct sim_stream *stream, const struct sim_op *op)
{
    return op->node != 0 ? op->launched_in : stream->id;
}

/* Whether the operation is a point that others wait for, with a clock of its own. */
int sim_op_records(const struct sim_op *op)
{
    return op->kind == SIM_OP_RECORD || op->kind == SIM_OP_EMPTY;
}

/* A second operation that does the same and has not been queued; 0 when memory is short. */
int sim_op_copy(const struct sim_op *op, struct sim_op *copy)
{
    *copy = *op;
    copy->ticket = 0;
    copy->acquire = NULL;
    copy->node = 0;
    switch (op->kind) {
    case SIM_OP_RECORD:
    case SIM_OP_WAIT_EVENT:
        copy->record.event->references++;
        copy->record.release = NULL;
        break;
    case SIM_OP_WAIT:
        sim_point_hold(copy->wait);
        break;
    case SIM_OP_COPY:
        if (op->copy.staged != NULL) {
            copy->copy.staged = malloc(op->copy.bytes);
            if (copy->copy.staged == NULL)
                return 0;
            memcpy(copy->copy.staged, op->copy.staged, op->copy.bytes);
        }
        break;
    case SIM_OP_KERNEL:
        copy->launch = sim_kernel_copy(op->launch);
        return copy->launch != NULL;
    case SIM_OP_EMPTY:
        copy->record.release = NULL;
        copy->record.launched = NULL;
        break;
    default:
        break;
    }
    return 1;
}

/* Gives back what the operation owns, whether it ran or not. */
void sim_op_dispose(struct sim_op *op)
{
    sim_race_dispose(op);
    switch (op->kind) {
    case SIM_OP_RECORD:
    case SIM_OP_WAIT_EVENT:
        sim_event_drop(op->record.event);
        break;
    case SIM_OP_EMPTY:
        if (op->record.launched != NULL)
            sim_exec_drop(op->record.launched);
        break;
    case SIM_OP_WAIT:
        sim_stream_drop(op->wait.stream);
        break;
    case SIM_OP_COPY:
        free(op->copy.staged);
        break;
    case SIM_OP_KERNEL:
        launch_dispose(op->launch);
        break;
    default:
        break;
    }
}

/* ---- queues --------------------------------------------------------------------------------- */

struct sim_op *sim_stream_head(const struct sim_stream *stream)
{
    return &stream->ring[stream->head & (stream->room - 1)];
}

static int ring_grow(struct sim_stream *stream)
{
    uint64_t room = stream->room == 0 ? 16 : stream->room * 2;
    struct sim_op *ring = malloc(room * sizeof(*ring));
    if (ring == NULL)
        return 0;
    for (uint64_t n = stream->head; n < stream->tail; n++)
        ring[n & (room - 1)] = stream->ring[n & (stream->room - 1)];
    free(stream->ring);
    stream->ring = ring;
    stream->room = room;
    return 1;
}

/* Makes room for so many streams more among the busy ones. */
int sim_busy_reserve(size_t count)
{
    struct sim_stream **larger =
        sim_grow(sim.busy, &sim.busy_room, sim.busy_count + count, sizeof(*larger));
    sim.busy = larger == NULL ? sim.busy : larger;
    return larger != NULL;
}

static void busy_insert(struct sim_stream *stream)
{
    stream->busy_index = sim.busy_count;
    sim.busy[sim.busy_count++] = stream;
    sim_stream_hold(stream);
}

/* Makes room for so many operations more, so that queueing them cannot fail. */
int sim_queue_reserve(struct sim_stream *stream, uint64_t count)
{
    while (stream->room - (stream->tail - stream->head) < count)
        if (!ring_grow(stream))
            return 0;
    return 1;
}

/* Queues a copy of the operation in a stream that has room for it, with room for the stream among
 * the busy ones. The schedule is not told, so that several operations can be queued as one. */
struct sim_op *sim_queue(struct sim_stream *stream, const struct sim_op *op)
{
    if (stream->head == stream->tail)
        busy_insert(stream);
    struct sim_op *queued = &stream->ring[stream->tail & (stream->room - 1)];
    *queued = *op;
    queued->ticket = ++sim.ticket;
    stream->last_ticket = queued->ticket;
    stream->tail++;
    sim.pending++;
    sim_race_submitted(stream, queued);
    if (op->kind == SIM_OP_RECORD)
        sim_event_mark(op->record.event,
                       (struct sim_point){stream, queued->ticket, queued->record.release});
    if (op->kind == SIM_OP_HOST)
        sim_schedule_watch();
    return queued;
}

/* Queues a copy of the operation, or makes a node of it if the stream captures. Owns what it holds
 * from here on, also when it fails. */
CUresult sim_submit(struct sim_stream *stream, const struct sim_op *op)
{
    CUresult captured = CUDA_SUCCESS;
    if (sim_capture_take(stream, op, &captured))
        return captured;
    if (!sim_queue_reserve(stream, 1) || !sim_busy_reserve(1)) {
        struct sim_op refused = *op;
        sim_op_dispose(&refused);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (void)sim_queue(stream, op);
    sim_schedule_submitted();
    return CUDA_SUCCESS;
}

/* Takes the head away after it ran; the stream may be gone after this if nothing else holds it. */
void sim_stream_pop(struct sim_stream *stream)
{
    stream->head++;
    sim.pending--;
    sim.completed++;
    if (stream->head == stream->tail) {
        sim.busy_count--;
        sim.busy[stream->busy_index] = sim.busy[sim.busy_count];
        sim.busy[stream->busy_index]->busy_index = stream->busy_index;
        sim_stream_drop(stream);
    }
}
