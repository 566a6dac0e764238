/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which operations are legal and possible: see model.h. One function for each group of operations;
 * each returns null or the reason, which `tenure fuzz --replay --verbose` prints.
 */
#include "model.h"

#include "model_graph.h"

static const model_stream *stream_of(const model *self, const fuzz_op *op)
{
    return &self->streams[op->stream];
}

static int stream_device(const model *self, const fuzz_op *op)
{
    return self->order.device[self->streams[op->stream].component];
}

/* 1 if the block was allocated in the capture that is under way. */
static int is_inside(const model *self, const model_block *block)
{
    return block->graph != 0 && block->graph == self->capturing;
}

/* ---- allocating and freeing ----------------------------------------------------------------- */

static const char *malloc_allows(const model *self, const fuzz_op *op)
{
    const model_stream *stream = stream_of(self, op);
    const model_pool *pool = &self->pools[op->pool];
    if (self->blocks[op->block].base != 0)
        return "the slot holds a block";
    if (!stream->is_there)
        return "no such stream";
    if (!pool->is_there || (op->pool > 0 && pool->device != stream_device(self, op)))
        return "no such pool on the device";
    if (pool->is_graph || pool->is_host)
        return "only captures, or the host, allocate from it";
    if (stream->graph != 0 && (op->pool > 0 || op->kind == FUZZ_RESERVE))
        return "the stream is being captured";
    if (stream->graph != 0 && self->graphs[stream->graph - 1].ranges_count >= MODEL_RANGES - 1)
        return "the capture has all the ranges that the model can hold";
    if (op->n == 0 || op->n > (UINT64_C(1) << 40))
        return "no size";
    if (op->kind == FUZZ_ALIGNED && (op->m == 0 || (op->m & (op->m - 1)) || op->m > 1 << 30))
        return "no alignment";
    return NULL;
}

/* 1 if tnr_free_sync waits for every use of the block: it knows the streams of the block's device
 * that Tenure has seen, and those that obey the legacy stream. */
static int sync_covers(const model *self, const model_block *block)
{
    uint32_t known = self->ended_known;
    for (int i = 0; i < FUZZ_STREAMS; i++) {
        int component = self->streams[i].component;
        if (self->streams[i].is_there &&
            (self->streams[i].is_known || (self->order.is_blocking[component] && !block->is_host)))
            known |= 1u << component;
    }
    order_clock home = order_now(&self->order, block->home);
    for (int i = 0; i < ORDER_COMPONENTS; i++)
        if (block->open.at[i] > home.at[i] &&
            ((known >> i & 1) == 0 || (self->order.device[i] != block->device && !block->is_host)))
            return 0;
    return 1;
}

static const char *free_allows(model *self, const fuzz_op *op)
{
    model_block *block = &self->blocks[op->block];
    model_stream *stream = &self->streams[op->stream];
    int component = 0;
    if (block->base == 0)
        return "no such block";
    if (op->kind == FUZZ_FREE_HOST && (!stream->is_there || self->capturing || self->has_faults))
        return "no such stream, or the program cannot wait for it";
    if (is_inside(self, block)) {
        if (op->kind == FUZZ_FREE_SYNC || (op->kind == FUZZ_FREE_ON && !stream->graph))
            return "the block belongs to a capture";
        return graph_is_covered(self, op) ? NULL : "a use in the capture is not recorded";
    }
    if (block->is_parked)
        return graph_references(self, op->block) > 0 ? "it is parked, and a graph refers to it"
                                                     : NULL;
    if (block->part_of != 0)
        return "pages of a range";
    if (block->is_range)
        return range_free_allows(self, op);
    if (graph_references(self, op->block) > 1)
        return "two graphs refer to it: nothing would order their launches";
    if (op->kind == FUZZ_FREE_SYNC && block->reserved > 0 && block->bytes == 0)
        return "nothing is committed";
    if (op->kind == FUZZ_FREE_ON) {
        if (!stream->is_there || stream->graph != 0)
            return "no such stream";
        if (stream_device(self, op) != block->device)
            return "the stream is on another device";
        if (block->reserved > 0 && block->bytes == 0)
            return "nothing is committed";
        /* As record_use and free. */
        model_block after = *block;
        order_clock now = order_now(&self->order, stream->component);
        for (int i = 0; i < ORDER_COMPONENTS; i++)
            if (after.open.at[i] <= now.at[i])
                after.open.at[i] = 0;
        return model_is_covered(self, &after, &component) ? NULL : "a use is not recorded";
    }
    if (model_is_covered(self, block, &component))
        return NULL;
    if (op->kind != FUZZ_FREE_SYNC)
        return "a use is not recorded";
    return sync_covers(self, block) ? NULL : "a stream that Tenure has not seen uses it";
}

