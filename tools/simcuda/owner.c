/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who owns which addresses, as the program says by simcuda_owner_begin and simcuda_owner_end.
 *
 * One ordered map by address holds the present owners and those that were there last. Operations
 * are checked when they are queued: a program may not queue a use of memory after it has freed it,
 * whenever that use would run. A new owner replaces what is left of earlier owners in its range.
 */
#include "race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_BYTES = 64 };

struct owner {
    char label[LABEL_BYTES];
    char begun_by[LABEL_BYTES];
    char ended_by[LABEL_BYTES];
    CUdeviceptr base;
    uint64_t bytes;
    uint64_t begun; /* tickets: how many operations had been queued */
    uint64_t ended;
    uint32_t pieces; /* ranges of the map that refer to it */
    uint32_t name;   /* label, as the race reports know it */
    int is_live;
    struct owner *next_free;
};

static struct owner *owner_free_list;
static struct sim_ranges owners;
static struct sim_ranges tracked; /* ranges where memory without an owner must not be touched */

/* ---- reports -------------------------------------------------------------------------------- */

static simcuda_touch touch_of_owner(const struct owner *owner, const char *what, const char *label)
{
    simcuda_touch touch;
    memset(&touch, 0, sizeof(touch));
    touch.what = what;
    touch.label = label;
    touch.owner = owner->label;
    touch.address = owner->base;
    touch.bytes = owner->bytes;
    touch.is_write = 1;
    touch.number = owner->begun;
    return touch;
}

static simcuda_touch touch_of_op(const struct sim_stream *stream, const struct sim_op *op,
                                 const struct sim_access *access)
{
    simcuda_touch touch;
    memset(&touch, 0, sizeof(touch));
    touch.what = sim_entry_symbol(op->entry);
    touch.label = sim_label_text(op->label);
    touch.owner = "";
    touch.stream_id = sim_op_stream_id(stream, op);
    touch.number = op->node != 0 ? op->node : stream->tail - 1;
    touch.is_node = op->node != 0;
    touch.address = access->address;
    touch.bytes = access->bytes;
    touch.is_write = access->is_write;
    return touch;
}

/* ---- checks --------------------------------------------------------------------------------- */

static int in_tracked(CUdeviceptr address, uint64_t bytes)
{
    struct sim_place place;
    const struct sim_range *range = sim_ranges_seek(&tracked, address, &place);
    return range != NULL && range->begin < address + bytes;
}

/* What is wrong with one access, and the owner concerned; 0 if nothing is. */
static int access_wrong(const struct sim_access *access, simcuda_report_kind *kind,
                        const struct owner **owner)
{
    CUdeviceptr end = access->address + access->bytes;
    struct sim_place place;
    const struct sim_range *range = sim_ranges_seek(&owners, access->address, &place);
    if (range == NULL || range->begin >= end) {
        *owner = NULL;
        *kind = SIMCUDA_NO_OWNER;
        return in_tracked(access->address, access->bytes);
    }
    const struct owner *first = range->value;
    if (range->begin <= access->address && first->is_live) {
        *owner = first;
        *kind = SIMCUDA_OVERRUN;
        return end > range->end;
    }
    *kind = SIMCUDA_USE_AFTER_FREE;
    for (; range != NULL && range->begin < end; range = sim_ranges_next(&owners, &place)) {
        *owner = range->value;
        if (!(*owner)->is_live)
            return 1;
    }
    *owner = first; /* begins before a block and runs into it */
    *kind = SIMCUDA_OVERRUN;
    return 1;
}

static void report_access(const struct sim_stream *stream, const struct sim_op *op,
                          const struct sim_access *access, simcuda_report_kind kind,
                          const struct owner *owner)
{
    simcuda_touch later = touch_of_op(stream, op, access);
    simcuda_touch earlier;
    simcuda_touch allocation;
    memset(&earlier, 0, sizeof(earlier));
    memset(&allocation, 0, sizeof(allocation));
    if (owner != NULL) {
        allocation = touch_of_owner(owner, "simcuda_owner_begin", owner->begun_by);
        later.owner = owner->label;
    }
    if (kind == SIMCUDA_USE_AFTER_FREE) {
        earlier = touch_of_owner(owner, "simcuda_owner_end", owner->ended_by);
        earlier.number = owner->ended;
    }
    sim_report_owner(kind, &earlier, &later, &allocation);
}

/* Checks an operation that is being queued; the name of who owns what it touches first, or 0. */
uint32_t sim_owner_check(const struct sim_stream *stream, const struct sim_op *op)
{
    if ((owners.leaf_count == 0 && tracked.leaf_count == 0) || sim_thread()->owners_paused)
        return 0;
    uint32_t name = 0;
    size_t count = 0;
    const struct sim_access *access = sim_op_accesses(op, &count);
    for (size_t i = 0; i < count; i++) {
        simcuda_report_kind kind = SIMCUDA_OVERRUN;
        const struct owner *owner = NULL;
        if (access[i].bytes == 0)
            continue;
        if (access_wrong(&access[i], &kind, &owner))
            report_access(stream, op, &access[i], kind, owner);
        name = name == 0 && owner != NULL ? owner->name : name;
    }
    return name;
}

/* ---- the map -------------------------------------------------------------------------------- */

static struct owner *owner_new(void)
{
    struct owner *owner = owner_free_list;
    if (owner == NULL)
        return malloc(sizeof(*owner));
    owner_free_list = owner->next_free;
    return owner;
}

static void owner_free(struct owner *owner)
{
    owner->next_free = owner_free_list;
    owner_free_list = owner;
}

