/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the race detector knows about memory: for ranges of physical bytes, the last write and the
 * reads since.
 *
 * Physical, because a handle may be mapped at several addresses. Each handle, allocation and pinned
 * block has a shadow: an ordered map of cells, made at the first touch, and freed with the memory.
 * A write makes one cell of all it covers. A read cuts cells at its ends. A read is kept only if no
 * later read is ordered after it: at most one per stream. When the host knows all work to be
 * finished, all cells are forgotten at once, by a generation number.
 */
#include "race.h"

#include <stdlib.h>
#include <string.h>

enum { REPORTED = 8 };
#define CELL_LIMIT (UINT64_C(1) << 22) /* then the shadow at hand is forgotten, with a note */

struct cell {
    struct sim_touch write;
    struct sim_touch read;  /* ticket 0: none */
    struct sim_touch *more; /* further reads, of other streams */
    uint32_t more_count;
    uint32_t more_room;
    struct cell *next_free;
};

struct sim_shadow {
    struct sim_ranges cells; /* by offset */
    uint64_t generation;
};

static struct cell *cell_free_list;
static uint64_t cell_count;
static uint64_t generation = 1;
static int limit_noted;

/* ---- cells ---------------------------------------------------------------------------------- */

static struct cell *cell_new(void)
{
    struct cell *cell = cell_free_list;
    if (cell != NULL) {
        cell_free_list = cell->next_free;
    } else {
        cell = malloc(sizeof(*cell));
        if (cell == NULL) {
            sim_races_give_up();
            return NULL;
        }
        cell->more = NULL;
        cell->more_room = 0;
    }
    cell->write.ticket = 0;
    cell->read.ticket = 0;
    cell->more_count = 0;
    cell_count++;
    return cell;
}

static void cell_free(struct cell *cell)
{
    if (cell->more_room > 64) {
        free(cell->more);
        cell->more = NULL;
        cell->more_room = 0;
    }
    cell->next_free = cell_free_list;
    cell_free_list = cell;
    cell_count--;
}

static int cell_more(struct cell *cell, uint32_t need)
{
    size_t room = cell->more_room;
    struct sim_touch *larger = sim_grow(cell->more, &room, need, sizeof(*larger));
    if (larger == NULL) {
        sim_races_give_up();
        return 0;
    }
    cell->more = larger;
    cell->more_room = (uint32_t)room;
    return 1;
}

static struct cell *cell_clone(const struct cell *cell)
{
    struct cell *copy = cell_new();
    if (copy == NULL)
        return NULL;
    copy->write = cell->write;
    copy->read = cell->read;
    if (cell->more_count != 0 && cell_more(copy, cell->more_count)) {
        memcpy(copy->more, cell->more, cell->more_count * sizeof(*cell->more));
        copy->more_count = cell->more_count;
    }
    return copy;
}

/* ---- shadows -------------------------------------------------------------------------------- */

static void shadow_clear(struct sim_shadow *shadow)
{
    struct sim_place place;
    struct sim_range *range = sim_ranges_seek(&shadow->cells, 0, &place);
    for (; range != NULL; range = sim_ranges_next(&shadow->cells, &place))
        cell_free(range->value);
    sim_ranges_clear(&shadow->cells);
    shadow->generation = generation;
}

/* The shadow in *slot, made if there is none, without what has been forgotten. */
static struct sim_shadow *shadow_get(struct sim_shadow **slot)
{
    if (*slot == NULL) {
        *slot = calloc(1, sizeof(**slot));
        if (*slot == NULL) {
            sim_races_give_up();
            return NULL;
        }
        (*slot)->generation = generation;
    }
    struct sim_shadow *shadow = *slot;
    if (shadow->generation != generation)
        shadow_clear(shadow);
    if (cell_count > CELL_LIMIT) {
        if (!limit_noted)
            sim_note("race detector: more than %llu ranges of memory are remembered; those of the "
                     "memory touched next are forgotten, and races with them missed",
                     (unsigned long long)CELL_LIMIT);
        limit_noted = 1;
        shadow_clear(shadow);
    }
    return shadow;
}

static void shadow_free(struct sim_shadow **slot)
{
    if (*slot != NULL) {
        shadow_clear(*slot);
        free(*slot);
        *slot = NULL;
    }
}

void sim_shadow_forget_all(void)
{
    generation++;
}

