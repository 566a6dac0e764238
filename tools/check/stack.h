/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of return addresses, without this library's own frames. Names and the lines of files are
 * looked up only when a stack is printed. All functions: outside of check_enter and check_leave.
 */
#ifndef TENURE_PRELOAD_CHECK_STACK_H
#define TENURE_PRELOAD_CHECK_STACK_H

#include <stddef.h>
#include <stdint.h>

#include "check/check.h"

enum { CHECK_FRAMES = 12 };

typedef struct check_place check_place;

/* The place that was found for a stack when it was last asked for. */
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

/* The caller's stack: the thread's own copy, valid until the thread asks again; or in `room`. */
check_stack *check_stack_take(check_stack *room);
/* The same with an interpreter's frames in front, for a report; null where none is made. */
check_stack *check_stack_whole(check_stack *room);
static inline check_stack *check_stack_here(check_stack *room)
{
    return check_does(CHECK_REPORTS) ? check_stack_whole(room) : NULL;
}
/* The same of an allocation. */
static inline check_stack *check_stack_of_block(check_stack *room)
{
    return check_does(CHECK_REPORTS | CHECK_WASTE) ? check_stack_whole(room) : NULL;
}

/* A copy, with which any thread may ask, and for more places than one. */
static inline check_stack check_stack_copy(const check_stack *stack)
{
    check_stack copy = *stack;
    copy.last.place = NULL;
    copy.keeps_last = 0;
    return copy;
}

/* Where the object with this symbol lies. Once for each `found`. */
struct check_bounds; /* walked.h */
void check_bounds_find(const void *symbol, struct check_bounds *found);

/* Frames of the object with this symbol are not the caller's either. Once, before stacks are taken.
 */
void check_stack_pass(const void *symbol);

/* The object with this symbol is the interpreter. A stack that follows an interpreter's own frames
 * ends at this object. The interpreter's frames say where in the program it is. The return
 * addresses inside the interpreter do not: they change once it has specialised a line. */
void check_stack_interpreter(const void *symbol);

#endif
