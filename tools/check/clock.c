/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks: see clock.h. */
#include "check/clock.h"

#include <stdlib.h>

/* A test counts what is looked at. */
#ifdef CHECK_CLOCK_STEPS
uint64_t check_clock_steps;
#define STEP() ((void)check_clock_steps++)
#else
#define STEP() ((void)0)
#endif

typedef check_clock_node node;

int check_order_is_lost;
const char check_means_lost[] = "there was no memory for what orders work";

/* ---- nodes ---------------------------------------------------------------------------------- */

static node *node_hold(node *self)
{
    self->holders++;
    return self;
}

static void node_drop(node *self, int height)
{
    if (self == NULL || --self->holders > 0)
        return;
    for (int i = 0; i < CHECK_CLOCK_PLACES && height > 0; i++)
        node_drop(self->below[i], height - 1);
    free(self);
}

/* The node at this place, made or copied so that the place alone has it. Null: no memory. */
static node *node_own(node **place, int height)
{
    node *old = *place;
    STEP();
    if (old != NULL && old->holders == 1)
        return old;
    node *own = old == NULL ? calloc(1, sizeof(*own)) : malloc(sizeof(*own));
    if (own == NULL)
        return check_order_lost();
    if (old != NULL) {
        *own = *old;
        old->holders--;
        for (int i = 0; i < CHECK_CLOCK_PLACES && height > 0; i++)
            if (own->below[i] != NULL)
                own->below[i]->holders++;
    }
    own->holders = 1;
    return *place = own;
}

static void node_replace(node **place, node *by, int height)
{
    node *old = *place;
    *place = node_hold(by);
    node_drop(old, height);
}

/* ---- joining -------------------------------------------------------------------------------- */

/* The larger ones of the numbers. Where all are the other's, its node is taken, so that the next
 * comparison of the two ends there. */
static int numbers_join(node **place, node *from)
{
    int is_less = 0, is_more = 0;
    for (int i = 0; i < CHECK_CLOCK_PLACES; i++) {
        is_less |= (*place)->at[i] < from->at[i];
        is_more |= (*place)->at[i] > from->at[i];
    }
    if (!is_more)
        node_replace(place, from, 0);
    node *own = is_less && is_more ? node_own(place, 0) : NULL;
    for (int i = 0; i < CHECK_CLOCK_PLACES && own != NULL; i++)
        if (own->at[i] < from->at[i])
            own->at[i] = from->at[i];
    return is_less && (!is_more || own != NULL);
}

static int node_join(node **place, node *from, int height);

/* One of the nodes below. If others hold the node above, too, it is copied only if that grows. */
static int below_join(node **place, int i, node *from, int height)
{
    if ((*place)->holders == 1)
        return node_join(&(*place)->below[i], from, height - 1);
    node *below = (*place)->below[i] == NULL ? NULL : node_hold((*place)->below[i]), *own = NULL;
    int has_grown = node_join(&below, from, height - 1);
    if (has_grown)
        own = node_own(place, height);
    if (own != NULL) {
        node *old = own->below[i];
        own->below[i] = below;
        below = old;
    }
    node_drop(below, height - 1);
    return own != NULL;
}

/* 1 if it has grown. */
static int node_join(node **place, node *from, int height)
{
    int has_grown = 0, is_same = 1;
    STEP();
    if (from == NULL || *place == from)
        return 0;
    if (*place == NULL) {
        *place = node_hold(from);
        return 1;
    }
    if (height == 0)
        return numbers_join(place, from);
    for (int i = 0; i < CHECK_CLOCK_PLACES; i++) {
        if (from->below[i] != NULL && from->below[i] != (*place)->below[i])
            has_grown |= below_join(place, i, from->below[i], height);
        is_same &= from->below[i] == (*place)->below[i];
    }
    if (is_same)
        node_replace(place, from, height);
    return has_grown;
}

/* ---- clocks --------------------------------------------------------------------------------- */