/* ---- comparing ------------------------------------------------------------------------------ */

struct later {
    struct sim_touch touch;
    const struct sim_clock *clock;
    uint64_t reported[REPORTED]; /* tickets it was reported against, the latest first */
};

static int ordered(const struct sim_touch *earlier, const struct later *later)
{
    return earlier->ticket == 0 || earlier->slot == later->touch.slot ||
           sim_clock_time(later->clock, earlier->slot) >= earlier->ticket ||
           (earlier->is_atomic && later->touch.is_atomic);
}

/* Whether this pair has been reported lately; it counts as such from now on. */
static int reported(struct later *later, uint64_t ticket)
{
    unsigned i = 0;
    while (i < REPORTED - 1 && later->reported[i] != ticket)
        i++;
    int before = later->reported[i] == ticket;
    memmove(&later->reported[1], &later->reported[0], i * sizeof(later->reported[0]));
    later->reported[0] = ticket;
    return before;
}

/* Reports a pair of operations once, however many pieces of memory they meet on. */
static void compare(const struct sim_touch *earlier, struct later *later, uint64_t begin,
                    uint64_t end)
{
    if (!ordered(earlier, later) && !reported(later, earlier->ticket))
        sim_report_race(earlier, &later->touch, begin, end - begin);
}

static void compare_cell(const struct cell *cell, struct later *later, uint64_t begin, uint64_t end)
{
    compare(&cell->write, later, begin, end);
    if (!later->touch.is_write)
        return;
    compare(&cell->read, later, begin, end);
    for (uint32_t i = 0; i < cell->more_count; i++)
        compare(&cell->more[i], later, begin, end);
}

/* ---- reads ---------------------------------------------------------------------------------- */

/* Whether what is ordered after the later read is after the earlier one too. */
static int read_covers(const struct later *later, const struct sim_touch *earlier)
{
    return earlier->slot == later->touch.slot ||
           sim_clock_time(later->clock, earlier->slot) >= earlier->ticket;
}

static void cell_read(struct cell *cell, const struct later *later)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < cell->more_count; i++)
        if (!read_covers(later, &cell->more[i]))
            cell->more[kept++] = cell->more[i];
    cell->more_count = kept;
    if (cell->read.ticket == 0 || read_covers(later, &cell->read))
        cell->read = later->touch;
    else if (cell_more(cell, kept + 1))
        cell->more[cell->more_count++] = later->touch;
}

/* Cuts the range at the place in two at an offset inside it; the place stays at the first part. */
static int range_cut(struct sim_ranges *cells, struct sim_place *place, uint64_t at)
{
    struct sim_range *range = sim_ranges_seek(cells, at, place);
    struct sim_range first = {range->begin, at, cell_clone(range->value)};
    if (first.value == NULL)
        return 0;
    range->begin = at;
    if (!sim_ranges_insert(cells, place, first)) {
        range->begin = first.begin;
        cell_free(first.value);
        sim_races_give_up();
        return 0;
    }
    return 1;
}

static int range_add(struct sim_ranges *cells, struct sim_place *place, uint64_t begin,
                     uint64_t end, struct cell **cell)
{
    *cell = cell_new();
    if (*cell == NULL)
        return 0;
    if (!sim_ranges_insert(cells, place, (struct sim_range){begin, end, *cell})) {
        cell_free(*cell);
        sim_races_give_up();
        return 0;
    }
    return 1;
}

static void shadow_read(struct sim_ranges *cells, uint64_t begin, uint64_t end, struct later *later)
{
    struct sim_place place;
    struct sim_range *range = sim_ranges_seek(cells, begin, &place);
    while (begin < end) {
        struct cell *cell = NULL;
        if (range == NULL || range->begin > begin) {
            uint64_t until = range == NULL || range->begin > end ? end : range->begin;
            if (!range_add(cells, &place, begin, until, &cell))
                return;
            cell->read = later->touch;
            begin = until;
        } else {
            int early = range->begin < begin;
            int late = range->end > end;
            if ((early && !range_cut(cells, &place, begin)) ||
                (late && !range_cut(cells, &place, end)))
                return;
            range = early || late ? sim_ranges_seek(cells, begin, &place) : range;
            compare_cell(range->value, later, range->begin, range->end);
            cell_read(range->value, later);
            begin = range->end;
        }
        range = sim_ranges_next(cells, &place);
    }
}

