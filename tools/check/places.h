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

/* A copy of the text that is never freed, because places and streams point to it. Equal texts share
 * one copy. Null: no memory, or there are 16 MiB of them. */
const char *check_text_keep(const char *text);

/* The place. Without host memory, or beyond a bound, it is one without a stack, which many may
 * share. Only the thread that has taken a stack may ask with it, unless it is a copy. Null: no
 * stack. */
const check_place *check_place_of(const char *call, const char *kernel, check_stack *stack);

#endif
