/* SPDX-License-Identifier: Apache-2.0 */
/* The owner of foreign segments: see owner.h. */
#include "owner.h"

#include <inttypes.h>
#include <stdarg.h>

#include "model_graph.h"

#define MIB ((size_t)1 << 20)

enum { SEGMENTS = 1024, KEPT_ONE_IN = 3 };

static struct owner {
    fuzz_run *run;
    fuzz_segment segments[SEGMENTS];
    int count;                /* of these, so many have been used */
    uint64_t gives, refuses;  /* the plan for the next requests */
    uint64_t failures, ended; /* requests that got nothing; segments that came back */
    uint64_t short_step;      /* 1 + the operation for which memory was found to lack */
    uintptr_t lie;            /* given to the next request; 0: the truth */
    uint8_t
        torn[FUZZ_POOLS];   /* 1: a call may have failed, or not waited, that gave segments back */
    char pools[FUZZ_POOLS]; /* their addresses say which pool a callback is for */
} owner;

__attribute__((format(printf, 1, 2))) static void owner_fail(const char *format, ...)
{
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    run_fail(owner.run, FUZZ_VERDICT_SAFETY, "segment", "%s", text);
}

/* ---- memory --------------------------------------------------------------------------------- */

/* As far as the driver lets it. */
static void segment_undo(fuzz_segment *segment)
{
    fuzz_device *device = owner.run->device;
    if (segment->undone == 0)
        segment->undone += device->memory_unmap(segment->base, segment->bytes) == CUDA_SUCCESS;
    if (segment->undone == 1)
        segment->undone += device->address_free(segment->base, segment->bytes) == CUDA_SUCCESS;
    if (segment->undone == 2)
        segment->undone += device->memory_release(segment->handle) == CUDA_SUCCESS;
    segment->state = segment->undone == 3 ? SEGMENT_NONE : SEGMENT_ENDING;
}

static void owner_settle(void)
{
    for (int i = 0; i < owner.count; i++)
        if (owner.segments[i].state == SEGMENT_ENDING)
            segment_undo(&owner.segments[i]);
}

/* Returns 1 if the segment has memory. What has been done of it otherwise is undone, or will be. */
static int segment_map(fuzz_segment *segment)
{
    fuzz_device *device = owner.run->device;
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr base = 0;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = segment->device;
    access.location = properties.location;
    segment->undone = 3;
    if (device->memory_create(&segment->handle, segment->bytes, &properties, 0) == CUDA_SUCCESS)
        segment->undone = 2;
    if (segment->undone == 2 &&
        device->address_reserve(&base, segment->bytes, 2 * MIB, 0, 0) == CUDA_SUCCESS)
        segment->undone = 1;
    segment->base = (uintptr_t)base;
    if (segment->undone == 1 &&
        device->memory_map(base, segment->bytes, 0, segment->handle, 0) == CUDA_SUCCESS)
        segment->undone = 0;
    if (segment->undone == 0 &&
        device->memory_open(base, segment->bytes, &access, 1) == CUDA_SUCCESS)
        return 1;
    segment_undo(segment);
    return 0;
}

/* ---- the callbacks -------------------------------------------------------------------------- */

static void context_check(int device, const char *call)
{
    CUcontext context = NULL;
    if (owner.run->device->get_current(&context) == CUDA_SUCCESS &&
        context != owner.run->device->contexts[device])
        owner_fail("%s is called without the context of device %d", call, device);
}

/* The pool that the operation under way allocates from; -1: it allocates nothing. */
static int op_pool(const fuzz_op *op)
{
    int graph = owner.run->model.streams[op->stream].graph;
    if (op->kind != FUZZ_MALLOC && op->kind != FUZZ_ROUTED && op->kind != FUZZ_ALIGNED)
        return -1;
    return graph != 0 ? owner.run->model.graphs[graph - 1].pool : op->pool;
}

static void stream_note(fuzz_segment *segment)
{
    const fuzz_run *run = owner.run;
    segment->slot = -1;
    for (int i = 0; i < FUZZ_STREAMS; i++)
        if (run->model.streams[i].is_there && run->streams[i] == segment->stream) {
            segment->slot = i;
            segment->life = run->stream_lives[i];
        }
}

