/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on blocks: allocate, free, look, and touch.
 */
#include "run.h"

#include <inttypes.h>

#include "model_graph.h"
#include "owner.h"

#define MIB ((size_t)1 << 20)

/* ---- allocating ----------------------------------------------------------------------------- */

static tnr_status malloc_call(fuzz_run *run, const fuzz_op *op, void **ptr)
{
    int device = run_device_of(run, op->stream);
    CUstream stream = run->streams[op->stream];
    tnr_pool pool = run->pools[op->pool];
    tnr_status status;
    if (op->kind == FUZZ_MALLOC && run->model.streams[op->stream].graph == 0)
        return tnr_pool_malloc(ptr, pool, (size_t)op->n, device, stream);
    if (op->kind == FUZZ_RESERVE)
        return tnr_reserve(ptr, (size_t)op->n, device, stream);
    status = tnr_pool_push(pool); /* null: the default pool */
    if (status != TNR_OK)
        return status;
    status = op->kind == FUZZ_ALIGNED
                 ? tnr_malloc_aligned(ptr, (size_t)op->n, (size_t)op->m, device, stream)
                 : tnr_malloc(ptr, (size_t)op->n, device, stream);
    if (tnr_pool_pop(pool) != TNR_OK)
        run_fail(run, FUZZ_VERDICT_SAFETY, "status", "tnr_pool_pop: %s", tnr_last_error());
    return status;
}

/* A failure is fine if memory may really be short, the pool sleeps, or a driver call failed. */
static int malloc_refused(fuzz_run *run, const fuzz_op *op, tnr_status status, const void *ptr)
{
    const model *m = &run->model;
    int device = run_device_of(run, op->stream);
    int asleep = op->pool > 0 ? m->pools[op->pool].is_asleep : m->default_asleep[device];
    run->result->failed_allocations++;
    if (ptr != NULL)
        run_fail(run, FUZZ_VERDICT_SAFETY, "status", "an allocation that gave %s left an address",
                 tnr_status_name(status));
    if (run_was_sabotaged(run) || (status == TNR_ERR_ASLEEP && asleep))
        return 0;
    int is_short = status == TNR_ERR_OUT_OF_MEMORY || status == TNR_ERR_LIMIT;
    if (is_short && (fuzz_owner_failures() != run->owner_failures ||
                     !model_must_fit(m, device, op->pool, (size_t)op->n)))
        return 0;
    run_fail(run, is_short ? FUZZ_VERDICT_LIVENESS : FUZZ_VERDICT_SAFETY,
             is_short ? "spurious out of memory" : "status",
             "an allocation of %" PRIu64 " bytes gave %s, with %" PRIu64 " bytes live in %" PRIu64
             " blocks: %s",
             op->n, tnr_status_name(status), m->requested_bytes[device], m->live_blocks[device],
             tnr_last_error());
    return 0;
}

/* A block of a pool over segments lies in one of them, that of its stream, and no other does. In a
 * capture the streams share. */
static void segment_check(fuzz_run *run, const fuzz_op *op, uintptr_t base)
{
    const model *m = &run->model;
    int graph = m->streams[op->stream].graph;
    int pool = op->kind == FUZZ_RESERVE ? 0 : graph != 0 ? m->graphs[graph - 1].pool : op->pool;
    const fuzz_segment *segment = fuzz_owner_find(base, (size_t)op->n);
    if (!m->pools[pool].is_foreign) {
        if (segment != NULL)
            run_fail(run, FUZZ_VERDICT_SAFETY, "segment",
                     "b%d of p%d was handed out at 0x%" PRIxPTR ", in a segment of p%d", op->block,
                     pool, base, segment->pool);
        return;
    }
    if (segment == NULL || segment->pool != pool || base < segment->base ||
        base + (uintptr_t)op->n > segment->base + segment->bytes)
        run_fail(run, FUZZ_VERDICT_SAFETY, "segment",
                 "b%d was handed out at 0x%" PRIxPTR ", %" PRIu64
                 " bytes, which is in no segment of p%d",
                 op->block, base, op->n, pool);
    else if (graph == 0 && segment->slot >= 0 && segment->slot != op->stream &&
             m->streams[segment->slot].is_there &&
             run->stream_lives[segment->slot] == segment->life)
        run_fail(run, FUZZ_VERDICT_SAFETY, "segment",
                 "b%d was handed out to s%d at 0x%" PRIxPTR ", in a segment of s%d", op->block,
                 op->stream, base, segment->slot);
}

