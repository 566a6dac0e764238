/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks: see blocks.h. Live and freed ones are each a treap by address. */
#include "check/blocks.h"

#include <stdlib.h>

enum { FREED_MAX = 65536, BASES = 16384 };

static check_block *live, *freed; /* roots */
static check_block *bases[BASES]; /* live ones by where they begin, as most parameters have it */
static check_block *oldest, *newest;
static size_t freed_count;
static uint64_t serials;

/* ---- the tree ------------------------------------------------------------------------------- */

/* Parts a tree into what is below an address, and the rest. */
static void tree_split(check_block *root, CUdeviceptr address, check_block **below,
                       check_block **rest)
{
    if (root == NULL) {
        *below = *rest = NULL;
    } else if (root->base < address) {
        tree_split(root->right, address, &root->right, rest);
        *below = root;
    } else {
        tree_split(root->left, address, below, &root->left);
        *rest = root;
    }
}

static check_block *tree_join(check_block *below, check_block *rest)
{
    if (below == NULL || rest == NULL)
        return below == NULL ? rest : below;
    if (below->priority > rest->priority) {
        below->right = tree_join(below->right, rest);
        return below;
    }
    rest->left = tree_join(below, rest->left);
    return rest;
}

static void tree_add(check_block **root, check_block *block)
{
    check_block *below, *rest;
    block->left = block->right = NULL;
    tree_split(*root, block->base, &below, &rest);
    *root = tree_join(tree_join(below, block), rest);
}

static void tree_remove(check_block **root, check_block *block)
{
    check_block *below, *rest, *self;
    tree_split(*root, block->base, &below, &rest);
    tree_split(rest, block->base + 1, &self, &rest);
    *root = tree_join(below, rest);
}

/* The last block that begins at the address or below it. */
static check_block *tree_find(check_block *root, CUdeviceptr address)
{
    check_block *found = NULL;
    while (root != NULL) {
        if (root->base <= address)
            found = root;
        root = root->base <= address ? root->right : root->left;
    }
    return found;
}

static check_block *tree_containing(check_block *root, CUdeviceptr address)
{
    check_block *found = tree_find(root, address);
    return found != NULL && address - found->base < found->bytes ? found : NULL;
}

/* One that has any of these addresses. */
static check_block *tree_overlapping(check_block *root, CUdeviceptr base, size_t bytes)
{
    check_block *found = tree_find(root, base + bytes - 1);
    return found != NULL && found->base + found->bytes > base ? found : NULL;
}

/* ---- blocks --------------------------------------------------------------------------------- */

static check_block **bases_of(CUdeviceptr base)
{
    return &bases[(uint64_t)base * UINT64_C(0x9e3779b97f4a7c15) >> 50];
}

static void live_add(check_block *block)
{
    check_block **bases_here = bases_of(block->base);
    tree_add(&live, block);
    block->next_base = *bases_here;
    *bases_here = block;
}

static void live_remove(check_block *block)
{
    check_block **link = bases_of(block->base);
    tree_remove(&live, block);
    while (*link != block)
        link = &(*link)->next_base;
    *link = block->next_base;
}

check_block *check_block_live(CUdeviceptr address)
{
    for (check_block *one = *bases_of(address); one != NULL; one = one->next_base)
        if (one->base == address)
            return one;
    return tree_containing(live, address);
}

check_block *check_block_freed(CUdeviceptr address)
{
    return tree_containing(freed, address);
}

/* What only a live block needs: it grows with the streams that use it. */
static void block_lighten(check_block *block)
{
    if (block->records != NULL) {
        free(block->records->covered.at);
        free(block->records->until_free);
        free(block->records);
        block->records = NULL;
    }
    free(block->uses);
    block->uses = NULL;
    block->uses_count = block->uses_room = 0;
}

static void block_end(check_block *block)
{
    if (block == NULL)
        return;
    block_end(block->before); /* has none before itself */
    block_lighten(block);
    free(block);
}

static void freed_remove(check_block *block)
{
    tree_remove(&freed, block);
    *(block->older == NULL ? &oldest : &block->older->newer) = block->newer;
    *(block->newer == NULL ? &newest : &block->newer->older) = block->older;
    block->older = block->newer = NULL;
    freed_count--;
}

static void live_drop(CUdeviceptr base, size_t bytes)
{
    for (check_block *old; (old = tree_overlapping(live, base, bytes)) != NULL;) {
        live_remove(old);
        block_end(old);
    }
}

void check_blocks_forget(CUdeviceptr base, size_t bytes)
{
    live_drop(base, bytes);
    for (check_block *old; (old = tree_overlapping(freed, base, bytes)) != NULL;) {
        freed_remove(old);
        block_end(old);
    }
}

check_block *check_block_make(CUdeviceptr base, size_t bytes)
{
    check_block *block = calloc(1, sizeof(*block));
    live_drop(base, bytes);
    for (check_block *old; (old = tree_overlapping(freed, base, bytes)) != NULL;) {
        freed_remove(old);
        if (block == NULL || block->before != NULL) {
            block_end(old);
            continue;
        }
        block_end(old->before);
        old->before = NULL;
        block->before = old;
    }
    if (block == NULL)
        return NULL;
    block->base = base;
    block->bytes = bytes;
    block->serial = ++serials;
    block->priority = (uint32_t)(block->serial * UINT64_C(0x9e3779b97f4a7c15) >> 32);
    live_add(block);
    return block;
}

void check_block_free(check_block *block)
{
    live_remove(block);
    block_lighten(block);
    tree_add(&freed, block);
    block->older = newest;
    block->newer = NULL;
    *(newest == NULL ? &oldest : &newest->newer) = block;
    newest = block;
    if (++freed_count > FREED_MAX) {
        check_block *old = oldest;
        freed_remove(old);
        block_end(old);
    }
}

/* A certain use takes the place of a possible one, too: whoever waits for it waits for that. So the
 * certain one of a stream always comes first. */
void check_block_use(check_block *block, const check_touch *use)
{
    for (size_t i = 0; i < block->uses_count; i++) {
        if (block->uses[i].index != use->index || block->uses[i].is_certain > use->is_certain)
            continue;
        block->uses[i] = *use;
        return;
    }
    if (block->uses_count == block->uses_room) {
        size_t room = block->uses_room * 2 + 2;
        check_touch *grown = realloc(block->uses, room * sizeof(*grown));
        if (grown == NULL)
            return; /* a use that is forgotten is never reported */
        block->uses = grown;
        block->uses_room = room;
    }
    block->uses[block->uses_count++] = *use;
}

check_records *check_block_records(check_block *block)
{
    if (block->records == NULL)
        block->records = calloc(1, sizeof(*block->records));
    return block->records;
}

int check_records_add(check_records *records, check_stamp stream)
{
    for (size_t i = 0; i < records->count; i++)
        if (records->until_free[i].index == stream.index) {
            records->until_free[i] = stream;
            return 1;
        }
    if (records->count == records->room) {
        size_t room = records->room * 2 + 2;
        check_stamp *grown = realloc(records->until_free, room * sizeof(*grown));
        if (grown == NULL)
            return 0;
        records->until_free = grown;
        records->room = room;
    }
    records->until_free[records->count++] = stream;
    return 1;
}

static void tree_each(const check_block *root, void (*visit)(const check_block *, void *),
                      void *user)
{
    if (root == NULL)
        return;
    tree_each(root->left, visit, user);
    visit(root, user);
    tree_each(root->right, visit, user);
}

void check_blocks_each(void (*visit)(const check_block *block, void *user), void *user)
{
    tree_each(live, visit, user);
}
