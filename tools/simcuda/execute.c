/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running one operation. The caller took it from a queue, and has made sure that its turn has come.
 * This file checks the memory that the operation touches, and then does what the operation says.
 */
#include "bulk.h"
#include "race.h"
#include "sim.h"

#define OP_NS UINT64_C(1000) /* simulated time of any operation, and 1 ns per 4 KiB on top */

/* ---- value waits ---------------------------------------------------------------------------- */

static uint64_t value_load(const struct sim_op *op)
{
    const void *at = sim_bytes(op->access[0].address);
    return op->value.is_wide ? __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE)
                             : __atomic_load_n((const uint32_t *)at, __ATOMIC_ACQUIRE);
}

/* Whether a value wait may pass. The caller has checked that the memory can be read. */
int sim_value_reached(const struct sim_op *op)
{
    uint64_t now = value_load(op);
    uint64_t wanted = op->value.value;
    switch (op->value.flags & 3u) {
    case CU_STREAM_WAIT_VALUE_GEQ: /* cyclic, as the driver compares */
        return op->value.is_wide ? (int64_t)(now - wanted) >= 0
                                 : (int32_t)((uint32_t)now - (uint32_t)wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return now == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
        return (now & wanted) != 0;
    default: {
        uint64_t all = op->value.is_wide ? UINT64_MAX : UINT32_MAX;
        return (~(now | wanted) & all) != 0;
    }
    }
}

static void value_store(const struct sim_op *op)
{
    void *at = sim_bytes(op->access[0].address);
    if (op->value.is_wide)
        __atomic_store_n((uint64_t *)at, op->value.value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint32_t *)at, (uint32_t)op->value.value, __ATOMIC_RELEASE);
}

/* ---- memory --------------------------------------------------------------------------------- */

/* How much of `bytes` is in one piece from an address on: what is left of its granule. */
static uint64_t piece_after(CUdeviceptr address, uint64_t bytes)
{
    uint64_t granule = sim.settings.granularity_bytes;
    uint64_t left = granule - (address & (granule - 1));
    return !sim.has_view || bytes < left ? bytes : left;
}

/* And how much of it before an address, where it ends. */
static uint64_t piece_before(CUdeviceptr end, uint64_t bytes)
{
    uint64_t granule = sim.settings.granularity_bytes;
    uint64_t left = ((end - 1) & (granule - 1)) + 1;
    return !sim.has_view || bytes < left ? bytes : left;
}

/* Elements are aligned, so none of them is in two granules. */
static void set_run(const struct sim_op *op)
{
    CUdeviceptr at = op->access[0].address;
    uint64_t left = op->access[0].bytes;
    while (left != 0) {
        uint64_t bytes = piece_after(at, left);
        sim_bulk_set(sim_bytes(at), op->set.pattern, op->set.width, bytes / op->set.width);
        at += bytes;
        left -= bytes;
    }
}

static void staged_run(const struct sim_op *op)
{
    const unsigned char *from = op->copy.staged;
    for (uint64_t done = 0; done < op->copy.bytes;) {
        uint64_t bytes = piece_after(op->copy.to + done, op->copy.bytes - done);
        sim_bulk_copy(sim_bytes(op->copy.to + done), from + done, bytes);
        done += bytes;
    }
}

/* From the end on if what is to be copied would be overwritten otherwise. */
static void copy_run(const struct sim_op *op)
{
    uint64_t left = op->copy.bytes;
    if (op->copy.staged != NULL) {
        staged_run(op);
        return;
    }
    int backwards = op->copy.to > op->copy.from && op->copy.to - op->copy.from < left;
    while (left != 0) {
        uint64_t done = op->copy.bytes - left;
        CUdeviceptr to = op->copy.to + (backwards ? left : done);
        CUdeviceptr from = op->copy.from + (backwards ? left : done);
        uint64_t bytes = backwards ? piece_before(from, piece_before(to, left))
                                   : piece_after(from, piece_after(to, left));
        uint64_t back = backwards ? bytes : 0;
        sim_bulk_copy(sim_bytes(to - back), sim_bytes(from - back), bytes);
        left -= bytes;
    }
}

/* ---- the program's own functions ------------------------------------------------------------ */

/* Parameter pointers come first in a launch's storage. */
static void *const *launch_parameters(struct sim_launch *launch)
{
    return (void *const *)(void *)launch->storage;
}

static void call_out(const struct sim_op *op)
{
    struct sim_thread *thread = sim_thread();
    sim_unlock();
    thread->is_in_callback = 1;
    if (op->kind == SIM_OP_HOST)
        op->host.function(op->host.data);
    else
        op->launch->kernel->run(launch_parameters(op->launch));
    thread->is_in_callback = 0;
    sim_lock();
}

/* ---- one operation -------------------------------------------------------------------------- */

static void touches_tell(simcuda_touches_function touches, const struct sim_op *op, int begins)
{
    for (unsigned i = 0; touches != NULL && i < op->access_count; i++)
        touches(begins, (const void *)(uintptr_t)op->access[i].address, op->access[i].bytes);
}

/* Words are written with the lock held: value waits look at them at any time. */
static void run_memory(const struct sim_op *op)
{
    int alone = sim.settings.schedule == SIM_THREADS && op->access[0].bytes > sizeof(uint64_t);
    simcuda_touches_function touches = sim_touches;
    touches_tell(touches, op, 1);
    if (alone)
        sim_unlock();
    if (op->kind == SIM_OP_SET)
        set_run(op);
    else
        copy_run(op);
    if (alone)
        sim_lock();
    touches_tell(touches, op, 0);
}

static void clock_advance(struct sim_device *device, const struct sim_op *op)
{
    uint64_t bytes = 0;
    size_t count = 0;
    const struct sim_access *access = sim_op_accesses(op, &count);
    for (size_t i = 0; i < count; i++)
        bytes += access[i].bytes;
    device->clock_ns += OP_NS + bytes / 4096;
}

/* Does the operation's work. In a poisoned context nothing has any effect but the end of waiting,
 * and frees, which must not leak. */
static void execute(const struct sim_stream *stream, struct sim_op *op)
{
    struct sim_device *device = stream->context->device;
    int sound = stream->context->error == CUDA_SUCCESS && sim_check_op(stream, op);
    clock_advance(device, op);
    if (op->kind == SIM_OP_FREE) {
        sim_check_unused(op->free->base, op->free->bytes, "cuMemFreeAsync");
        sim_block_free(op->free);
        return;
    }
    if (!sound)
        return;
    switch (op->kind) {
    case SIM_OP_RECORD:
        op->record.event->time_ns = device->clock_ns;
        break;
    case SIM_OP_WRITE_VALUE:
        value_store(op);
        break;
    case SIM_OP_SET:
    case SIM_OP_COPY:
        run_memory(op);
        break;
    case SIM_OP_HOST:
    case SIM_OP_KERNEL:
        call_out(op);
        break;
    default: /* waits: their turn having come is all there is to them */
        break;
    }
}

/* Runs an operation whose turn has come. */
void sim_execute(struct sim_stream *stream, struct sim_op *op)
{
    sim_race_begin(stream, op);
    execute(stream, op);
    sim_race_end(stream, op);
}