void run_malloc_check(fuzz_run *run, const fuzz_op *op, uintptr_t base)
{
    const model *m = &run->model;
    size_t alignment = op->kind == FUZZ_ALIGNED ? (size_t)op->m : TNR_ALIGNMENT_DEFAULT;
    int other = model_overlap(m, base, (size_t)op->n);
    int graph = m->streams[op->stream].graph;
    if (other >= 0)
        run_fail(run, FUZZ_VERDICT_SAFETY, "overlap",
                 "b%d was handed out at 0x%" PRIxPTR ", %" PRIu64
                 " bytes, which b%d holds: 0x%" PRIxPTR ", %zu bytes",
                 op->block, base, op->n, other, m->blocks[other].base, m->blocks[other].bytes);
    if (base % alignment != 0)
        run_fail(run, FUZZ_VERDICT_SAFETY, "alignment", "0x%" PRIxPTR " is not a multiple of %zu",
                 base, alignment);
    /* Graphs that share a pool share memory too; for any other the range must be out of reach. */
    int shares = graph != 0 && m->graphs[graph - 1].pool != 0;
    if (!shares && graph_owns(m, base, (size_t)op->n, graph))
        run_fail(run, FUZZ_VERDICT_SAFETY, "graph memory",
                 "b%d was handed out at 0x%" PRIxPTR ", %" PRIu64
                 " bytes, which a graph that is still there refers to",
                 op->block, base, op->n);
}

void run_block_begin(fuzz_run *run, int slot, uintptr_t base, size_t bytes)
{
    run->last[slot].base = base;
    run->last[slot].bytes = bytes;
    run->last[slot].device = run->model.blocks[slot].device;
    run->last[slot].is_owned = 1;
    run_watch(run, slot);
    run_graph_tags_forget(run, slot);
}

static int run_malloc(fuzz_run *run, const fuzz_op *op)
{
    void *ptr = NULL;
    tnr_status status = malloc_call(run, op, &ptr);
    run_hash(run, (uint64_t)status);
    run->last[op->block].is_fresh = status == TNR_OK;
    if (status != TNR_OK)
        return malloc_refused(run, op, status, ptr);
    uintptr_t base = (uintptr_t)ptr;
    int is_reserve = op->kind == FUZZ_RESERVE;
    int in_capture = run->model.streams[op->stream].graph != 0;
    run_hash(run, base);
    run_malloc_check(run, op, base);
    segment_check(run, op, base);
    if (!run->is_over && !is_reserve && !in_capture)
        (void)run->device->owner_begin(base, (size_t)op->n, run->labels[op->block]);
    model_did_malloc(&run->model, op, base, is_reserve ? 0 : (size_t)op->n,
                     is_reserve ? (size_t)op->n : 0);
    run_block_begin(run, op->block, base, (size_t)op->n);
    run->last[op->block].is_owned = !in_capture;
    return 1;
}

/* A growable block owns as much as is committed. */
static int run_commit(fuzz_run *run, const fuzz_op *op)
{
    model *m = &run->model;
    model_block *block = &m->blocks[op->block];
    tnr_status status = tnr_commit((void *)block->base, (size_t)op->n);
    run_hash(run, (uint64_t)status);
    int asleep = m->default_asleep[block->device];
    int is_short = status == TNR_ERR_OUT_OF_MEMORY || status == TNR_ERR_LIMIT;
    if (status != TNR_OK) {
        if (!run_was_sabotaged(run) && !(status == TNR_ERR_ASLEEP && asleep) &&
            !(is_short && !model_must_fit(m, block->device, 0, (size_t)op->n)))
            run_fail(run, is_short ? FUZZ_VERDICT_LIVENESS : FUZZ_VERDICT_SAFETY, "status",
                     "tnr_commit of %" PRIu64 " bytes gave %s: %s", op->n, tnr_status_name(status),
                     tnr_last_error());
        return 0;
    }
    if (block->bytes > 0)
        (void)run->device->owner_end(block->base);
    (void)run->device->owner_begin(block->base, (size_t)op->n, run->labels[op->block]);
    m->requested_bytes[block->device] += op->n - block->bytes;
    block->bytes = (size_t)op->n;
    block->is_tagged = 0; /* its last word is another one now */
    run_graph_tags_forget(run, op->block);
    block->ready = order_point(&m->order, block->home); /* Tenure's waits may have come before */
    return 1;
}

