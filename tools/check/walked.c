/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks that were walked: see walked.h. */
#include "check/walked.h"

#include <string.h>

enum { DEPTH_UNIT = 16, LINKS_SHIFT = 64 - 15 };
#define WALKED_ROOT UINT32_MAX

_Static_assert(WALKED_LINKS == 1 << 15, "LINKS_SHIFT");
_Static_assert((int)CHECK_FRAMES < (int)DEPTH_UNIT, "a depth's lower bits say how many are wanted");

/* 1 if walks that begin at this depth can be remembered. */
static int has_depth(const check_walks *self, uintptr_t depth)
{
    return depth >= self->low && depth < self->high && depth % DEPTH_UNIT == 0;
}

/* ---- one stack ------------------------------------------------------------------------------ */

static uint64_t sum_add(uint64_t sum, uintptr_t frame)
{
    return (sum + frame) * UINT64_C(0x9e3779b97f4a7c15);
}

/* 1 if each return address is where it was found. */
static inline int is_there(const check_walks *self, const check_walked *one, uintptr_t depth)
{
    const uintptr_t *at = (const uintptr_t *)depth;
    const uint16_t *step = &one->steps[one->first], *last = &one->steps[one->count - one->has_end];
    uint64_t sum = 0;
    for (; step < last; step++) {
        at += *step;
        sum = sum_add(sum, *at);
    }
    return sum == one->sum && (!one->has_end || check_is_in(self->interpreter, at[*last]));
}

/* Takes over a walk if it may be looked at again: all of it lies in the thread's own stack, and is
 * found there. */
static int walk_copy(check_walked *to, const check_walk *from, const check_walks *self,
                     uintptr_t depth)
{
    int first = 0;
    uintptr_t below = depth;
    while (first < from->count && from->slots[first] <= depth)
        first++;
    to->sum = 0;
    for (int i = first; i < from->count; i++) {
        uintptr_t step = (from->slots[i] - below) / sizeof(uintptr_t);
        if (from->slots[i] % sizeof(uintptr_t) != 0 || from->slots[i] >= self->high ||
            from->slots[i] <= below || step > UINT16_MAX)
            return 0;
        to->steps[i] = (uint16_t)step;
        to->frames[i] = from->frames[i];
        if (i < from->count - from->has_end)
            to->sum = sum_add(to->sum, from->frames[i]);
        below = from->slots[i];
    }
    to->count = (uint8_t)from->count;
    to->has_end = from->has_end != 0;
    to->first = (uint8_t)first;
    return first < from->count - to->has_end && is_there(self, to, depth);
}

/* The return address that a stack has in a place; 0: none, or any of the interpreter's. */
static uintptr_t address_in(const check_walked *one, uint32_t place)
{
    size_t at = 0;
    for (int i = one->first; i < one->count - one->has_end && at <= place; i++) {
        at += one->steps[i] * sizeof(uintptr_t);
        if (at == place)
            return one->frames[i];
    }
    return 0;
}

/* The first place of `known` in which `fresh` has not the same address; UINT32_MAX: there is none.
 */
static uint32_t differing_place(const check_walked *known, const check_walked *fresh)
{
    size_t at = 0;
    for (int i = known->first; i < known->count; i++) {
        at += known->steps[i] * sizeof(uintptr_t);
        int is_end = known->has_end && i == known->count - 1;
        if (is_end || address_in(fresh, (uint32_t)at) != known->frames[i])
            return (uint32_t)at;
    }
    return UINT32_MAX;
}

/* ---- the tree ------------------------------------------------------------------------------- */

static walked_link *link_at(check_walks *self, uint32_t from, uintptr_t word)
{
    size_t i = ((from ^ word) * UINT64_C(0x9e3779b97f4a7c15)) >> LINKS_SHIFT;
    while (self->link[i].from != 0 && (self->link[i].from != from || self->link[i].word != word))
        i = (i + 1) % WALKED_LINKS;
    return &self->link[i];
}

static check_walked *node_find(check_walks *self, uint32_t number, uintptr_t depth)
{
    for (; number != 0; number = self->node[number].next) {
        const walked_node *node = &self->node[number];
        check_walked *found = &self->list[node->one];
        if (node->place == 0) {
            if (is_there(self, found, depth))
                return found;
            continue;
        }
        const walked_link *link = link_at(self, number, *(const uintptr_t *)(depth + node->place));
        if (link->from != 0 && (found = node_find(self, link->to, depth)) != NULL)
            return found;
    }
    return NULL;
}