/* ---- touching ------------------------------------------------------------------------------- */

/* A stream of the other device. */
static const char *peer_allows(const model *self, const model_block *block,
                               const model_stream *stream)
{
    if (stream->graph != 0 && !self->has_peer_graphs)
        return "a capture on the other device";
    return model_is_open(self, block->device, block->pool)
               ? NULL
               : "its pool is closed to the stream's device";
}

static const char *access_allows(model *self, const fuzz_op *op, int slot, int is_write)
{
    const model_block *block = &self->blocks[slot];
    const model_stream *stream = stream_of(self, op);
    if (block->base == 0 || block->bytes == 0)
        return "no such block";
    if (!stream->is_there)
        return "no such stream";
    if (block->is_parked)
        return "it is parked";
    if (block->is_host && !self->is_used[stream_device(self, op)])
        return "its device is not in use";
    if (stream_device(self, op) != block->device) {
        const char *why = peer_allows(self, block, stream);
        if (why != NULL)
            return why;
    }
    if (model_is_asleep(self, block->device, block->pool))
        return "its pool is asleep";
    if (stream->graph != 0)
        return graph_is_ordered(self, slot, op->stream, is_write) ? NULL : "not ordered";
    if (is_inside(self, block))
        return "the block belongs to a capture";
    if (block->graph == MODEL_UNWRITTEN ||
        (block->graph != 0 && !self->graphs[block->graph - 1].is_launched))
        return "its graph has not been launched";
    if (op->stream == 0 && self->capturing)
        return "the legacy stream, while a capture is under way";
    return model_is_ordered(self, block, stream, is_write) ? NULL : "not ordered";
}

static const char *mark_allows(model *self, const fuzz_op *op)
{
    const model_block *block = &self->blocks[op->block];
    const model_stream *stream = stream_of(self, op);
    const model_event *event = &self->events[op->event];
    if (block->base == 0 || (block->reserved > 0 && block->bytes == 0))
        return "no such block";
    if (block->is_parked)
        return "it is parked";
    int in_capture = is_inside(self, block);
    if (op->kind == FUZZ_KEEP) {
        if (in_capture || self->capturing)
            return "a capture is under way";
        if (!event->is_recorded || !event->is_told || event->graph != 0)
            return "Tenure knows no such event";
        return NULL;
    }
    if (op->n >= block->bytes)
        return "beyond the block";
    if (!stream->is_there)
        return "no such stream";
    if (stream_device(self, op) != block->device)
        return op->kind == FUZZ_USE && op->stream >= 2 && !self->capturing
                   ? NULL
                   : "no such stream on the device";
    if ((stream->graph != 0) != in_capture)
        return "inside and outside of a capture";
    return NULL;
}

/* ---- order ---------------------------------------------------------------------------------- */

static const char *record_allows(const model *self, const fuzz_op *op)
{
    const model_stream *stream = stream_of(self, op);
    if (!stream->is_there)
        return "no such stream";
    if (self->capturing && op->stream == 0)
        return "the legacy stream, while a capture is under way";
    return NULL;
}

/* The handle of a stream that is gone may be another's. */
static const char *tell_allows(const model *self, const fuzz_op *op)
{
    const model_event *event = &self->events[op->event];
    if (!event->is_there || !event->is_late || event->graph != 0 || self->capturing)
        return "nothing is to be told";
    return self->order.is_open[event->component] ? NULL : "its stream is gone";
}

