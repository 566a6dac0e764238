/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in the program something was done: the call, the kernel and the stack. Each is kept once,
 * so that two places are the same if their addresses are.
 *
 * The stack is of return addresses, without this library's own frames; names and the lines of files
 * are looked up only when it is printed. Between check_enter and check_leave, but for the stack.
 */
#ifndef TENURE_PRELOAD_CHECK_PLACES_H
#define TENURE_PRELOAD_CHECK_PLACES_H

#include <stddef.h>
#include <stdint.h>

#include "check/check.h"

enum { CHECK_FRAMES = 12 };

typedef struct check_place check_place;

/* The place that a stack was when it was last asked for. */
typedef struct check_asked {
    const char *call, *kernel;
    const check_place *place; /* null: it was not */
} check_asked;

typedef struct check_stack {
    check_asked last;
    int keeps_last; /* it is the thread's that asks */
    int count;
    const void *frames[CHECK_FRAMES];
} check_stack;

struct check_place {
    struct check_place *next;
    const char *call;   /* a literal */
    const char *kernel; /* null: none */
    check_stack stack;
    uint64_t number; /* from 1 */
};

/* The caller's stack: the thread's, until it asks again, or in `room`. Before check_enter. */
check_stack *check_stack_take(check_stack *room);
/* The same with an interpreter's frames in front, for a report; null where none is made. */
check_stack *check_stack_whole(check_stack *room);
static inline check_stack *check_stack_here(check_stack *room)
{
    return check_does(CHECK_REPORTS) ? check_stack_whole(room) : NULL;
}

/* One that any thread may ask with, and for more places than one. */
static inline check_stack check_stack_copy(const check_stack *stack)
{
    check_stack copy = *stack;
    copy.last.place = NULL;
    copy.keeps_last = 0;
    return copy;
}

/* Frames of the object with this symbol are not the caller's either. Once, before stacks are taken.
 */
void check_stack_pass(const void *symbol);

/* The object with this symbol is the interpreter. What comes behind an interpreter's own frames
 * ends there: the frames say where in the program it is, while the interpreter returns to other
 * places once it has specialised a line. */
void check_stack_interpreter(const void *symbol);

/* A text that stays, for places and streams have it: one for all that are alike. Null: no memory,
 * or there are 16 MiB of them. */
const char *check_text_keep(const char *text);

/* The place; without host memory, or beyond a bound, one without stack that many may share. Only
 * the thread that has taken a stack asks for it, unless it is a copy. Null: no stack. */
const check_place *check_place_of(const char *call, const char *kernel, check_stack *stack);

#endif