static uintptr_t root_of(uintptr_t depth, int most)
{
    return depth + (uintptr_t)most;
}

static __attribute__((noinline)) check_walked *tree_find(check_walks *self, uintptr_t depth,
                                                         int most)
{
    if (!has_depth(self, depth))
        return NULL;
    const walked_link *root = link_at(self, WALKED_ROOT, root_of(depth, most));
    return root->from == 0 ? NULL : node_find(self, root->to, depth);
}

static uint32_t node_make(check_walks *self, uint32_t place, uint32_t one, uint32_t next)
{
    self->node[++self->nodes] = (walked_node){place, one, next};
    return self->nodes;
}

/* Where a link leads to; one that leads nowhere is made first. */
static uint32_t *link_make(check_walks *self, uint32_t from, uintptr_t word)
{
    walked_link *link = link_at(self, from, word);
    if (link->from == 0)
        *link = (walked_link){word, from, 0};
    return &link->to;
}

/* Enters a stack. A node's stacks have the same addresses in all places before the node's own, so
 * any of them tells where the fresh one leaves them. */
static void node_enter(check_walks *self, uint32_t *at, uint32_t fresh)
{
    const check_walked *one = &self->list[fresh];
    while (*at != 0) {
        walked_node *node = &self->node[*at];
        const check_walked *known = &self->list[node->one];
        uint32_t place = differing_place(known, one);
        uintptr_t own = 0, others = 0;
        if (node->place != 0 && place >= node->place) {
            own = address_in(one, node->place);
            at = own != 0 ? link_make(self, *at, own) : &node->next;
            continue;
        }
        if (place != UINT32_MAX) {
            own = address_in(one, place);
            others = address_in(known, place);
        }
        if (own == 0 || others == 0) {
            at = &node->next;
            continue;
        }
        uint32_t inner = node_make(self, place, node->one, node->next);
        node->next = 0;
        *link_make(self, inner, others) = *at;
        *at = inner;
        at = link_make(self, inner, own);
    }
    *at = node_make(self, 0, fresh, 0);
}

static void forget_all(check_walks *self)
{
    memset(self->link, 0, sizeof(self->link));
    self->nodes = self->ones = self->last = self->next = 0;
}

/* ---- which one comes next ------------------------------------------------------------------- */

/* Notes it, and fetches the one that came next the last time. */
static void take(check_walks *self, const check_walked *one)
{
    const char *next = (const char *)&self->list[one->after];
    self->last = (uint32_t)(one - self->list);
    self->next = one->after;
    __builtin_prefetch(next);
    __builtin_prefetch(next + WALKED_LINE);
}

check_walked *check_walks_find(check_walks *self, uintptr_t depth, int most)
{
    check_walked *found = &self->list[self->next];
    if (found->root != root_of(depth, most) || !is_there(self, found, depth)) {
        found = tree_find(self, depth, most);
        if (found == NULL)
            return NULL;
        self->list[self->last].after = (uint32_t)(found - self->list);
    }
    take(self, found);
    return found;
}

/* Each one makes two nodes and three links at most. */
_Static_assert(WALKED_NODES >= 2 * WALKED_MAX && WALKED_LINKS >= 4 * WALKED_MAX, "room for all");

check_walked *check_walks_keep(check_walks *self, const check_walk *walk, const check_stack *stack,
                               uintptr_t depth, int most)
{
    if (self->ones == WALKED_MAX - 1)
        forget_all(self);
    uint32_t fresh = self->ones + 1;
    check_walked *one = &self->list[fresh];
    one->root = 0; /* what was forgotten may still say that it comes next */
    if (!has_depth(self, depth) || !walk_copy(one, walk, self, depth))
        return NULL;
    self->ones = fresh;
    one->after = 0;
    one->root = root_of(depth, most);
    one->number = ++self->numbers;
    one->stack = *stack;
    one->stack.keeps_last = 1;
    node_enter(self, link_make(self, WALKED_ROOT, one->root), fresh);
    self->list[self->last].after = fresh;
    take(self, one);
    return one;
}