static const char *wait_allows(const model *self, const fuzz_op *op)
{
    const model_stream *stream = stream_of(self, op);
    const model_event *event = &self->events[op->event];
    if (!stream->is_there || !event->is_there || !event->is_recorded)
        return "no such stream or event";
    if (event->graph != 0 && event->graph != self->capturing)
        return "the event was recorded in a capture that has ended";
    if (event->graph == 0 && stream->graph != 0)
        return "a capture may not wait for work outside of it";
    if (self->capturing && op->stream == 0)
        return "the legacy stream, while a capture is under way";
    if (event->graph != 0 && stream->graph == 0) { /* it would join */
        int component = stream->component;
        if (op->stream < 2 || self->order.is_blocking[component] ||
            self->order.device[component] != self->graphs[event->graph - 1].device)
            return "only non-blocking streams of the device join";
    }
    return NULL;
}

static const char *sync_allows(const model *self, const fuzz_op *op)
{
    const model_event *event = &self->events[op->event];
    if (self->capturing)
        return "a capture is under way";
    if (op->kind == FUZZ_SYNC_DEVICE)
        return op->device < self->devices ? NULL : "no such device";
    if (op->kind == FUZZ_SYNC_STREAM)
        return stream_of(self, op)->is_there ? NULL : "no such stream";
    return event->is_there && event->is_recorded && event->graph == 0 ? NULL : "no such event";
}

static const char *stream_allows(model *self, const fuzz_op *op)
{
    const model_stream *stream = stream_of(self, op);
    if (op->stream < 2)
        return "a default stream";
    if (op->kind == FUZZ_STREAM_CREATE)
        return stream->is_there              ? "the slot holds a stream"
               : op->device >= self->devices ? "no such device"
                                             : NULL;
    if (!stream->is_there)
        return "no such stream";
    if (stream->graph != 0 && !graph_is_dispensable(self, op->stream))
        return "its capture needs it";
    int component = stream->component;
    for (int i = 0; i < self->live_count; i++) {
        const model_block *block = &self->blocks[self->live[i]];
        if (stream->is_known && block->device == self->order.device[component])
            continue; /* tnr_free_sync still waits for what was not recorded */
        if (block->open.at[component] > self->order.host.at[component] &&
            (block->marked >> component & 1) == 0)
            return "a use on it is not recorded";
    }
    return NULL;
}

/* ---- pools, growable blocks, devices -------------------------------------------------------- */

/* 1 if the other device may still be at work on live blocks of the pool. A sleep waits for its own
 * device only. */
static int peer_is_busy(const model *self, int pool, int device)
{
    for (int i = 0; i < self->live_count; i++) {
        const model_block *block = &self->blocks[self->live[i]];
        if (block->pool == pool && block->device == device &&
            !order_covers(&self->order.host, &block->peers))
            return 1;
    }
    return 0;
}

static const char *change_allows(const model *self, const fuzz_op *op)
{
    const model_pool *pool = &self->pools[op->pool];
    if (op->device >= self->devices || self->devices < 2)
        return "no such device, or no peer";
    if (op->n == 0 && self->capturing)
        return "closing waits, and a capture is under way";
    if (op->kind == FUZZ_ACCESS && pool->is_host)
        return "host memory is open to all";
    return op->kind == FUZZ_ACCESS && op->pool > 0 &&
                   !(pool->is_there && pool->device == op->device)
               ? "no such pool on the device"
               : NULL;
}

static const char *pool_allows(const model *self, const fuzz_op *op)
{
    const model_pool *pool = &self->pools[op->pool];
    if (op->kind == FUZZ_SLEEP || op->kind == FUZZ_WAKE || op->kind == FUZZ_COMPACT) {
        if (self->capturing)
            return "a capture is under way";
        if (pool->is_host)
            return "host memory does not sleep";
        if (op->kind != FUZZ_WAKE && peer_is_busy(self, op->pool, op->device))
            return "the other device may be at work on it";
        return op->pool == 0 ? op->device < self->devices ? NULL : "no such device"
               : pool->is_there && pool->device == op->device ? NULL
                                                              : "no such pool on the device";
    }
    if (op->kind == FUZZ_POOL_TRIM)
        return self->capturing ? "a capture is under way"
               : op->pool == 0 ? op->device < self->devices ? NULL : "no such device"
               : pool->is_there && pool->device == op->device ? NULL
                                                              : "no such pool on the device";
    if (op->pool == 0 || self->capturing)
        return "the default pool, or a capture is under way";
    if (op->kind != FUZZ_POOL_DESTROY)
        return pool->is_there                ? "the slot holds a pool"
               : op->device >= self->devices ? "no such device"
                                             : NULL;
    if (!pool->is_there)
        return "no such pool";
    for (int i = 0; i < self->live_count; i++)
        if (self->blocks[self->live[i]].pool == op->pool)
            return "blocks of it are live";
    for (int i = 0; i < FUZZ_GRAPHS; i++)
        if (self->graphs[i].state != GRAPH_NONE && self->graphs[i].pool == op->pool)
            return "a graph of it lives";
    return NULL;
}

