/* SPDX-License-Identifier: Apache-2.0 */
/* Walking a world and comparing every total both ways: see world_validate.h. */
#include "memory/arena/world_validate.h"

#include <limits.h>
#include <stdio.h>

#include "memory/arena/bins.h"
#include "memory/arena/range.h"
#include "memory/arena/world_lend.h"
#include "memory/arena/world_spent.h"
#include "memory/device/chunk.h"

static _Thread_local char validate_text[256];

#define BROKEN(...) (snprintf(validate_text, sizeof(validate_text), __VA_ARGS__), validate_text)

/* What the walk of all records adds up to. */
typedef struct walk {
    size_t bytes_in[TNRI_STATE_COUNT];
    size_t count_in[TNRI_STATE_COUNT];
} walk;

/* An alias has no memory, and knows the chunk of each page, or of none. */
static const char *validate_alias(const tnri_space *space, const tnri_block *block)
{
    size_t page = tnri_page_of(space, block->base);
    size_t end = tnri_page_of(space, tnri_block_end(block));
    int is_forgotten = space->aliases[page] == NULL;
    if (is_forgotten != (block->slack != 0))
        return BROKEN("the alias at %#zx has %zu mappings that are forgotten", (size_t)block->base,
                      (size_t)block->slack);
    while (page < end) {
        const tnri_chunk *chunk = space->aliases[page];
        size_t pages = chunk == NULL ? 1 : chunk->pages;
        if ((chunk == NULL) != is_forgotten || pages > end - page)
            return BROKEN("the alias at %#zx does not consist of mappings", (size_t)block->base);
        for (; pages > 0; pages--, page++)
            if (space->pages[page] != NULL || space->aliases[page] != chunk)
                return BROKEN("page %zu of an alias is mapped otherwise", page);
    }
    return NULL;
}

/* Every whole page of a record is mapped, or none is, as its state says. */
static const char *validate_pages(const tnri_space *space, const tnri_block *block)
{
    unsigned state = block->state;
    if (state == TNRI_PENDING || state == TNRI_STALE || state == TNRI_PARKED)
        return NULL; /* on their way between the two */
    if (state == TNRI_LENT)
        return NULL; /* what is there is another arena's business */
    if (state == TNRI_ALIAS)
        return validate_alias(space, block);
    size_t first = tnri_page_of(space, block->base);
    size_t last = tnri_page_of(space, tnri_block_end(block) - 1);
    for (size_t page = first; page <= last; page++) {
        const tnri_chunk *chunk = space->pages[page];
        if ((chunk != NULL) == (state == TNRI_HOLE))
            return BROKEN("page %zu of the %s record at %#zx is%s mapped", page,
                          tnri_state_name(state), (size_t)block->base, chunk == NULL ? " not" : "");
        if (space->aliases[page] != NULL)
            return BROKEN("page %zu of the %s record at %#zx is an alias", page,
                          tnri_state_name(state), (size_t)block->base);
        if (chunk != NULL && (page < chunk->page || page >= chunk->page + chunk->pages))
            return BROKEN("page %zu points to a chunk that lies at page %zu", page, chunk->page);
    }
    return NULL;
}

static const char *validate_record(const tnri_world *world, const tnri_block *block)
{
    uintptr_t page_mask = tnri_page_bytes(world->space) - 1;
    const tnri_block *above = block->above;
    if (block->world != world || block->state == TNRI_UNUSED || block->bytes == 0 ||
        block->bytes % TNR_ALIGNMENT_DEFAULT != 0)
        return BROKEN("the record at %#zx is malformed", (size_t)block->base);
    if (above != NULL && (above->base != tnri_block_end(block) || above->below != block))
        return BROKEN("the records at %#zx and %#zx are not neighbours", (size_t)block->base,
                      (size_t)above->base);
    if (above != NULL && above->state == block->state &&
        (block->state == TNRI_FREE || block->state == TNRI_HOLE || block->state == TNRI_LENT))
        return BROKEN("two %s records meet at %#zx", tnri_state_name(block->state),
                      (size_t)above->base);
    if ((block->state == TNRI_HOLE || block->state == TNRI_STALE || block->state == TNRI_LENT ||
         block->state == TNRI_ALIAS) &&
        ((block->base | block->bytes) & page_mask) != 0)
        return BROKEN("the %s record at %#zx does not consist of pages",
                      tnri_state_name(block->state), (size_t)block->base);
    if (block->state == TNRI_LIVE && block->slack >= block->bytes)
        return BROKEN("the block at %#zx has more slack than bytes", (size_t)block->base);
    if ((block->state == TNRI_LIVE || block->state == TNRI_BINNED) &&
        tnri_block_map_at(&world->space->map, block->base) != block &&
        tnri_range_of(world->arena) == NULL) /* it leads to the range, not to its pages */
        return BROKEN("the map does not lead to the block at %#zx", (size_t)block->base);
    return validate_pages(world->space, block);
}

/* The index holds exactly the FREE records, each in its class. */
static const char *validate_index(const tnri_world *world)
{
    size_t bytes = 0;
    size_t count = 0;
    unsigned class_index = 0;
    unsigned found;
    const tnri_block *run;
    while ((run = tnri_index_from(world->index, class_index, &found)) != NULL) {
        for (; run != NULL; run = run->next) {
            if (run->state != TNRI_FREE || tnri_index_class(run->bytes) != found ||
                run->slack != found || *run->link != run)
                return BROKEN("the index lists %#zx (%s) in class %u", (size_t)run->base,
                              tnri_state_name(run->state), found);
            bytes += run->bytes;
            count++;
        }
        class_index = found + 1;
    }
    if (bytes != world->bytes_in[TNRI_FREE] || count != world->count_in[TNRI_FREE])
        return BROKEN("the index holds %zu bytes in %zu runs, the totals say %zu in %zu", bytes,
                      count, world->bytes_in[TNRI_FREE], world->count_in[TNRI_FREE]);
    return NULL;
}