/* ---- freeing -------------------------------------------------------------------------------- */

typedef struct host_free {
    void *ptr;
    tnr_status status;
    int has_run;
} host_free;

static void CUDA_CB free_in_stream(void *data)
{
    host_free *self = data;
    self->status = tnr_free(self->ptr);
    self->has_run = 1;
}

/* A host function of the stream frees it, and the program waits for the stream. */
static tnr_status free_by_host(fuzz_run *run, const fuzz_op *op, void *ptr)
{
    CUstream stream = run->streams[op->stream];
    host_free self = {.ptr = ptr};
    fuzz_device_use(run->device, run_device_of(run, op->stream));
    CUresult result = run->device->host_launch(stream, free_in_stream, &self);
    if (result == CUDA_SUCCESS)
        result = run->device->stream_synchronize(stream);
    fuzz_device_use(run->device, 0);
    if (result != CUDA_SUCCESS || !self.has_run)
        run_fail(run, FUZZ_VERDICT_SAFETY, "driver", "a host function that frees gave error %d",
                 (int)result);
    return self.status;
}

static int run_free(fuzz_run *run, const fuzz_op *op)
{
    model_block *block = &run->model.blocks[op->block];
    void *ptr = (void *)run->last[op->block].base;
    int is_owned = run->last[op->block].is_owned && block->bytes > 0 && !block->is_parked;
    tnr_status status;
    /* The owner ends before the free: afterwards the memory may be somebody else's. A free that
     * fails gives it back. */
    if (is_owned && block->base != 0)
        (void)run->device->owner_end(block->base);
    if (block->is_range)
        run_range_own(run, op->block, 0);
    if (op->kind == FUZZ_FREE)
        status = block->is_host && op->block % 2 == 0 ? tnr_host_free(ptr) : tnr_free(ptr);
    else if (op->kind == FUZZ_FREE_ON)
        status = tnr_free_on(ptr, run->streams[op->stream]);
    else if (op->kind == FUZZ_FREE_HOST)
        status = free_by_host(run, op, ptr);
    else
        status = tnr_free_sync(ptr);
    if (op->is_illegal && block->base == 0) {
        run_hash(run, (uint64_t)status);
        if (status == TNR_OK)
            return 1; /* not noticed */
        run_fail(run, FUZZ_VERDICT_CAUGHT, "status", "%s: %s", tnr_status_name(status),
                 tnr_last_error());
        return 0;
    }
    /* The end of a graph that is gone has not been noticed. */
    if (status == TNR_ERR_PARKED && run->model.has_ghosts && block->is_parked)
        return 0;
    if (!run_succeeded(run, status, fuzz_kind_verb((fuzz_kind)op->kind))) {
        if (is_owned && !run->is_over)
            (void)run->device->owner_begin(block->base, block->bytes, run->labels[op->block]);
        if (block->is_range && !run->is_over)
            run_range_own(run, op->block, 1);
        return 0;
    }
    if (op->is_illegal) {
        run->freed_base = block->base;
        run->freed_bytes = block->bytes;
        run->freed_uses = block->open;
    }
    model_did_free(&run->model, op);
    if (op->kind == FUZZ_FREE_HOST)
        model_did_sync(&run->model, &(fuzz_op){.kind = FUZZ_SYNC_STREAM, .stream = op->stream});
    return 1;
}

/* Frees that must be refused, each with its own status, and change nothing. */
static int run_free_wrong(fuzz_run *run, const fuzz_op *op)
{
    const model_block *block = &run->model.blocks[op->block];
    int on_host = 0;
    void *ptr = op->n == 0 ? (void *)&on_host : (void *)(block->base + (uintptr_t)op->n);
    tnr_status expected = op->n == 0 ? TNR_ERR_FOREIGN_POINTER : TNR_ERR_INTERIOR_POINTER;
    tnr_status status = tnr_free(ptr);
    run_hash(run, (uint64_t)status);
    if (op->is_illegal && status == expected)
        run_fail(run, FUZZ_VERDICT_CAUGHT, "status", "%s: %s", tnr_status_name(status),
                 tnr_last_error());
    if (status != expected && !run_was_sabotaged(run))
        run_fail(run, FUZZ_VERDICT_SAFETY, "status", "a wrong free gave %s, not %s",
                 tnr_status_name(status), tnr_status_name(expected));
    return 0;
}