/* The end of a pool in the middle of a miss of the default pool. */
static const char *miss_allows(const model *self, const fuzz_op *op)
{
    fuzz_op part = *op;
    part.kind = FUZZ_POOL_DESTROY;
    const char *why = pool_allows(self, &part);
    part.kind = FUZZ_MALLOC;
    part.pool = 0;
    return why != NULL ? why : malloc_allows(self, &part);
}

static const char *beside_allows(const model *self, const fuzz_op *op)
{
    if (op->kind == FUZZ_BESIDE_END)
        return self->beside != 0 ? NULL : "no other thread captures";
    return self->beside != 0 || self->capturing ? "a capture is under way"
           : self->has_faults                   ? "its calls must not fail"
           : op->device >= self->devices || self->default_asleep[op->device]
               ? "no such device, or it is asleep"
           : op->n == 0 || op->n > MODEL_RELAXED ? "no mode that leaves the others alone"
                                                 : NULL;
}

/* What waits, or what a capture of the program's own would be in the way of: refused while another
 * thread captures, as the manual says, or not part of the model. */
static int is_fenced(const fuzz_op *op)
{
    switch ((fuzz_kind)op->kind) {
    case FUZZ_CAPTURE_BEGIN:
    case FUZZ_LAUNCH:
    case FUZZ_SLEEP:
    case FUZZ_WAKE:
    case FUZZ_COMPACT:
    case FUZZ_PARK:
    case FUZZ_UNPARK:
    case FUZZ_TRIM:
    case FUZZ_HOST_TRIM:
    case FUZZ_POOL_TRIM:
    case FUZZ_POOL_DESTROY:
    case FUZZ_MISS:
    case FUZZ_ACCESS:
    case FUZZ_ACCESS_ALL:
    case FUZZ_SYNC_DEVICE:
    case FUZZ_FAULT:
        return 1;
    default:
        return 0;
    }
}

/* Whose addresses nobody else knows, and whose uses are over for the stream, or recorded. A launch
 * is a use that nobody records: a free leaves it to the graph, which keeps the block. */
static const char *park_allows(model *self, const fuzz_op *op)
{
    const model_block *block = &self->blocks[op->block];
    const model_pool *pool = &self->pools[block->pool];
    const model_stream *stream = stream_of(self, op);
    int component;
    if (block->base == 0 || block->bytes == 0 || block->is_parked != (op->kind == FUZZ_UNPARK))
        return "no such block";
    if (self->capturing || !stream->is_there || stream_device(self, op) != block->device)
        return "no such stream, or a capture is under way";
    if (model_is_asleep(self, block->device, block->pool))
        return "its pool is asleep";
    if (op->kind == FUZZ_UNPARK)
        return NULL;
    if (block->is_captured || block->graph != 0 || block->reserved > 0 || pool->is_graph ||
        pool->is_foreign || block->is_host || model_is_registered(self, block->device, block->pool))
        return "of a kind that cannot be parked";
    model_block after = *block;
    order_clock now = order_now(&self->order, stream->component);
    order_join(&after.open, &block->launches);
    for (int i = 0; i < ORDER_COMPONENTS; i++)
        if (after.open.at[i] <= now.at[i])
            after.open.at[i] = 0;
    return model_is_covered(self, &after, &component) ? NULL : "a use is not recorded";
}

static int has_parked(const model *self, int device, int pool)
{
    for (int i = 0; i < self->live_count; i++) {
        const model_block *block = &self->blocks[self->live[i]];
        if (block->is_parked && block->device == device && block->pool == pool)
            return 1;
    }
    return 0;
}

