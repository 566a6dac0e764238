/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The race detector as the rest of the simulation sees it: what happens to an operation from its
 * submission to its end, and the switch. How it works is in race.h.
 */
#include "race.h"

static int touches_memory(const struct sim_op *op)
{
    return op->access_count > 0 || op->kind == SIM_OP_KERNEL || op->kind == SIM_OP_FREE;
}

/* It takes along where it comes from, who owns what it touches, and what the host knows. */
void sim_race_submitted(struct sim_stream *stream, struct sim_op *op)
{
    if (!sim.races_on)
        return;
    const struct sim_thread *thread = sim_thread();
    op->label = thread->origin;
    op->entry = (uint16_t)thread->entry;
    op->owner = sim_owner_check(stream, op);
    if (op->node == 0 && touches_memory(op)) /* a graph's operations have the tag of the launch */
        op->tag =
            sim_observe_call(stream, op->kind == SIM_OP_KERNEL ? op->launch->kernel->name : NULL);
    sim_clock_submitted(stream, op);
    if (op->kind == SIM_OP_WAIT_VALUE)
        sim_gate_submitted(stream, op);
}

/* Before the operation does its work. */
void sim_race_begin(struct sim_stream *stream, struct sim_op *op)
{
    if (!sim.races_on || stream->race_slot == 0)
        return;
    sim_clock_begin(stream, op);
    if (op->kind == SIM_OP_WAIT_VALUE)
        sim_gate_passed(stream, op);
    if (stream->context->error == CUDA_SUCCESS)
        sim_shadow_op(stream, op);
    sim_gate_writing(stream, op);
    if (op->kind == SIM_OP_HOST) {
        /* The function is the host: it may tell other threads what it has seen to be finished. */
        struct sim_release *release = sim_clock_of_slot(stream->race_slot, op->ticket);
        sim_clock_host_join(release);
        sim_release_drop(release);
    }
}

/* 1 if it writes a word of memory that the host reads without asking the device. What polling hosts
 * wait for is a word; what is longer may be what is raced for. */
enum { WORD_BYTES = 8 };

static int writes_for_host(const struct sim_op *op)
{
    size_t count = 0;
    const struct sim_access *access = sim_op_accesses(op, &count);
    for (size_t i = 0; i < count; i++) {
        int is_word = access[i].is_write && access[i].bytes <= WORD_BYTES;
        const struct sim_region *region = is_word ? sim_region_find(access[i].address) : NULL;
        if (region != NULL && region->kind == SIM_PINNED)
            return 1;
    }
    return 0;
}

/* A host that polls what was written knows that the stream has come that far: whether it does is
 * not seen, so it is taken to. */
static void host_may_poll(const struct sim_stream *stream, const struct sim_op *op)
{
    if (stream->race_slot == 0 || !writes_for_host(op))
        return;
    struct sim_release *release = sim_clock_of_slot(stream->race_slot, op->ticket);
    sim_clock_host_join(release);
    sim_release_drop(release);
}

/* After it. */
void sim_race_end(struct sim_stream *stream, const struct sim_op *op)
{
    if (sim.races_on) {
        sim_gate_written(op);
        host_may_poll(stream, op);
        sim_clock_end(stream, op);
    }
}

/* Gives back what the detector holds in an operation, whether it ran or not. */
void sim_race_dispose(struct sim_op *op)
{
    sim_release_drop(op->acquire);
    op->acquire = NULL;
    switch (op->kind) {
    case SIM_OP_RECORD:
    case SIM_OP_EMPTY:
        sim_release_drop(op->record.release);
        break;
    case SIM_OP_WAIT:
        sim_release_drop(op->wait.release);
        break;
    case SIM_OP_WAIT_VALUE:
        sim_gate_forget(op);
        break;
    default:
        break;
    }
}

void sim_races_give_up(void)
{
    if (sim.races_on) {
        sim.races_on = 0;
        sim_note("race detector: memory is short; it stops here");
    }
}

/* Switching is only possible while nothing is queued: what ran before then counts as finished, and
 * no operation is half known. */
int simcuda_races_enable(int on)
{
    sim_lock();
    int result = sim.pending == 0 ? 0 : -1;
    if (result == 0) {
        sim.races_on = on != 0;
        sim.races_forced = 1;
        if (on)
            sim_shadow_forget_all();
    }
    sim_unlock();
    return result;
}

int simcuda_races_enabled(void)
{
    sim_lock();
    int on = sim.races_on;
    sim_unlock();
    return on;
}

void sim_race_reset(void)
{
    sim_owner_reset();
    sim_gate_reset();
    sim_clock_reset();
    sim_shadow_reset();
    sim_ranges_reset();
    sim_report_reset();
}