static fuzz_segment *segment_again(size_t bytes, int device)
{
    for (int i = 0; i < owner.count; i++) {
        fuzz_segment *segment = &owner.segments[i];
        if (segment->state == SEGMENT_KEPT && segment->bytes == bytes && segment->device == device)
            return segment;
    }
    return NULL;
}

static fuzz_segment *segment_new(size_t bytes, int device)
{
    int at = 0;
    while (at < owner.count && owner.segments[at].state != SEGMENT_NONE)
        at++;
    if (at == SEGMENTS)
        return NULL;
    owner.count += at == owner.count;
    owner.segments[at] = (fuzz_segment){.bytes = bytes, .device = device};
    return segment_map(&owner.segments[at]) ? &owner.segments[at] : NULL;
}

static void *segment_give(size_t bytes, int device, tnr_stream stream, int pool)
{
    fuzz_segment *segment = segment_again(bytes, device);
    if (segment == NULL)
        segment = segment_new(bytes, device);
    if (segment == NULL) {
        owner.failures++;
        return NULL;
    }
    segment->state = SEGMENT_GIVEN;
    segment->pool = pool;
    segment->stream = stream;
    stream_note(segment);
    return (void *)segment->base;
}

static void *owner_alloc(size_t bytes, int device, tnr_stream stream, void *user)
{
    int pool = (int)((char *)user - owner.pools);
    const fuzz_op *op = owner.run->op;
    context_check(device, "segment_alloc");
    owner_settle();
    if (bytes == 0 || bytes % (2 * MIB) != 0 || device != owner.run->model.pools[pool].device)
        owner_fail("p%d asks for %zu bytes on device %d", pool, bytes, device);
    if (op_pool(op) != pool)
        owner_fail("p%d asks for memory during \"%s\"", pool, fuzz_kind_verb((fuzz_kind)op->kind));
    if (owner.lie != 0) {
        uintptr_t lie = owner.lie;
        owner.lie = 0;
        owner.run->is_harmless = 0;
        return (void *)lie;
    }
    if (owner.gives > 0) {
        owner.gives--;
    } else if (owner.refuses > 0) {
        owner.refuses--;
        owner.failures++;
        return NULL;
    }
    return segment_give(bytes, device, stream, pool);
}

/* 1 if the pool that allocates may lack memory: its owner had none, or a limit would be exceeded,
 * as the library's own sums say; or if it goes on with what an earlier call could not end. */
static int may_lack(int pool)
{
    enum { ASKED_MOST = 40 << 20 }; /* for a block that is smaller */
    const fuzz_run *run = owner.run;
    const model *m = &run->model;
    int device = m->pools[pool].device;
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    if (owner.failures != run->owner_failures || m->pools[pool].limit > 0 || owner.torn[pool] ||
        m->has_faults || m->has_wide_chunks || owner.short_step == run->step + 1)
        return 1;
    if (tnr_stats_get(&stats, NULL, device) != TNR_OK)
        return 1;
    uint64_t most =
        m->limit_bytes[device] < m->memory_bytes ? m->limit_bytes[device] : m->memory_bytes;
    if (stats.reserved_bytes.current + run->op->n + ASKED_MOST < most)
        return 0;
    owner.short_step = run->step + 1; /* when more has gone back it looks otherwise */
    return 1;
}

/* What must hold of a segment that comes back. */
static void return_check(const fuzz_segment *segment, int pool)
{
    const fuzz_op *op = owner.run->op;
    int live = model_overlap(&owner.run->model, segment->base, segment->bytes);
    int is_asked =
        (op->kind == FUZZ_POOL_TRIM || op->kind == FUZZ_POOL_DESTROY || op->kind == FUZZ_MISS) &&
        op->pool == pool;
    if (live >= 0)
        owner_fail("p%d gives a segment back, 0x%" PRIxPTR ", in which b%d is live", pool,
                   segment->base, live);
    if (graph_owns(&owner.run->model, segment->base, segment->bytes, 0))
        owner_fail("p%d gives a segment back, 0x%" PRIxPTR ", that a graph refers to", pool,
                   segment->base);
    if (!is_asked && (op_pool(op) != pool || !may_lack(pool)))
        owner_fail("p%d gives a segment back, 0x%" PRIxPTR ", during \"%s\"", pool, segment->base,
                   fuzz_kind_verb((fuzz_kind)op->kind));
}

