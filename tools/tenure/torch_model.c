/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See torch_model.h. A segment is a chain of blocks in the order of their addresses. Free blocks of
 * a stream and a class of sizes lie in one list, the smallest first, and of one size by address;
 * with expandable segments what is not mapped is a block, too, in a list by address.
 */
#include "torch_model.h"

#include <stdlib.h>
#include <string.h>

#include "late.h"

#define MIB (UINT64_C(1) << 20)
#define BLOCK_STEP UINT64_C(512)
#define SMALL_MOST MIB
#define SMALL_SEGMENT (2 * MIB)
#define LARGE_SEGMENT (20 * MIB)
#define OWN_SEGMENT_FROM (10 * MIB)
#define OWN_SEGMENT_STEP (2 * MIB)
/* Of an expandable segment, and of where segments begin: none reaches the next. */
#define RANGE_BYTES (UINT64_C(1) << 62)
#define RANGE_DISTANCE (UINT64_C(1) << 40)

typedef struct block {
    uint64_t address, bytes;
    struct block *before, *after; /* in the segment; `after` also links unused records */
    uint32_t class_at;            /* of model->classes */
    uint8_t is_free, is_mapped;
} block;

/* Blocks in order. */
typedef struct list {
    block **at;
    size_t count, capacity;
    int is_by_address; /* else by size, then address */
} list;

/* A stream and a class of sizes: their free blocks. */
typedef struct size_class {
    list free, unmapped;
    uint64_t page_bytes; /* in which an expandable segment is mapped */
    int is_small;
} size_class;

enum { SLAB_BLOCKS = 1024 };

typedef struct slab {
    struct slab *next;
    block blocks[SLAB_BLOCKS];
} slab;

typedef struct model {
    int is_expandable;
    uint64_t limit_bytes, reserved_bytes, peak_bytes;
    uint64_t next_address;
    size_class *classes; /* two for each stream: small, large */
    size_t classes_count;
    late_list late;
    slab *slabs;
    block *unused;
    int is_out_of_memory; /* of the host's */
} model;

/* ---- lists ---------------------------------------------------------------------------------- */