/* ---- writes --------------------------------------------------------------------------------- */

/* Compares with all cells in the range. The range of one that is exactly it, or null. */
static struct sim_range *write_compare(struct sim_ranges *cells, uint64_t begin, uint64_t end,
                                       struct later *later)
{
    struct sim_place place;
    struct sim_range *range = sim_ranges_seek(cells, begin, &place);
    struct sim_range *exact =
        range != NULL && range->begin == begin && range->end == end ? range : NULL;
    for (; range != NULL && range->begin < end; range = sim_ranges_next(cells, &place))
        compare_cell(range->value, later, range->begin > begin ? range->begin : begin,
                     range->end < end ? range->end : end);
    return exact;
}

/* Takes away what the cells say about the range; the place is then where it belongs. */
static int write_clear(struct sim_ranges *cells, uint64_t begin, uint64_t end,
                       struct sim_place *place)
{
    struct sim_range *range = sim_ranges_seek(cells, begin, place);
    if (range != NULL && range->begin < begin) {
        if (!range_cut(cells, place, begin))
            return 0;
        range = sim_ranges_seek(cells, begin, place);
    }
    while (range != NULL && range->end <= end) {
        cell_free(range->value);
        range = sim_ranges_erase(cells, place);
    }
    if (range != NULL && range->begin < end)
        range->begin = end;
    return 1;
}

static void shadow_write(struct sim_ranges *cells, uint64_t begin, uint64_t end,
                         struct later *later)
{
    struct sim_place place;
    struct cell *cell = NULL;
    const struct sim_range *exact = write_compare(cells, begin, end, later);
    if (exact != NULL)
        cell = exact->value;
    else if (!write_clear(cells, begin, end, &place) ||
             !range_add(cells, &place, begin, end, &cell))
        return;
    cell->write = later->touch;
    cell->read.ticket = 0;
    cell->more_count = 0;
}

/* ---- from addresses to physical memory ------------------------------------------------------ */

/* The stretch of one physical memory that begins at an address. */
struct stretch {
    struct sim_shadow **shadow;
    uint64_t offset;
    uint64_t bytes;
};

static int stretch_at(CUdeviceptr address, struct stretch *stretch)
{
    struct sim_region *region = sim_region_find(address);
    if (region == NULL)
        return 0;
    if (region->kind != SIM_RESERVED) {
        stretch->shadow = &region->shadow;
        stretch->offset = address - region->base;
        stretch->bytes = region->bytes - stretch->offset;
        return 1;
    }
    const struct sim_mapping *mapping = sim_mapping_find(region, address);
    if (mapping == NULL)
        return 0;
    struct sim_memory *memory = mapping->memory;
    stretch->shadow = memory->origin != NULL ? &memory->origin->shadow : &memory->shadow;
    stretch->offset = address - mapping->base;
    stretch->bytes = memory->bytes - stretch->offset;
    return 1;
}

/* One access of an operation. What is not mapped is another check's business. */
static void shadow_access(const struct sim_access *access, struct later *later)
{
    CUdeviceptr at = access->address;
    CUdeviceptr end = access->address + access->bytes;
    struct stretch stretch;
    while (at < end && sim.races_on && stretch_at(at, &stretch)) {
        uint64_t bytes = stretch.bytes < end - at ? stretch.bytes : end - at;
        struct sim_shadow *shadow = shadow_get(stretch.shadow);
        if (shadow == NULL)
            return;
        later->touch.delta = at - stretch.offset;
        later->touch.is_write = (uint8_t)access->is_write;
        if (access->is_write)
            shadow_write(&shadow->cells, stretch.offset, stretch.offset + bytes, later);
        else
            shadow_read(&shadow->cells, stretch.offset, stretch.offset + bytes, later);
        at += bytes;
    }
}