static void piece_drop(struct owner *owner)
{
    if (owner != NULL && --owner->pieces == 0)
        owner_free(owner);
}

/* Takes a range out of a map whose values are owners, or nulls. 0 when memory is short. */
static int map_clear(struct sim_ranges *map, CUdeviceptr begin, CUdeviceptr end,
                     struct sim_place *place)
{
    struct sim_range *range = sim_ranges_seek(map, begin, place);
    if (range != NULL && range->begin < begin) {
        struct sim_range before = {range->begin, begin, range->value};
        struct owner *owner = range->value;
        range->begin = begin;
        if (!sim_ranges_insert(map, place, before)) {
            range->begin = before.begin;
            return 0;
        }
        if (owner != NULL)
            owner->pieces++;
        range = sim_ranges_seek(map, begin, place);
    }
    while (range != NULL && range->end <= end) {
        piece_drop(range->value);
        range = sim_ranges_erase(map, place);
    }
    if (range != NULL && range->begin < end)
        range->begin = end;
    return 1;
}

/* A live owner of any byte of the range, or null. */
static const struct owner *live_owner(CUdeviceptr begin, CUdeviceptr end)
{
    struct sim_place place;
    const struct sim_range *range = sim_ranges_seek(&owners, begin, &place);
    for (; range != NULL && range->begin < end; range = sim_ranges_next(&owners, &place)) {
        const struct owner *owner = range->value;
        if (owner->is_live)
            return owner;
    }
    return NULL;
}

static void owner_fill(struct owner *owner, CUdeviceptr address, uint64_t bytes, const char *label)
{
    sim_text_copy(owner->label, sizeof(owner->label), label == NULL ? "" : label);
    sim_text_copy(owner->begun_by, sizeof(owner->begun_by), sim_label_text(sim_thread()->origin));
    owner->ended_by[0] = '\0';
    owner->base = address;
    owner->bytes = bytes;
    owner->begun = sim.ticket;
    owner->ended = 0;
    owner->pieces = 0;
    owner->name = sim_label_new(owner->label);
    owner->is_live = 1;
    owner->next_free = NULL;
}

static int owner_begin(CUdeviceptr address, uint64_t bytes, const char *label)
{
    struct sim_place place;
    struct owner *owner = owner_new();
    if (owner == NULL)
        return -1;
    owner_fill(owner, address, bytes, label);
    const struct owner *other = live_owner(address, address + bytes);
    if (other != NULL) {
        simcuda_touch earlier = touch_of_owner(other, "simcuda_owner_begin", other->begun_by);
        simcuda_touch later = touch_of_owner(owner, "simcuda_owner_begin", owner->begun_by);
        sim_report_owner(SIMCUDA_TWO_OWNERS, &earlier, &later, &earlier);
    }
    if (!map_clear(&owners, address, address + bytes, &place) ||
        !sim_ranges_insert(&owners, &place, (struct sim_range){address, address + bytes, owner})) {
        owner_free(owner);
        return -1;
    }
    owner->pieces = 1;
    return 0;
}

static int owner_end(CUdeviceptr address)
{
    struct sim_place place;
    const struct sim_range *range = sim_ranges_seek(&owners, address, &place);
    struct owner *owner = range == NULL || range->begin != address ? NULL : range->value;
    if (owner == NULL || owner->base != address || !owner->is_live)
        return -1;
    sim_text_copy(owner->ended_by, sizeof(owner->ended_by), sim_label_text(sim_thread()->origin));
    owner->is_live = 0;
    owner->ended = sim.ticket;
    return 0;
}

/* ---- control -------------------------------------------------------------------------------- */

static int range_valid(CUdeviceptr address, size_t bytes)
{
    return bytes != 0 && address + bytes > address;
}

int simcuda_owner_begin(CUdeviceptr address, size_t bytes, const char *label)
{
    if (!range_valid(address, bytes))
        return -1;
    sim_lock();
    int result = sim.races_on ? owner_begin(address, bytes, label) : 0;
    sim_unlock();
    return result;
}

int simcuda_owner_end(CUdeviceptr address)
{
    sim_lock();
    int result = sim.races_on ? owner_end(address) : 0;
    sim_unlock();
    return result;
}

void simcuda_host_takes(CUdeviceptr address, size_t bytes)
{
    sim_lock();
    sim_check_unused(address, bytes, "simcuda_host_takes");
    if (sim.races_on)
        sim_shadow_host_takes(address, bytes);
    sim_unlock();
}

int simcuda_owner_track(CUdeviceptr address, size_t bytes, int on)
{
    if (!range_valid(address, bytes))
        return -1;
    sim_lock();
    struct sim_place place;
    int result = 0;
    if (sim.races_on &&
        (!map_clear(&tracked, address, address + bytes, &place) ||
         (on && !sim_ranges_insert(&tracked, &place,
                                   (struct sim_range){address, address + bytes, NULL}))))
        result = -1;
    sim_unlock();
    return result;
}

void simcuda_owner_pause(int paused)
{
    sim_lock();
    sim_thread()->owners_paused = paused != 0;
    sim_unlock();
}

void sim_owner_reset(void)
{
    struct sim_place place;
    const struct sim_range *range = sim_ranges_seek(&owners, 0, &place);
    for (; range != NULL; range = sim_ranges_next(&owners, &place))
        piece_drop(range->value);
    while (owner_free_list != NULL) {
        struct owner *owner = owner_free_list;
        owner_free_list = owner->next_free;
        free(owner);
    }
    sim_ranges_clear(&owners);
    sim_ranges_clear(&tracked);
}
