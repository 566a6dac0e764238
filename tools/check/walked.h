/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks that a thread has walked. Programs call from the same places again and again, and one walk
 * takes as long as ten launches under the checker. So a thread remembers for each stack where its
 * return addresses lie. The current stack counts as a remembered one if each of its return
 * addresses is still there. The checker reads only inside the thread's own stack, which exists as
 * long as the thread does.
 *
 * For each depth at which walks begin, a tree tells which remembered stacks to compare. An inner
 * node is a place above the depth where stacks have different return addresses. It has a branch for
 * each address. All stacks below the node have a return address in that place, never a word that
 * the program works on. Stacks without a return address there are beside the node. So every
 * remembered stack is found.
 *
 * A program that goes round mostly takes the stack that it took next the last time. So each
 * remembered stack says which one that was, and that one is compared first. It is fetched into the
 * cache when this one is found: the program touches much else until it takes the next.
 */
#ifndef TENURE_PRELOAD_CHECK_WALKED_H
#define TENURE_PRELOAD_CHECK_WALKED_H

#include <stdatomic.h>
#include <stdint.h>

#include "check/stack.h"

enum { WALK_DEEP = 24, WALKED_MAX = 4096, WALKED_NODES = 2 * WALKED_MAX, WALKED_LINKS = 32768 };

/* Where the code of another object lies. */
typedef struct check_bounds {
    _Atomic uintptr_t begin, end;
} check_bounds;

static inline int check_is_in(const check_bounds *object, uintptr_t address)
{
    return address >= atomic_load_explicit(&object->begin, memory_order_relaxed) &&
           address < atomic_load_explicit(&object->end, memory_order_relaxed);
}

/* What a walk found: return addresses, and where each lies. */
typedef struct check_walk {
    int count;
    int has_end; /* the last one is the interpreter's, wherever in it that is */
    uintptr_t slots[WALK_DEEP], frames[WALK_DEEP];
} check_walk;

/* A remembered stack. All that a look-up reads lies in two cache lines: the addresses are compared
 * by a sum of 64 bits. */
enum { WALKED_LINE = 64 };
typedef struct check_walked {
    /* Of the return addresses from `first` on, but for such an end. */
    _Alignas(WALKED_LINE) uint64_t sum;
    uint32_t after; /* which one was taken next, the last time; 0: none */
    uint8_t count;
    uint8_t has_end;
    uint8_t first; /* what lies below the depth was the walk's own */
    uint16_t
        steps[WALK_DEEP]; /* in words, from the depth to the first one, from each to the next */
    uintptr_t root;       /* the depth, and how many were wanted; 0: there is none */
    uint32_t number;      /* no two of a thread's have one; never 0 */
    check_stack stack;
    uintptr_t frames[WALK_DEEP];
} check_walked;

typedef struct walked_node {
    uint32_t place; /* above the depth; 0: it is one that is remembered */
    uint32_t one;   /* the one, or any of those below it, in `list` */
    uint32_t next;  /* another node to look at, if it is not found here; 0: none */
} walked_node;

typedef struct walked_link {
    uintptr_t word;
    uint32_t from; /* a node, or UINT32_MAX: to the first of a depth; 0: no link is here */
    uint32_t to;
} walked_link;

/* A thread's; zeroed when it is made, but for the first three. */
typedef struct check_walks {
    /* Its stack: from the first to behind the last, or the upper part of it; 0: not known. */
    uintptr_t low, high;
    const check_bounds *interpreter;
    uint32_t numbers, ones, nodes; /* that were given; of those since all was forgotten */
    uint32_t last, next;           /* the one that was taken last, and its `after`; 0: none */
    walked_node node[WALKED_NODES];
    walked_link link[WALKED_LINKS];
    check_walked list[WALKED_MAX]; /* the first stands for none */
} check_walks;

/* The stack at this depth; `most`: how many frames are wanted at most. Null: it is not remembered.
 */
check_walked *check_walks_find(check_walks *self, uintptr_t depth, int most);

/* Remembers a walk that is not remembered yet. Null: this stack cannot be recognised later. If
 * there is no room for it, all others are forgotten. */
check_walked *check_walks_keep(check_walks *self, const check_walk *walk, const check_stack *stack,
                               uintptr_t depth, int most);

#endif
