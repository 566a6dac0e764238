/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks: for each index a number.
 *
 * Most clocks of a program are nearly alike, since each is made from others: so they share what
 * they have in common. A clock is a tree of nodes with eight places each. A node that has several
 * holders is never changed: whoever has to, copies it and the nodes above it. Taking over a whole
 * clock is holding its root, and two clocks are compared only where their nodes differ. In a chain
 * of waits through N streams each wait costs the height of the tree, and not N.
 *
 * An empty clock is all zero. The caller has the lock: that of streams.c.
 */
#ifndef TENURE_PRELOAD_CHECK_CLOCK_H
#define TENURE_PRELOAD_CHECK_CLOCK_H

#include <stddef.h>
#include <stdint.h>

enum { CHECK_CLOCK_BITS = 3, CHECK_CLOCK_PLACES = 1 << CHECK_CLOCK_BITS };

typedef struct check_clock_node {
    size_t holders;
    union {
        uint64_t at[CHECK_CLOCK_PLACES];                    /* of the lowest ones */
        struct check_clock_node *below[CHECK_CLOCK_PLACES]; /* null: zeros */
    };
} check_clock_node;

typedef struct check_clock {
    check_clock_node *root; /* null: zeros */
    uint8_t height;         /* of the root: 0 for one that has numbers */
    uint8_t is_open;        /* something is waited for that cannot be seen: see streams.h */
} check_clock;

static inline uint64_t check_clock_at(const check_clock *clock, size_t index)
{
    const check_clock_node *node = clock->root;
    int bits = clock->height * CHECK_CLOCK_BITS;
    if (index >> bits >= CHECK_CLOCK_PLACES)
        return 0;
    for (; bits > 0 && node != NULL; bits -= CHECK_CLOCK_BITS)
        node = node->below[index >> bits & (CHECK_CLOCK_PLACES - 1)];
    return node == NULL ? 0 : node->at[index & (CHECK_CLOCK_PLACES - 1)];
}

/* 1: there was no memory for an order, once: what is not known to be ordered may be. */
extern int check_order_is_lost;
extern const char check_means_lost[]; /* as means of a doubt */
static inline void *check_order_lost(void)
{
    check_order_is_lost = 1;
    return NULL;
}

/* The first: at least this number from now on. The second: at least those of the other clock.
 * 1: the clock has grown. Without memory it has not, or in part, and that is noted. */
int check_clock_raise(check_clock *clock, size_t index, uint64_t number);
int check_clock_join(check_clock *to, const check_clock *from);

/* The numbers are those of the other clock from now on. */
void check_clock_take(check_clock *to, const check_clock *from);

/* Calls for each index that has a larger number in the first clock than in the second. */
void check_clock_beyond(const check_clock *clock, const check_clock *than,
                        void (*visit)(size_t index));

/* All zero again. */
void check_clock_clear(check_clock *clock);

#ifdef CHECK_CLOCK_STEPS
extern uint64_t check_clock_steps; /* the nodes that were looked at, for a test */
#endif

#endif