static const char *validate_lists(const tnri_world *world)
{
    size_t holes = 0;
    for (const tnri_block *hole = world->holes; hole != NULL; hole = hole->next, holes++)
        if (hole->state != TNRI_HOLE)
            return BROKEN("the list of holes has a %s record", tnri_state_name(hole->state));
    size_t lent = 0;
    for (const tnri_block *block = world->lent; block != NULL; block = block->next, lent++)
        if (block->state != TNRI_LENT)
            return BROKEN("the list of what is lent has a %s record",
                          tnri_state_name(block->state));
    if (lent != world->count_in[TNRI_LENT])
        return BROKEN("%zu records are in the list of what is lent, the totals say %zu", lent,
                      world->count_in[TNRI_LENT]);
    size_t binned = 0;
    const tnri_bins *bins = &world->bins;
    for (unsigned slot = 0; slot < TNRI_BIN_SLOTS; slot++) {
        const tnri_block *first = bins->slots[slot];
        if (first == NULL)
            continue;
        if ((bins->words[slot / 64] >> slot % 64 & 1) == 0)
            return BROKEN("the bitmap of the bins is wrong about slot %u", slot);
        for (const tnri_block *block = first; block != NULL; block = block->next) {
            if (block->state != TNRI_BINNED || block->uses != NULL ||
                tnri_bin_slot(block->bytes) != slot || block->bytes != first->bytes)
                return BROKEN("the bins hold %#zx wrongly", (size_t)block->base);
            binned++;
        }
    }
    size_t spares = 0;
    for (const tnri_block *spare = world->spares; spare != NULL; spare = spare->next, spares++)
        if (spare->state != TNRI_UNUSED)
            return BROKEN("a %s record is listed as spare", tnri_state_name(spare->state));
    if (holes != world->count_in[TNRI_HOLE] || binned != world->count_in[TNRI_BINNED] ||
        binned > bins->max || spares != world->spares_count)
        return BROKEN("%zu holes, %zu binned, %zu spare were found; the totals say %zu, %zu, %zu",
                      holes, binned, spares, world->count_in[TNRI_HOLE],
                      world->count_in[TNRI_BINNED], world->spares_count);
    return NULL;
}

size_t tnri_world_requested(const tnri_world *world)
{
    size_t requested = 0;
    for (size_t i = 0; i < world->spans_count; i++)
        for (const tnri_block *block = world->span_first[i]; block != NULL; block = block->above)
            if (block->state == TNRI_LIVE || block->state == TNRI_PARKED)
                requested += tnri_block_requested(block);
    return requested;
}

const char *tnri_world_validate(const tnri_world *world)
{
    walk sum = {{0}, {0}};
    size_t span_bytes = 0;
    size_t records = 0;
    for (size_t i = 0; i < world->spans_count; i++) {
        const tnri_block *first = world->span_first[i];
        if (first->below != NULL || tnri_world_owns(world, first->base) != (i < world->spans_own))
            return BROKEN("the addresses from %#zx are %s", (size_t)first->base,
                          first->below != NULL ? "not all there are" : "of the wrong kind");
        for (const tnri_block *block = first; block != NULL; block = block->above) {
            const char *broken = validate_record(world, block);
            if (broken != NULL)
                return broken;
            sum.bytes_in[block->state] += block->bytes;
            sum.count_in[block->state]++;
            sum.bytes_in[TNRI_LIVE] += block->state == TNRI_BINNED ? block->bytes : 0;
            sum.count_in[TNRI_LIVE] += block->state == TNRI_BINNED;
            span_bytes += block->bytes;
            records++;
        }
    }
    for (unsigned state = 0; state < TNRI_STATE_COUNT; state++)
        if (sum.bytes_in[state] != world->bytes_in[state] ||
            sum.count_in[state] != world->count_in[state])
            return BROKEN("%zu bytes in %zu %s records were found; the totals say %zu in %zu",
                          sum.bytes_in[state], sum.count_in[state], tnri_state_name(state),
                          world->bytes_in[state], world->count_in[state]);
    if (span_bytes != world->spans_bytes + world->borrowed_bytes)
        return BROKEN("the records tile %zu bytes of %zu", span_bytes,
                      world->spans_bytes + world->borrowed_bytes);
    if (records + world->spares_count != world->slabs_count * TNRI_SLAB_RECORDS)
        return BROKEN("%zu records and %zu spares do not make %zu slabs", records,
                      world->spares_count, world->slabs_count);
    const char *broken = validate_index(world);
    if (broken == NULL)
        broken = validate_lists(world);
    if (broken == NULL && world->is_spent && tnri_world_has_whole(world, INT_MAX))
        broken = BROKEN("a world that is noted as spent has a chunk that is free");
    return broken;
}

size_t tnri_world_largest_free(const tnri_world *world)
{
    for (unsigned word = TNRI_INDEX_WORDS; word-- > 0;) {
        if (world->index->words[word] == 0)
            continue;
        unsigned class_index =
            word * 64 + 63u - (unsigned)__builtin_clzll(world->index->words[word]);
        size_t largest = 0;
        for (const tnri_block *run = world->index->classes[class_index]; run != NULL;
             run = run->next)
            if (run->bytes > largest)
                largest = run->bytes;
        return largest;
    }
    return 0;
}