static const char *block_allows(const model *self, const fuzz_op *op)
{
    const model_block *block = &self->blocks[op->block];
    if (block->base == 0)
        return "no such block";
    if (op->kind == FUZZ_COMMIT)
        return block->reserved == 0 || block->is_range || block->part_of != 0
                   ? "not a growable block"
               : op->n > block->reserved ? "more than was reserved"
               : op->n == 0              ? "nothing"
               : op->n <= block->bytes   ? "no more than it has"
               : self->capturing         ? "a capture is under way"
                                         : NULL;
    if (op->kind == FUZZ_REGISTER &&
        (block->is_captured || block->pool == FUZZ_POOLS || block->is_host))
        return "a block of a graph, or of host memory";
    if (op->kind == FUZZ_CONTENT && (block->is_host || block->part_of != 0 || block->is_range))
        return "of a kind without a choice of contents";
    if (op->kind == FUZZ_REGISTER && has_parked(self, block->device, block->pool))
        return "others of its pool have no memory of their own";
    if (op->kind == FUZZ_FREE_WRONG)
        return op->n < block->bytes || op->n == 0 ? NULL : "beyond the block";
    return op->n < block->bytes || op->kind == FUZZ_CONTENT
               ? block->bytes == 0 ? "nothing is committed" : NULL
               : "beyond the block";
}

static const char *graph_allows(model *self, const fuzz_op *op)
{
    const model_graph *graph = &self->graphs[op->graph];
    const model_stream *stream = stream_of(self, op);
    switch (op->kind) {
    case FUZZ_CAPTURE_BEGIN:
        if (graph->state != GRAPH_NONE || self->capturing)
            return "the slot holds a graph, or a capture is under way";
        if (op->stream < 2 || !stream->is_there || self->order.is_blocking[stream->component])
            return "only a non-blocking stream is captured";
        if (op->pool > 0 && (!self->pools[op->pool].is_graph || self->pools[op->pool].is_asleep ||
                             self->pools[op->pool].device != stream_device(self, op)))
            return "no such pool of graphs on the device";
        return op->n > 2 ? "no such mode" : NULL;
    case FUZZ_REDIRECT:
        if (!self->capturing || stream->graph == 0 || op->stream == op->other ||
            self->streams[op->other].graph != stream->graph)
            return "not two streams of a capture";
        if (op->n != REDIRECT_ADD && self->graphs[self->capturing - 1].branches == ORDER_COMPONENTS)
            return "the capture has all the branches that the model can hold";
        if (op->n != REDIRECT_ADD && op->stream == self->graphs[self->capturing - 1].origin &&
            self->graphs[self->capturing - 1].has_ended)
            return "it has joined a stream that cannot join again";
        return op->n > REDIRECT_NONE ? "no such way" : NULL;
    case FUZZ_CAPTURE_END:
        return graph->state != GRAPH_CAPTURING ? "nothing is being captured there"
               : graph_is_joined(self, graph)  ? NULL
                                               : "a stream has not joined again";
    case FUZZ_CAPTURE_ABORT:
        return graph->state == GRAPH_CAPTURING ? NULL : "nothing is being captured there";
    case FUZZ_CAPTURE_BREAK:
        return graph->state != GRAPH_CAPTURING ? "nothing is being captured there"
               : op->n >= BREAK_WAYS           ? "no such way"
               : op->n == BREAK_THREAD && graph->mode == MODEL_RELAXED ? "any thread may end it"
               : op->n == BREAK_UNJOINED && (graph_is_joined(self, graph) || graph->has_ended ||
                                             graph->branches > FUZZ_STREAMS)
                   ? "all streams have joined again"
                   : NULL;
    case FUZZ_LAUNCH:
        if (graph->state != GRAPH_READY || self->capturing || !stream->is_there)
            return "no such graph or stream";
        if (stream_device(self, op) != graph->device)
            return "the stream is on another device";
        return graph_is_launchable(self, graph, stream) ? NULL : "not ordered, or asleep";
    case FUZZ_AUDIT:
        if (range_is_lacking(self, graph))
            return "pages that it refers to have no memory";
        /* fall through */
    default:
        return graph->state == GRAPH_READY && !self->capturing ? NULL : "no such graph";
    }
}

