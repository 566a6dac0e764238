/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a value wait is ordered after.
 *
 * It comes after whatever made its condition true: a write of another stream, or the host. Queued
 * waits are kept in a list. The conditions are checked whenever an operation has written to such a
 * word, and whenever the host is about to learn something. The first check that finds a condition
 * true decides. So a gate that the host opened is ordered after what the host knew then, not after
 * what it has learnt since.
 *
 * Of the host's writes only the effect can be seen. Its reads of what the device wrote cannot be
 * seen. If this file cannot tell, it assumes the later, larger knowledge: it may miss a race, but
 * it does not invent one.
 */
#include "race.h"

#include <stdlib.h>

struct gate {
    struct sim_stream *stream;  /* alive: it has the wait queued */
    uint64_t ticket;            /* of the wait */
    struct sim_op wait;         /* a copy; it owns nothing */
    struct sim_release *opened; /* null while the condition was never seen to hold */
    struct sim_release *writer; /* an operation that is writing to the word right now, or null */
};

static struct gate *gates;
static size_t gate_count;
static size_t gate_room;

static int gate_reached(const struct gate *gate)
{
    CUdeviceptr where = 0;
    return sim_reach(gate->stream->context, gate->wait.access[0].address,
                     gate->wait.access[0].bytes, 0, &where) == SIM_REACH_OK &&
           sim_value_reached(&gate->wait);
}

/* A wait was queued. If its condition holds already, it was the last write there, or the host. */
void sim_gate_submitted(struct sim_stream *stream, const struct sim_op *op)
{
    struct gate *larger = sim_grow(gates, &gate_room, gate_count + 1, sizeof(*larger));
    if (larger == NULL) {
        sim_races_give_up();
        return;
    }
    gates = larger;
    struct gate *gate = &gates[gate_count++];
    *gate = (struct gate){stream, op->ticket, *op, NULL, NULL};
    struct sim_touch writer;
    int written = sim_shadow_last_write(op->access[0].address, &writer);
    if (gate_reached(gate))
        gate->opened = written ? sim_clock_of_slot(writer.slot, writer.ticket) : sim_release_host();
    else if (written && sim_clock_runs(writer.slot, writer.ticket))
        gate->writer = sim_clock_of_slot(writer.slot, writer.ticket);
}

static void gate_remove(size_t i)
{
    sim_release_drop(gates[i].opened);
    sim_release_drop(gates[i].writer);
    gates[i] = gates[--gate_count];
}

/* The wait passes: its stream is ordered after what opened it. */
void sim_gate_passed(struct sim_stream *stream, const struct sim_op *op)
{
    for (size_t i = 0; i < gate_count; i++) {
        if (gates[i].ticket == op->ticket) {
            if (gates[i].opened == NULL && gates[i].writer != NULL)
                gates[i].opened = sim_release_hold(gates[i].writer);
            else if (gates[i].opened == NULL)
                gates[i].opened = sim_release_host();
            sim_clock_stream_join(stream, gates[i].opened);
            gate_remove(i);
            return;
        }
    }
}

/* Looks at one gate after something happened that opener stands for. */
static void gate_look(struct gate *gate, struct sim_release *opener)
{
    if (!gate_reached(gate)) {
        sim_release_drop(gate->opened); /* it closed again before the wait could pass */
        gate->opened = NULL;
    } else if (gate->opened == NULL) {
        gate->opened = sim_release_hold(opener);
    }
}

static int op_writes(const struct sim_op *op, CUdeviceptr address, uint64_t bytes)
{
    size_t count = 0;
    const struct sim_access *access = sim_op_accesses(op, &count);
    for (size_t i = 0; i < count; i++)
        if (access[i].is_write && access[i].address < address + bytes &&
            address < access[i].address + access[i].bytes)
            return 1;
    return 0;
}

/* An operation begins that may write to words waited for. Workers run it without the lock, and the
 * wait may pass as soon as the bytes are there. */
void sim_gate_writing(const struct sim_stream *stream, const struct sim_op *op)
{
    for (size_t i = 0; i < gate_count; i++) {
        const struct sim_access *word = &gates[i].wait.access[0];
        if (op_writes(op, word->address, word->bytes)) {
            sim_release_drop(gates[i].writer);
            gates[i].writer = sim_clock_of_slot(stream->race_slot, op->ticket);
        }
    }
}

/* It has run. */
void sim_gate_written(const struct sim_op *op)
{
    for (size_t i = 0; i < gate_count; i++) {
        struct gate *gate = &gates[i];
        const struct sim_access *word = &gate->wait.access[0];
        if (gate->writer != NULL && op_writes(op, word->address, word->bytes)) {
            gate_look(gate, gate->writer);
            sim_release_drop(gate->writer);
            gate->writer = NULL;
        }
    }
}

void sim_gate_host(void)
{
    if (gate_count == 0)
        return;
    struct sim_release *opener = sim_release_host();
    for (size_t i = 0; i < gate_count; i++)
        gate_look(&gates[i], opener);
    sim_release_drop(opener);
}

/* The wait is dropped without having run. */
void sim_gate_forget(const struct sim_op *op)
{
    for (size_t i = 0; i < gate_count; i++) {
        if (gates[i].ticket == op->ticket) {
            gate_remove(i);
            return;
        }
    }
}

void sim_gate_reset(void)
{
    while (gate_count != 0)
        gate_remove(gate_count - 1);
    free(gates);
    gates = NULL;
    gate_room = 0;
}