static void owner_free(void *ptr, size_t bytes, int device, tnr_stream stream, void *user)
{
    int pool = (int)((char *)user - owner.pools);
    context_check(device, "segment_free");
    owner_settle();
    for (int i = 0; i < owner.count; i++) {
        fuzz_segment *segment = &owner.segments[i];
        if (segment->state != SEGMENT_GIVEN || segment->base != (uintptr_t)ptr)
            continue;
        if (segment->bytes != bytes || segment->device != device || segment->stream != stream ||
            segment->pool != pool)
            owner_fail("p%d gives back %zu bytes at %p, which were asked for in another way", pool,
                       bytes, ptr);
        return_check(segment, pool);
        segment->state = SEGMENT_KEPT;
        if (++owner.ended % KEPT_ONE_IN != 0)
            segment_undo(segment);
        return;
    }
    owner_fail("p%d gives back %zu bytes at %p, which it has not", pool, bytes, ptr);
}

/* ---- for programs --------------------------------------------------------------------------- */

void fuzz_owner_begin(fuzz_run *run)
{
    memset(&owner, 0, sizeof(owner));
    owner.run = run;
}

void fuzz_owner_options(tnr_pool_options *options, int pool)
{
    owner.torn[pool] = 0;
    options->segment_alloc = owner_alloc;
    options->segment_free = owner_free;
    options->segment_user = &owner.pools[pool];
}

void fuzz_owner_plan(uint64_t gives, uint64_t refuses)
{
    owner.gives = gives;
    owner.refuses = refuses;
}

void fuzz_owner_lie(void)
{
    for (int i = 0; i < owner.count; i++)
        if (owner.segments[i].state == SEGMENT_GIVEN)
            owner.lie = owner.segments[i].base;
}

uint64_t fuzz_owner_failures(void)
{
    return owner.failures;
}

const fuzz_segment *fuzz_owner_find(uintptr_t base, size_t bytes)
{
    for (int i = 0; i < owner.count; i++) {
        const fuzz_segment *segment = &owner.segments[i];
        if (segment->state == SEGMENT_GIVEN && segment->base < base + bytes &&
            base < segment->base + segment->bytes)
            return segment;
    }
    return NULL;
}

size_t fuzz_owner_given(int pool)
{
    size_t bytes = 0;
    for (int i = 0; i < owner.count; i++)
        if (owner.segments[i].state == SEGMENT_GIVEN && owner.segments[i].pool == pool)
            bytes += owner.segments[i].bytes;
    return bytes;
}

void fuzz_owner_tell(model *m)
{
    if (owner.count == 0)
        return;
    memset(m->owned_bytes, 0, sizeof(m->owned_bytes));
    if (m->has_faults || m->capturing)
        memset(owner.torn, 1, sizeof(owner.torn));
    for (int p = 1; p < FUZZ_POOLS; p++)
        m->pools[p].idle_bytes = 0;
    for (int i = 0; i < owner.count; i++) {
        const fuzz_segment *segment = &owner.segments[i];
        if (segment->state != SEGMENT_NONE)
            m->owned_bytes[segment->device] += segment->bytes;
        if (segment->state == SEGMENT_GIVEN && model_overlap(m, segment->base, segment->bytes) < 0)
            m->pools[segment->pool].idle_bytes += segment->bytes;
    }
}

const fuzz_segment *fuzz_owner_idle(int pool)
{
    for (int i = 0; i < owner.count; i++) {
        const fuzz_segment *segment = &owner.segments[i];
        if (segment->state == SEGMENT_GIVEN && segment->pool == pool &&
            model_overlap(&owner.run->model, segment->base, segment->bytes) < 0)
            return segment;
    }
    return NULL;
}

void fuzz_owner_end(fuzz_run *run)
{
    for (int i = 0; i < owner.count && !run->is_over; i++) {
        fuzz_segment *segment = &owner.segments[i];
        if (segment->state == SEGMENT_GIVEN)
            run_fail(run, FUZZ_VERDICT_LIVENESS, "segment",
                     "%zu bytes at 0x%" PRIxPTR " never came back to their owner", segment->bytes,
                     segment->base);
        else if (segment->state != SEGMENT_NONE)
            segment_undo(segment);
        if (segment->state != SEGMENT_NONE)
            run_fail(run, FUZZ_VERDICT_SAFETY, "segment",
                     "%zu bytes at 0x%" PRIxPTR " cannot be given back to the driver",
                     segment->bytes, segment->base);
    }
}