/* The first place whose block is not below (bytes, address). */
static size_t list_place(const list *in, uint64_t bytes, uint64_t address)
{
    size_t low = 0, high = in->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const block *one = in->at[middle];
        int is_below =
            in->is_by_address || one->bytes == bytes ? one->address < address : one->bytes < bytes;
        if (is_below)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void list_add(model *of, list *in, block *one)
{
    if (in->count == in->capacity) {
        size_t capacity = in->capacity ? in->capacity * 2 : 64;
        block **more = realloc(in->at, capacity * sizeof(*more));
        if (!more) {
            of->is_out_of_memory = 1;
            return;
        }
        in->at = more;
        in->capacity = capacity;
    }
    size_t place = list_place(in, one->bytes, one->address);
    memmove(&in->at[place + 1], &in->at[place], (in->count - place) * sizeof(*in->at));
    in->at[place] = one;
    in->count++;
}

static void list_drop_at(list *in, size_t place)
{
    in->count--;
    memmove(&in->at[place], &in->at[place + 1], (in->count - place) * sizeof(*in->at));
}

static void list_drop(list *in, const block *one)
{
    size_t place = list_place(in, one->bytes, one->address);
    if (place < in->count && in->at[place] == one)
        list_drop_at(in, place);
}

/* ---- blocks --------------------------------------------------------------------------------- */

/* A record, of a block that is mapped and not free. Null without host memory. */
static block *block_new(model *of, uint64_t address, uint64_t bytes, uint32_t class_at)
{
    if (!of->unused) {
        slab *more = malloc(sizeof(*more));
        if (!more) {
            of->is_out_of_memory = 1;
            return NULL;
        }
        more->next = of->slabs;
        of->slabs = more;
        for (size_t i = 0; i < SLAB_BLOCKS; i++) {
            more->blocks[i].after = of->unused;
            of->unused = &more->blocks[i];
        }
    }
    block *one = of->unused;
    of->unused = one->after;
    *one = (block){.address = address, .bytes = bytes, .class_at = class_at, .is_mapped = 1};
    return one;
}

static void block_delete(model *of, block *one)
{
    one->after = of->unused;
    of->unused = one;
}

/* Cuts the block behind its first `bytes`; the rest is as the block was, in no list. */
static block *block_cut(model *of, block *one, uint64_t bytes)
{
    block *rest = block_new(of, one->address + bytes, one->bytes - bytes, one->class_at);
    if (!rest)
        return NULL;
    rest->is_free = one->is_free;
    rest->is_mapped = one->is_mapped;
    rest->before = one;
    rest->after = one->after;
    if (one->after)
        one->after->before = rest;
    one->after = rest;
    one->bytes = bytes;
    return rest;
}

/* Puts the two, of which neither is in a list, together. */
static void block_join(model *of, block *one, block *next)
{
    one->bytes += next->bytes;
    one->after = next->after;
    if (next->after)
        next->after->before = one;
    block_delete(of, next);
}

static list *list_of(model *of, const block *one)
{
    size_class *class = &of->classes[one->class_at];
    return one->is_mapped ? &class->free : &class->unmapped;
}

/* Puts a block into the list where it belongs, joined with its neighbours of the same state. */
static void block_release(model *of, block *one)
{
    one->is_free = 1;
    block *before = one->before, *after = one->after;
    if (after && after->is_free && after->is_mapped == one->is_mapped) {
        list_drop(list_of(of, after), after);
        block_join(of, one, after);
    }
    if (before && before->is_free && before->is_mapped == one->is_mapped) {
        list_drop(list_of(of, before), before);
        block_join(of, before, one);
        one = before;
    }
    list_add(of, list_of(of, one), one);
}

static uint64_t round_up(uint64_t bytes, uint64_t step)
{
    return (bytes + step - 1) / step * step;
}

/* 0 if the limit forbids it. */
static int reserve(model *of, uint64_t bytes)
{
    if (bytes > of->limit_bytes || of->reserved_bytes > of->limit_bytes - bytes)
        return 0;
    of->reserved_bytes += bytes;
    if (of->reserved_bytes > of->peak_bytes)
        of->peak_bytes = of->reserved_bytes;
    return 1;
}

/* ---- expandable segments -------------------------------------------------------------------- */

/* Maps the first pages of a block that is not mapped, for `bytes`. */
static int block_map(model *of, block *one, uint64_t bytes)
{
    list *unmapped = &of->classes[one->class_at].unmapped;
    uint64_t mapped = round_up(bytes, of->classes[one->class_at].page_bytes);
    list_drop(unmapped, one);
    if (mapped < one->bytes) {
        block *rest = block_cut(of, one, mapped);
        if (!rest)
            return -1;
        list_add(of, unmapped, rest);
    }
    one->is_mapped = 1;
    return 0;
}

/* From `first` on, free and not mapped, or mapped: is there enough, and how much must be mapped? */
static int range_fits(const model *of, const block *first, uint64_t bytes, uint64_t *to_map)
{
    uint64_t page = of->classes[first->class_at].page_bytes, have = 0;
    *to_map = 0;
    for (const block *one = first; one && one->is_free && have < bytes; one = one->after) {
        uint64_t taken = one->bytes;
        if (!one->is_mapped) {
            taken = round_up(bytes - have < taken ? bytes - have : taken, page);
            *to_map += taken;
        }
        have += taken;
    }
    return have >= bytes;
}

/* The lowest place with room, with the free block before it; a new segment if there is none. */
static block *range_find(model *of, uint32_t class_at, uint64_t bytes, uint64_t *to_map)
{
    size_class *class = &of->classes[class_at];
    for (size_t i = 0; i < class->unmapped.count; i++) {
        block *one = class->unmapped.at[i];
        if (one->before && one->before->is_free && one->before->is_mapped)
            one = one->before;
        if (range_fits(of, one, bytes, to_map))
            return one;
    }
    uint64_t whole = RANGE_BYTES / class->page_bytes * class->page_bytes;
    block *segment = block_new(of, 0, whole, class_at);
    if (!segment)
        return NULL;
    segment->is_mapped = 0;
    segment->is_free = 1;
    list_add(of, &class->unmapped, segment);
    return range_fits(of, segment, bytes, to_map) ? segment : NULL;
}

/* A block of at least `bytes`, in no list, or null: the limit, or no host memory. */
static block *segment_expand(model *of, uint32_t class_at, uint64_t bytes)
{
    list *free_blocks = &of->classes[class_at].free;
    uint64_t to_map;
    block *one = range_find(of, class_at, bytes, &to_map);
    if (!one || !reserve(of, to_map))
        return NULL;
    if (one->is_mapped)
        list_drop(free_blocks, one);
    else if (block_map(of, one, bytes < one->bytes ? bytes : one->bytes) != 0)
        return NULL;
    while (one->bytes < bytes) {
        block *next = one->after;
        uint64_t missing = bytes - one->bytes;
        if (next->is_mapped)
            list_drop(free_blocks, next);
        else if (block_map(of, next, missing < next->bytes ? missing : next->bytes) != 0)
            return NULL;
        block_join(of, one, next);
    }
    return one;
}

/* Unmaps the whole pages of a free block. Returns 1 if it has any. */
static int block_unmap(model *of, block *one)
{
    uint64_t page = of->classes[one->class_at].page_bytes;
    uint64_t first = round_up(one->address, page);
    uint64_t end = (one->address + one->bytes) / page * page;
    if (end <= first)
        return 0;
    list_drop(list_of(of, one), one);
    block *rest = end < one->address + one->bytes ? block_cut(of, one, end - one->address) : NULL;
    block *middle = first > one->address ? block_cut(of, one, first - one->address) : one;
    if (of->is_out_of_memory)
        return 0;
    if (rest)
        list_add(of, list_of(of, rest), rest);
    if (middle != one)
        list_add(of, list_of(of, one), one);
    middle->is_mapped = 0;
    of->reserved_bytes -= end - first;
    block_release(of, middle);
    return 1;
}

/* ---- requests ------------------------------------------------------------------------------- */

/* How large the block could become in place. */
static uint64_t expandable_bytes(const block *one)
{
    return one->bytes + (one->after && !one->after->is_mapped ? one->after->bytes : 0);
}

/* The free block that PyTorch takes, out of its list; null: none fits. */
static block *free_take(model *of, uint32_t class_at, uint64_t bytes)
{
    list *in = &of->classes[class_at].free;
    size_t place = list_place(in, bytes, 0);
    if (place == in->count)
        return NULL;
    while (of->is_expandable && place + 1 < in->count &&
           expandable_bytes(in->at[place + 1]) < expandable_bytes(in->at[place]))
        place++;
    block *one = in->at[place];
    list_drop_at(in, place);
    return one;
}

/* A new segment for the request, or more of the expandable one. */
static block *segment_take(model *of, uint32_t class_at, uint64_t bytes)
{
    if (of->is_expandable)
        return segment_expand(of, class_at, bytes);
    uint64_t whole = of->classes[class_at].is_small ? SMALL_SEGMENT
                     : bytes < OWN_SEGMENT_FROM     ? LARGE_SEGMENT
                                                    : round_up(bytes, OWN_SEGMENT_STEP);
    if (!reserve(of, whole))
        return NULL;
    of->next_address += RANGE_DISTANCE;
    return block_new(of, of->next_address, whole, class_at);
}

/* Waits for all uses, and gives back all that lies free. */
static void all_release(model *of)
{
    for (block *one; (one = late_take_any(&of->late)) != NULL;)
        block_release(of, one);
    for (size_t i = 0; i < of->classes_count && !of->is_out_of_memory; i++) {
        list *in = &of->classes[i].free;
        for (size_t k = in->count; k-- > 0;) {
            block *one = in->at[k];
            if (of->is_expandable) {
                /* What is left of it, at most two blocks, has moved others up. */
                if (block_unmap(of, one))
                    k = k + 2 < in->count ? k + 2 : in->count;
            } else if (!one->before && !one->after) {
                of->reserved_bytes -= one->bytes;
                list_drop_at(in, k);
                block_delete(of, one);
            }
        }
    }
}

static block *request(model *of, uint64_t bytes, uint16_t stream)
{
    bytes = bytes < BLOCK_STEP ? BLOCK_STEP : round_up(bytes, BLOCK_STEP);
    int is_small = bytes <= SMALL_MOST;
    uint32_t class_at = 2 * (uint32_t)stream + (is_small ? 0 : 1);
    block *one = free_take(of, class_at, bytes);
    if (!one)
        one = segment_take(of, class_at, bytes);
    if (!one && !of->is_out_of_memory) {
        all_release(of);
        one = segment_take(of, class_at, bytes);
    }
    if (!one)
        return NULL;
    uint64_t rest_bytes = one->bytes - bytes;
    one->is_free = 0;
    if (is_small || of->is_expandable ? rest_bytes >= BLOCK_STEP : rest_bytes > SMALL_MOST) {
        block *rest = block_cut(of, one, bytes);
        if (!rest)
            return NULL;
        rest->is_free = 1;
        list_add(of, list_of(of, rest), rest);
    }
    return one;
}

/* ---- the trace ------------------------------------------------------------------------------ */

static int course_run(model *of, const trace *source, block **slots, torch_outcome *outcome)
{
    size_t next = 0;
    block *late;
    outcome->refused_op = source->ops_count;
    for (size_t i = 0; i < source->ops_count; i++) {
        const trace_op *op = &source->ops[i];
        for (; next < source->completions_count && source->completions[next].before_op <= i; next++)
            if ((late = late_take(&of->late, source->completions[next].free_op)) != NULL)
                block_release(of, late);
        if (op->is_alloc)
            slots[op->slot] = request(of, op->bytes, op->stream);
        else if (op->is_late)
            of->is_out_of_memory |= late_add(&of->late, i, slots[op->slot]) != 0;
        else
            block_release(of, slots[op->slot]);
        if (of->is_out_of_memory)
            return -1;
        if (op->is_alloc && !slots[op->slot]) {
            outcome->refused_op = i;
            break;
        }
    }
    outcome->peak_reserved_bytes = of->peak_bytes;
    return 0;
}

int torch_model_run(const trace *source, int expandable, uint64_t limit_bytes,
                    torch_outcome *outcome)
{
    model of = {.is_expandable = expandable,
                .limit_bytes = limit_bytes,
                .classes_count = 2 * source->streams_count};
    block **slots = calloc(source->slots_count, sizeof(block *));
    of.classes = calloc(of.classes_count, sizeof(*of.classes));
    int status = -1;
    if (slots && of.classes) {
        for (size_t i = 0; i < of.classes_count; i++) {
            of.classes[i].is_small = i % 2 == 0;
            of.classes[i].page_bytes = i % 2 == 0 ? SMALL_SEGMENT : LARGE_SEGMENT;
            of.classes[i].unmapped.is_by_address = 1;
        }
        status = course_run(&of, source, slots, outcome);
    }
    for (size_t i = 0; of.classes && i < of.classes_count; i++) {
        free(of.classes[i].free.at);
        free(of.classes[i].unmapped.at);
    }
    for (slab *one = of.slabs, *next; one; one = next) {
        next = one->next;
        free(one);
    }
    late_release(&of.late);
    free(of.classes);
    free(slots);
    return status;
}
