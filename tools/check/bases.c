/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where blocks begin: see bases.h.
 *
 * A leaf of the tree covers 512 KiB: 16 words, each of 64 places of 512 bytes. A node above it has
 * 64 parts. Five levels cover all addresses of a GPU, 49 bits. Each leaf and node has a word that
 * says which of its words, or parts, have anything in them. An empty one is freed.
 */
#include "check/bases.h"

#include <stdlib.h>
#include <string.h>

#include <tenure/alloc.h>

enum {
    PLACE_SHIFT = 9,
    WORD_SHIFT = 15,
    LEAF_SHIFT = 19,
    LEAF_WORDS = 1 << (LEAF_SHIFT - WORD_SHIFT),
    PART_BITS = 6,
    PARTS = 1 << PART_BITS,
    LEVELS = 5, /* above the leaves, which are level 0 */
    END_SHIFT = LEAF_SHIFT + LEVELS * PART_BITS
};

_Static_assert(1 << PLACE_SHIFT == TNR_ALIGNMENT_DEFAULT, "where blocks begin");

typedef struct node {
    uint64_t used; /* which of the rest is neither null nor zero; never zero itself */
    union {
        struct node *part;
        uint64_t word; /* of a leaf */
    } at[];
} node;

enum { MASK_FEW = 1023, ROOM = 4 /* for each block: few meet */ };
check_block *check_bases_table[CHECK_TABLE_MAX];
size_t check_bases_mask = MASK_FEW;
static size_t blocks_count;
static check_block *first;
static node *root; /* null: there is no block */

/* ---- bits ----------------------------------------------------------------------------------- */

static uint64_t bit(unsigned index)
{
    return UINT64_C(1) << index;
}

static unsigned highest(uint64_t bits)
{
    return 63 - (unsigned)__builtin_clzll(bits);
}

static unsigned place_of(CUdeviceptr address)
{
    return (unsigned)(address >> PLACE_SHIFT) % 64;
}

static unsigned word_of(CUdeviceptr address)
{
    return (unsigned)(address >> WORD_SHIFT) % LEAF_WORDS;
}

/* The part of a node of that level, from 1, in which an address is. */
static unsigned part_of(CUdeviceptr address, int level)
{
    return (unsigned)(address >> (LEAF_SHIFT + (level - 1) * PART_BITS)) % PARTS;
}

/* ---- the tree ------------------------------------------------------------------------------- */

/* The nodes that an address is in, from the root, which there is, as far down as there are any.
 * Returns the level of the lowest. */
static int path_find(node *path[LEVELS + 1], CUdeviceptr address)
{
    int level = LEVELS;
    path[level] = root;
    for (; level > 0; level--) {
        unsigned part = part_of(address, level);
        if ((path[level]->used & bit(part)) == 0)
            break;
        path[level - 1] = path[level]->at[part].part;
    }
    return level;
}

/* Frees the nodes of a path that have nothing. */
static void path_prune(CUdeviceptr address)
{
    node *path[LEVELS + 1];
    int level = path_find(path, address);
    for (; level < LEVELS && path[level]->used == 0; level++) {
        free(path[level]);
        path[level + 1]->used &= ~bit(part_of(address, level + 1));
    }
    if (root->used == 0) {
        free(root);
        root = NULL;
    }
}

static node *node_make(int level)
{
    size_t count = level > 0 ? PARTS : LEAF_WORDS;
    return calloc(1, sizeof(node) + count * sizeof(root->at[0]));
}

/* 0: no memory. */
static int place_set(CUdeviceptr address)
{
    node *path[LEVELS + 1];
    if (root == NULL)
        root = node_make(LEVELS);
    if (root == NULL)
        return 0;
    for (int level = path_find(path, address); level > 0; level--) {
        node *fresh = node_make(level - 1);
        if (fresh == NULL) {
            path_prune(address);
            return 0;
        }
        path[level]->at[part_of(address, level)].part = path[level - 1] = fresh;
        path[level]->used |= bit(part_of(address, level));
    }
    path[0]->at[word_of(address)].word |= bit(place_of(address));
    path[0]->used |= bit(word_of(address));
    return 1;
}

static void place_clear(CUdeviceptr address)
{
    node *path[LEVELS + 1];
    (void)path_find(path, address);
    uint64_t *word = &path[0]->at[word_of(address)].word;
    *word &= ~bit(place_of(address));
    if (*word != 0)
        return;
    path[0]->used &= ~bit(word_of(address));
    if (path[0]->used == 0)
        path_prune(address);
}