/* What concerns neither accesses nor order. */
static const char *rest_allows(model *self, const fuzz_op *op)
{
    switch ((fuzz_kind)op->kind) {
    case FUZZ_TELL:
        return tell_allows(self, op);
    case FUZZ_EVENT_DESTROY:
        return self->events[op->event].is_there && !self->capturing ? NULL : "no such event";
    case FUZZ_STREAM_CREATE:
    case FUZZ_STREAM_DESTROY:
        return stream_allows(self, op);
    case FUZZ_POOL_CREATE:
    case FUZZ_POOL_GRAPHS:
    case FUZZ_POOL_SEGMENTS:
    case FUZZ_POOL_SEGMENT_GRAPHS:
    case FUZZ_POOL_DESTROY:
    case FUZZ_POOL_TRIM:
    case FUZZ_SLEEP:
    case FUZZ_WAKE:
    case FUZZ_COMPACT:
        return pool_allows(self, op);
    case FUZZ_ACCESS:
    case FUZZ_ACCESS_ALL:
        return change_allows(self, op);
    case FUZZ_COMMIT:
    case FUZZ_FREE_WRONG:
    case FUZZ_REGISTER:
    case FUZZ_LOOK:
    case FUZZ_CONTENT:
        return block_allows(self, op);
    case FUZZ_PARK:
    case FUZZ_UNPARK:
        return park_allows(self, op);
    case FUZZ_MISS:
        return miss_allows(self, op);
    case FUZZ_COMMIT_RANGE:
    case FUZZ_DECOMMIT_RANGE:
    case FUZZ_LOOK_RANGE:
        return range_allows(self, op);
    case FUZZ_HOST_POOL:
    case FUZZ_HOST_MALLOC:
    case FUZZ_HOST_WRITE:
    case FUZZ_HOST_READ:
    case FUZZ_HOST_TRIM:
    case FUZZ_HOST_LIMIT:
        return host_allows(self, op);
    case FUZZ_BESIDE:
    case FUZZ_BESIDE_END:
        return beside_allows(self, op);
    case FUZZ_CAPTURE_BEGIN:
    case FUZZ_REDIRECT:
    case FUZZ_CAPTURE_END:
    case FUZZ_CAPTURE_ABORT:
    case FUZZ_CAPTURE_BREAK:
    case FUZZ_LAUNCH:
    case FUZZ_AUDIT:
    case FUZZ_GRAPH_DESTROY:
        return graph_allows(self, op);
    case FUZZ_TRIM:
        return op->device >= self->devices ? "no such device"
               : self->capturing           ? "a capture is under way"
                                           : NULL;
    case FUZZ_LIMIT:
    case FUZZ_STATS:
        return op->device < self->devices ? NULL : "no such device";
    case FUZZ_RUN_STREAM:
        return stream_of(self, op)->is_there ? NULL : "no such stream";
    default:
        return NULL;
    }
}

const char *model_allows(model *self, const fuzz_op *op)
{
    const char *why;
    if (self->beside != 0 && is_fenced(op))
        return "another thread captures";
    switch ((fuzz_kind)op->kind) {
    case FUZZ_MALLOC:
    case FUZZ_ROUTED:
    case FUZZ_ALIGNED:
    case FUZZ_RESERVE:
        return malloc_allows(self, op);
    case FUZZ_FREE:
    case FUZZ_FREE_ON:
    case FUZZ_FREE_SYNC:
    case FUZZ_FREE_HOST:
        return free_allows(self, op);
    case FUZZ_WRITE:
    case FUZZ_FILL:
        return access_allows(self, op, op->block, 1);
    case FUZZ_READ:
        return access_allows(self, op, op->block, 0);
    case FUZZ_COPY:
        if (op->block == op->other)
            return "onto itself";
        why = access_allows(self, op, op->block, 0);
        return why != NULL ? why : access_allows(self, op, op->other, 1);
    case FUZZ_USE:
    case FUZZ_USE_STREAM:
    case FUZZ_KEEP:
        return mark_allows(self, op);
    case FUZZ_RECORD:
        return record_allows(self, op);
    case FUZZ_WAIT:
        return wait_allows(self, op);
    case FUZZ_SYNC_EVENT:
    case FUZZ_SYNC_STREAM:
    case FUZZ_SYNC_DEVICE:
    case FUZZ_QUERY:
        return sync_allows(self, op);
    default:
        return rest_allows(self, op);
    }
}