void run_watch(fuzz_run *run, int slot)
{
    enum { STRIDE = 2 << 20 };
    const model_block *block = &run->model.blocks[slot];
    if (run->device->is_gated || block->graph != 0 || block->is_captured ||
        !model_is_registered(&run->model, block->device, block->pool))
        return;
    for (size_t at = 0; at < block->bytes; at += STRIDE)
        run->watched[run->watched_next++ % FUZZ_WATCHED] =
            (fuzz_watched){.address = block->base + at,
                           .memory = run->device->memory_at(block->base + at),
                           .device = block->device,
                           .pool = block->pool};
}

void run_watch_forget(fuzz_run *run, int device, int pool)
{
    for (int i = 0; i < FUZZ_WATCHED; i++)
        if (run->watched[i].pool == pool && run->watched[i].device == device)
            run->watched[i].address = 0;
}

static int run_register(fuzz_run *run, const fuzz_op *op)
{
    const model_block *block = &run->model.blocks[op->block];
    tnr_status status = tnr_memory_registered((const void *)(block->base + (uintptr_t)op->n));
    if (!run_succeeded(run, status, "tnr_memory_registered"))
        return 0;
    if (block->pool == 0)
        run->model.default_registered[block->device] = 1;
    else
        run->model.pools[block->pool].is_registered = 1;
    for (int i = 0; i < run->model.live_count; i++)
        run_watch(run, run->model.live[i]);
    return 1;
}

static int run_look(fuzz_run *run, const fuzz_op *op)
{
    const model_block *block = &run->model.blocks[op->block];
    tnr_block_info info;
    tnr_status status = tnr_block_get(&info, (const void *)(block->base + (uintptr_t)op->n));
    if (!run_succeeded(run, status, "tnr_block_get"))
        return 0;
    /* Of pages the range is told, which is one block. */
    const model_block *whole = block->part_of > 0 ? &run->model.blocks[block->part_of - 1] : block;
    size_t bytes = block->part_of > 0 ? range_bytes(&run->model, block->part_of - 1) : block->bytes;
    tnr_pool pool = block->pool < FUZZ_POOLS ? run->pools[block->pool] : NULL;
    if ((uintptr_t)info.base != whole->base || info.device != run_place(model_place(block)) ||
        (block->reserved == 0 || block->part_of > 0 ? info.bytes_requested != bytes : 0) ||
        (run->last[op->block].is_owned && info.pool != pool))
        run_fail(run, FUZZ_VERDICT_SAFETY, "description",
                 "b%d, %zu bytes at 0x%" PRIxPTR ", is described as %zu bytes at %p", op->block,
                 bytes, whole->base, info.bytes_requested, info.base);
    const fuzz_segment *segment = fuzz_owner_find(block->base, 1);
    if ((uintptr_t)info.segment != (segment != NULL ? segment->base : 0) ||
        info.segment_bytes != (segment != NULL ? segment->bytes : 0))
        run_fail(run, FUZZ_VERDICT_SAFETY, "description",
                 "b%d, at 0x%" PRIxPTR ", should lie in a segment of %zu bytes at %p", op->block,
                 block->base, info.segment_bytes, info.segment);
    return 1;
}

/* While it is parked the memory is not its owner's. Copies of contents are the library's. */
static int run_park(fuzz_run *run, const fuzz_op *op)
{
    const model *m = &run->model;
    const model_block *block = &m->blocks[op->block];
    void *ptr = (void *)block->base;
    int is_parking = op->kind == FUZZ_PARK, is_owned = run->last[op->block].is_owned;
    int has_ended = !m->order.is_open[block->home];
    if (is_parking && is_owned)
        (void)run->device->owner_end(block->base);
    run->device->owner_pause(1);
    tnr_status status =
        is_parking ? tnr_park(NULL, ptr, run->streams[op->stream], (tnr_content)(op->n % 3))
                   : tnr_unpark(ptr, run->streams[op->stream]);
    run->device->owner_pause(0);
    run_hash(run, (uint64_t)status);
    int is_short = status == TNR_ERR_OUT_OF_MEMORY || status == TNR_ERR_LIMIT;
    int is_refused = (status == TNR_ERR_INVALID_STREAM && has_ended) ||
                     (is_parking && status == TNR_ERR_HOST_MEMORY) || (!is_parking && is_short) ||
                     (status == TNR_ERR_INVALID_ARGUMENT && run->has_traps);
    int is_done = !is_refused && run_succeeded(run, status, fuzz_kind_verb((fuzz_kind)op->kind));
    if (is_done)
        model_did_park(&run->model, op);
    if (is_owned && !block->is_parked && !run->is_over)
        (void)run->device->owner_begin(block->base, block->bytes, run->labels[op->block]);
    return is_done;
}