/* Up to a root of this height. 0: no memory. */
static int clock_rise(check_clock *clock, int height)
{
    while (clock->height < height && clock->root != NULL) {
        node *above = calloc(1, sizeof(*above));
        if (above == NULL)
            return check_order_lost() != NULL;
        above->holders = 1;
        above->below[0] = clock->root;
        clock->root = above;
        clock->height++;
    }
    if (clock->height < height)
        clock->height = (uint8_t)height;
    return 1;
}

/* Nodes on the way are made, or copied. */
static __attribute__((noinline)) int clock_raise_more(check_clock *clock, size_t index,
                                                      uint64_t number)
{
    int height = clock->height;
    if (check_clock_at(clock, index) >= number)
        return 0;
    while (index >> (height * CHECK_CLOCK_BITS) >= CHECK_CLOCK_PLACES)
        height++;
    if (!clock_rise(clock, height))
        return 0;
    node **place = &clock->root;
    for (; height > 0; height--) {
        node *own = node_own(place, height);
        if (own == NULL)
            return 0;
        place = &own->below[index >> (height * CHECK_CLOCK_BITS) & (CHECK_CLOCK_PLACES - 1)];
    }
    node *own = node_own(place, 0);
    if (own != NULL)
        own->at[index & (CHECK_CLOCK_PLACES - 1)] = number;
    return own != NULL;
}

int check_clock_raise(check_clock *clock, size_t index, uint64_t number)
{
    check_clock_node *self = clock->root;
    int bits = clock->height * CHECK_CLOCK_BITS;
    STEP();
    if (index >> bits >= CHECK_CLOCK_PLACES)
        return clock_raise_more(clock, index, number);
    for (; bits > 0 && self != NULL && self->holders == 1; bits -= CHECK_CLOCK_BITS)
        self = self->below[index >> bits & (CHECK_CLOCK_PLACES - 1)];
    if (self == NULL || self->holders > 1)
        return clock_raise_more(clock, index, number);
    uint64_t *at = &self->at[index & (CHECK_CLOCK_PLACES - 1)];
    if (*at >= number)
        return 0;
    *at = number;
    return 1;
}

int check_clock_join(check_clock *to, const check_clock *from)
{
    if (from->root == NULL || to->root == from->root)
        return 0;
    if (to->root == NULL) {
        check_clock_take(to, from);
        return 1;
    }
    if (!clock_rise(to, from->height))
        return 0;
    node **place = &to->root;
    for (int height = to->height; height > from->height; height--) {
        node *own = node_own(place, height);
        if (own == NULL)
            return 0;
        place = &own->below[0];
    }
    return node_join(place, from->root, from->height);
}

void check_clock_take(check_clock *to, const check_clock *from)
{
    node *old = to->root;
    int height = to->height;
    to->root = from->root == NULL ? NULL : node_hold(from->root);
    to->height = from->height;
    node_drop(old, height);
}

/* `base`: the first index that lies below. */
static void node_beyond(const node *self, const node *than, int height, size_t base,
                        void (*visit)(size_t index))
{
    STEP();
    if (self == NULL || self == than)
        return;
    for (size_t i = 0; i < CHECK_CLOCK_PLACES; i++) {
        size_t index = base + (i << (height * CHECK_CLOCK_BITS));
        if (height > 0)
            node_beyond(self->below[i], than == NULL ? NULL : than->below[i], height - 1, index,
                        visit);
        else if (self->at[i] > (than == NULL ? 0 : than->at[i]))
            visit(index);
    }
}

void check_clock_beyond(const check_clock *clock, const check_clock *than,
                        void (*visit)(size_t index))
{
    const node *first = clock->root, *second = than->root;
    int height = clock->height, second_height = than->height;
    for (; second_height > height && second != NULL; second_height--)
        second = second->below[0];
    for (; height > second_height && first != NULL; height--) {
        for (size_t i = 1; i < CHECK_CLOCK_PLACES; i++)
            node_beyond(first->below[i], NULL, height - 1, i << (height * CHECK_CLOCK_BITS), visit);
        first = first->below[0];
    }
    node_beyond(first, second, height, 0, visit);
}

void check_clock_clear(check_clock *clock)
{
    node_drop(clock->root, clock->height);
    *clock = (check_clock){.root = NULL};
}