/* The last place of what is in a node. `begin`: of the node. */
static CUdeviceptr node_last(const node *from, CUdeviceptr begin, int level)
{
    for (; level > 0; level--) {
        unsigned part = highest(from->used);
        begin += (CUdeviceptr)part << (LEAF_SHIFT + (level - 1) * PART_BITS);
        from = from->at[part].part;
    }
    unsigned word = highest(from->used);
    begin += (CUdeviceptr)word << WORD_SHIFT;
    return begin + ((CUdeviceptr)highest(from->at[word].word) << PLACE_SHIFT);
}

static CUdeviceptr begin_of(CUdeviceptr address, int shift)
{
    return address >> shift << shift;
}

/* The last place at the address or below; 0: none. */
static CUdeviceptr place_below(CUdeviceptr address)
{
    node *path[LEVELS + 1];
    if (root == NULL)
        return 0;
    int level = path_find(path, address);
    if (level == 0) {
        uint64_t here = path[0]->at[word_of(address)].word & (bit(place_of(address)) * 2 - 1);
        if (here != 0)
            return begin_of(address, WORD_SHIFT) + ((CUdeviceptr)highest(here) << PLACE_SHIFT);
        uint64_t lower = path[0]->used & (bit(word_of(address)) - 1);
        if (lower != 0) {
            unsigned word = highest(lower);
            return begin_of(address, LEAF_SHIFT) + ((CUdeviceptr)word << WORD_SHIFT) +
                   ((CUdeviceptr)highest(path[0]->at[word].word) << PLACE_SHIFT);
        }
        level = 1;
    }
    for (; level <= LEVELS; level++) {
        uint64_t lower = path[level]->used & (bit(part_of(address, level)) - 1);
        if (lower == 0)
            continue;
        int shift = LEAF_SHIFT + (level - 1) * PART_BITS;
        CUdeviceptr begin = begin_of(address, shift + PART_BITS);
        begin += (CUdeviceptr)highest(lower) << shift;
        return node_last(path[level]->at[highest(lower)].part, begin, level - 1);
    }
    return 0;
}

/* ---- blocks --------------------------------------------------------------------------------- */

check_block *check_bases_below(CUdeviceptr address)
{
    CUdeviceptr last = ((CUdeviceptr)1 << END_SHIFT) - 1;
    CUdeviceptr base = place_below(address < last ? address : last);
    return base == 0 ? NULL : check_bases_at(base);
}

check_block *check_bases_first(void)
{
    return first;
}

static void lower_set(check_block *block, check_block *lower)
{
    block->lower = lower;
    block->is_beside = lower != NULL && block->base - 1 - lower->base < lower->bytes;
}

/* What is below and above it leads to it. */
static void links_set(check_block *block, check_block *lower, check_block *upper)
{
    lower_set(block, lower);
    block->upper = upper;
    *(lower == NULL ? &first : &lower->upper) = block;
    if (upper != NULL)
        lower_set(upper, block);
}

static void table_enter(check_block *block)
{
    check_block **at = check_bases_in_table(block->base);
    block->next_base = *at;
    *at = block;
}

static __attribute__((noinline, cold)) void table_grow(void)
{
    memset(check_bases_table, 0, (check_bases_mask + 1) * sizeof(check_bases_table[0]));
    check_bases_mask = check_bases_mask * 2 + 1;
    for (check_block *block = first; block != NULL; block = block->upper)
        table_enter(block);
}

int check_bases_add(check_block *block, check_block *lower)
{
    CUdeviceptr base = block->base;
    if (base == 0 || base % TNR_ALIGNMENT_DEFAULT != 0 || base >> END_SHIFT != 0 ||
        !place_set(base))
        return 0;
    if (++blocks_count * ROOM > check_bases_mask && check_bases_mask + 1 < CHECK_TABLE_MAX)
        table_grow();
    table_enter(block);
    links_set(block, lower, lower == NULL ? first : lower->upper);
    return 1;
}

static check_block **link_of(const check_block *block)
{
    check_block **link = check_bases_in_table(block->base);
    while (*link != block)
        link = &(*link)->next_base;
    return link;
}

void check_bases_replace(check_block *old, check_block *block)
{
    check_block **link = link_of(old);
    block->next_base = old->next_base;
    *link = block;
    links_set(block, old->lower, old->upper);
}

void check_bases_remove(check_block *block)
{
    check_block **link = link_of(block);
    *link = block->next_base;
    blocks_count--;
    place_clear(block->base);
    *(block->lower == NULL ? &first : &block->lower->upper) = block->upper;
    if (block->upper != NULL)
        lower_set(block->upper, block->lower);
}