/* Called in the middle of a miss: the memory of the pool that ends is what the miss lacks. */
static int miss_ends_pool(const tnr_oom_info *info, void *data)
{
    fuzz_run *run = data;
    fuzz_op end = *run->op;
    (void)info;
    tnr_oom_callback_set(NULL, NULL);
    end.kind = FUZZ_POOL_DESTROY;
    return run_control(run, &end);
}

static int run_miss(fuzz_run *run, const fuzz_op *op)
{
    fuzz_op miss = *op;
    miss.kind = FUZZ_MALLOC;
    miss.pool = 0;
    run->model.has_wide_chunks = 1; /* those of so large a request */
    tnr_oom_callback_set(miss_ends_pool, run);
    int is_done = run_malloc(run, &miss);
    tnr_oom_callback_set(NULL, NULL);
    run->is_harmless |= op->is_illegal && !run->is_over; /* it had memory without that */
    return is_done;
}

int run_memory(fuzz_run *run, const fuzz_op *op)
{
    switch ((fuzz_kind)op->kind) {
    case FUZZ_MISS:
        return run_miss(run, op);
    case FUZZ_MALLOC:
    case FUZZ_ROUTED:
    case FUZZ_ALIGNED:
    case FUZZ_RESERVE:
        return run_malloc(run, op);
    case FUZZ_COMMIT:
        return run_commit(run, op);
    case FUZZ_FREE_WRONG:
        return run_free_wrong(run, op);
    case FUZZ_REGISTER:
        return run_register(run, op);
    case FUZZ_LOOK:
        return run_look(run, op);
    case FUZZ_PARK:
    case FUZZ_UNPARK:
        return run_park(run, op);
    default:
        return run_free(run, op);
    }
}

/* ---- touching ------------------------------------------------------------------------------- */

/* Blocks whose contents are checked. */
enum { VISITED_ONE_IN = 4 };
enum { DRIVER_COPY_MOST = 64 << 10 };

void run_graph_tags_forget(fuzz_run *run, int slot)
{
    for (int g = 0; g < FUZZ_GRAPHS; g++)
        run->graph_tags[g][slot] = 0;
}

/* What the capture that is under way writes into a block stays what its later reads find, whenever
 * the graph is launched. */
static uint64_t *captured_tag(fuzz_run *run, int slot)
{
    return &run->graph_tags[run->model.capturing - 1][slot];
}

static fuzz_touch touch_of(fuzz_run *run, int slot, int in_capture, int is_write)
{
    model_block *block = &run->model.blocks[slot];
    fuzz_touch touch = {.is_write = (uint32_t)is_write};
    touch.is_visited = slot % VISITED_ONE_IN == 0 || block->is_host || block->part_of != 0;
    touch.address = run->last[slot].base;
    touch.bytes = block->base == 0 ? run->last[slot].bytes : block->bytes;
    if (is_write) {
        touch.tag = ++run->model.tag_last;
        if (in_capture) {
            *captured_tag(run, slot) = touch.tag;
        } else {
            block->tag = touch.tag;
            block->is_tagged = 1;
        }
    } else if (in_capture) {
        touch.tag = *captured_tag(run, slot);
    } else if (block->is_tagged) {
        touch.tag = block->tag;
    }
    return touch;
}

/* One byte everywhere, by the driver's own memset; small blocks only, because it takes its time. */
static CUresult fill(fuzz_run *run, int slot, CUstream stream, int in_capture)
{
    model_block *block = &run->model.blocks[slot];
    unsigned char value = (unsigned char)(++run->model.tag_last % 255 + 1);
    uint64_t tag = value * UINT64_C(0x0101010101010101);
    if (in_capture) {
        *captured_tag(run, slot) = tag;
    } else {
        block->tag = tag;
        block->is_tagged = 1;
    }
    return run->device->set(run->last[slot].base, value, block->bytes, stream);
}

