/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in the program something was done: the call, the kernel and the stack. Each is kept once,
 * so that two places are the same if their addresses are. Between check_enter and check_leave.
 */
#ifndef TENURE_PRELOAD_CHECK_PLACES_H
#define TENURE_PRELOAD_CHECK_PLACES_H

#include <stdint.h>

#include "check/stack.h"

struct check_place {
    struct check_place *next;
    const char *call;   /* a literal */
    const char *kernel; /* null: none */
    check_stack stack;
    uint64_t number; /* from 1 */
};

/* A text that stays, for places and streams have it: one for all that are alike. Null: no memory,
 * or there are 16 MiB of them. */
const char *check_text_keep(const char *text);

/* The place; without host memory, or beyond a bound, one without stack that many may share. Only
 * the thread that has taken a stack asks for it, unless it is a copy. Null: no stack. */
const check_place *check_place_of(const char *call, const char *kernel, check_stack *stack);

#endif