/* Compares and remembers all that an operation touches. Reads first: it may write what it reads. */
void sim_shadow_op(const struct sim_stream *stream, const struct sim_op *op)
{
    struct later later = {.clock = sim_clock_stream(stream)};
    later.touch.ticket = op->ticket;
    later.touch.number = op->node != 0 ? op->node : stream->head;
    later.touch.stream_id = sim_op_stream_id(stream, op);
    later.touch.is_node = op->node != 0;
    later.touch.slot = stream->race_slot;
    later.touch.label = op->label;
    later.touch.owner = op->owner;
    later.touch.tag = op->tag;
    later.touch.entry = op->entry;
    later.touch.is_atomic = op->kind == SIM_OP_WAIT_VALUE || op->kind == SIM_OP_WRITE_VALUE;
    if (op->kind == SIM_OP_FREE) {
        const struct sim_access all = {op->free->base, op->free->bytes, 1};
        shadow_access(&all, &later);
        return;
    }
    size_t count = 0;
    const struct sim_access *access = sim_op_accesses(op, &count);
    for (int write = 0; write < 2; write++) {
        for (size_t i = 0; i < count; i++)
            if (access[i].is_write == (write == 1))
                shadow_access(&access[i], &later);
    }
}

/* The last write of the byte at an address, if it is remembered. */
int sim_shadow_last_write(CUdeviceptr address, struct sim_touch *touch)
{
    struct stretch stretch;
    struct sim_place place;
    if (!stretch_at(address, &stretch) || *stretch.shadow == NULL)
        return 0;
    const struct sim_shadow *shadow = shadow_get(stretch.shadow);
    const struct sim_range *range =
        shadow == NULL ? NULL : sim_ranges_seek(&shadow->cells, stretch.offset, &place);
    if (range == NULL || range->begin > stretch.offset)
        return 0;
    *touch = ((const struct cell *)range->value)->write;
    return touch->ticket != 0;
}

/* ---- the end of memory ---------------------------------------------------------------------- */

/* Who takes which bytes: those of a mapping at `base`, or where it is 0, whatever leads there. */
struct taker {
    const char *what;
    CUdeviceptr base;
    uint64_t bytes;
};

/* One access of what is taken: does the host know that it is finished? */
static void check_finished(const struct sim_touch *touch, const struct sim_range *range,
                           const struct taker *by)
{
    if (touch->ticket != 0 &&
        (by->base == 0 || range->begin + touch->delta - by->base < by->bytes) &&
        sim_clock_time(sim_clock_host(), touch->slot) < touch->ticket)
        sim_report_unfinished(touch, range->begin, range->end - range->begin, by->what);
}

static void check_shadow(struct sim_shadow *shadow, uint64_t begin, uint64_t end,
                         const struct taker *by)
{
    struct sim_place place;
    if (shadow == NULL || shadow->generation != generation)
        return;
    const struct sim_range *range = sim_ranges_seek(&shadow->cells, begin, &place);
    for (; range != NULL && range->begin < end; range = sim_ranges_next(&shadow->cells, &place)) {
        const struct cell *cell = range->value;
        check_finished(&cell->write, range, by);
        check_finished(&cell->read, range, by);
        for (uint32_t i = 0; i < cell->more_count; i++)
            check_finished(&cell->more[i], range, by);
    }
}

/* A mapping is about to go. Accesses through it must be known to be finished; those through other
 * mappings of the same memory do not matter. */
void sim_race_unmapped(const struct sim_mapping *mapping)
{
    if (sim.races_on) {
        const struct sim_memory *memory = mapping->memory;
        const struct taker by = {sim_entry_symbol((uint16_t)sim_thread()->entry), mapping->base,
                                 memory->bytes};
        check_shadow(memory->origin != NULL ? memory->origin->shadow : memory->shadow, 0,
                     UINT64_MAX, &by);
    }
}

/* Memory that the host uses from now on: accesses through any mapping must be known to be over. */
void sim_shadow_host_takes(CUdeviceptr address, uint64_t bytes)
{
    const struct taker by = {"the host", 0, 0};
    struct stretch stretch;
    for (CUdeviceptr at = address; at < address + bytes && stretch_at(at, &stretch);
         at += stretch.bytes) {
        uint64_t left = address + bytes - at;
        uint64_t end = stretch.offset + (stretch.bytes < left ? stretch.bytes : left);
        check_shadow(*stretch.shadow, stretch.offset, end, &by);
    }
}

void sim_race_memory_gone(struct sim_shadow **shadow)
{
    shadow_free(shadow);
}

void sim_shadow_reset(void)
{
    while (cell_free_list != NULL) {
        struct cell *cell = cell_free_list;
        cell_free_list = cell->next_free;
        free(cell->more);
        free(cell);
    }
    limit_noted = 0;
}