/* A planted error shows once the memory's next owner writes there, unless the program has ordered
 * that after the use in question by other means: a later synchronisation, for instance. */
static void planted_watch(fuzz_run *run, const model_block *block, const model_stream *stream)
{
    if (run->freed_base == 0 || stream->graph != 0 ||
        block->base >= run->freed_base + run->freed_bytes ||
        run->freed_base >= block->base + block->bytes)
        return;
    /* Who asks by which id a stream goes may notice that its handle was another's. */
    if (run->names_asked != 0 && 1 + run->device->calls("cuStreamGetId") != run->names_asked)
        return;
    order_clock now = order_now(&run->model.order, stream->component);
    run->freed_again |= !order_covers(&now, &run->freed_uses);
}

/* The device that the access is made by: the stream's. A planted error may have none. */
static int access_device(const fuzz_run *run, const fuzz_op *op)
{
    if (run->model.streams[op->stream].is_there)
        return run_device_of(run, op->stream);
    return run->last[op->block].device;
}

/* Between devices the driver copies, as far as both blocks go: what is then in them is not known.
 * Large ones are left to the kernel. */
static int is_driver_copy(const fuzz_run *run, const fuzz_op *op, int device)
{
    const model_block *from = &run->model.blocks[op->block], *to = &run->model.blocks[op->other];
    return op->kind == FUZZ_COPY && from->base != 0 && to->base != 0 && !from->is_host &&
           !to->is_host && (from->device != device || to->device != device) &&
           from->bytes <= DRIVER_COPY_MOST;
}

static CUresult driver_copy(fuzz_run *run, const fuzz_op *op, CUstream stream, int in_capture)
{
    const model_block *from = &run->model.blocks[op->block];
    model_block *to = &run->model.blocks[op->other];
    if (in_capture)
        *captured_tag(run, op->other) = 0;
    else
        to->is_tagged = 0;
    return run->device->copy(to->base, from->base,
                             from->bytes < to->bytes ? from->bytes : to->bytes, stream);
}

/* The work itself. */
static CUresult access_run(fuzz_run *run, const fuzz_op *op, int device)
{
    const model_block *block = &run->model.blocks[op->block];
    fuzz_launch launch = {.step = run->step};
    CUstream stream = run->streams[op->stream];
    int in_capture = run->model.streams[op->stream].graph != 0;
    if (op->kind == FUZZ_FILL && block->bytes <= 4096 && block->base != 0)
        return fill(run, op->block, stream, in_capture);
    if (is_driver_copy(run, op, device))
        return driver_copy(run, op, stream, in_capture);
    launch.touches[0] =
        touch_of(run, op->block, in_capture, op->kind == FUZZ_WRITE || op->kind == FUZZ_FILL);
    if (op->kind == FUZZ_COPY)
        launch.touches[1] = touch_of(run, op->other, in_capture, 1);
    return fuzz_device_touch(run->device, device, stream, &launch);
}

int run_access(fuzz_run *run, const fuzz_op *op)
{
    model *m = &run->model;
    int device = access_device(run, op);
    if (run->is_over)
        return 0;
    int has_owners =
        run->last[op->block].is_owned && (op->kind != FUZZ_COPY || run->last[op->other].is_owned);
    if (device != 0)
        fuzz_device_use(run->device, device);
    if (!has_owners)
        run->device->owner_pause(1);
    CUresult result = access_run(run, op, device);
    if (!has_owners)
        run->device->owner_pause(0);
    if (device != 0)
        fuzz_device_use(run->device, 0);
    if (result != CUDA_SUCCESS) {
        run_fail(run, FUZZ_VERDICT_SAFETY, "access", "the device refused it with error %d: %s",
                 (int)result, run->device->violation_last());
        return 0;
    }
    run->result->by_peers += device != run->last[op->block].device ||
                             (op->kind == FUZZ_COPY && device != run->last[op->other].device);
    if (m->blocks[op->block].base == 0)
        return 1; /* a planted error: it is nobody's */
    if (op->kind != FUZZ_READ)
        planted_watch(run, &m->blocks[op->kind == FUZZ_COPY ? op->other : op->block],
                      &m->streams[op->stream]);
    model_did_access(m, op->block, op->stream, op->kind == FUZZ_WRITE || op->kind == FUZZ_FILL);
    if (op->kind == FUZZ_COPY)
        model_did_access(m, op->other, op->stream, 1);
    return 1;
}
