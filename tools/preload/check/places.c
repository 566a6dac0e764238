/* SPDX-License-Identifier: Apache-2.0 */
/* Where something was done: see places.h. */
#include "check/places.h"

#include <execinfo.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 4096, PLACES_MAX = 65536, DEEP = 24 };

static check_place *parts[PARTS];
static uint64_t places_count;

/* The library's own bounds, from the linker. */
extern const char own_begin[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));
extern const char own_end[] __asm__("_end") __attribute__((visibility("hidden")));

static int is_own(const void *address)
{
    return (uintptr_t)address >= (uintptr_t)own_begin && (uintptr_t)address < (uintptr_t)own_end;
}

check_stack check_stack_here(void)
{
    void *frames[DEEP];
    check_stack stack = {.count = 0};
    int count = backtrace(frames, DEEP);
    for (int i = 0; i < count && stack.count < CHECK_FRAMES; i++)
        if (!is_own(frames[i]))
            stack.frames[stack.count++] = frames[i];
    return stack;
}

static size_t part_of(const char *call, const char *kernel, const check_stack *stack)
{
    uint64_t mixed = (uint64_t)(uintptr_t)call * 31 + (uint64_t)(uintptr_t)kernel;
    for (int i = 0; i < stack->count; i++)
        mixed = mixed * UINT64_C(0x100000001b3) ^ (uint64_t)(uintptr_t)stack->frames[i];
    return (size_t)(mixed * UINT64_C(0x9e3779b97f4a7c15) >> 52);
}

const check_place *check_place_of(const char *call, const char *kernel, const check_stack *stack)
{
    static check_place unknown = {.call = "a call"};
    static const check_stack none;
    if (stack == NULL)
        stack = &none;
    size_t part = part_of(call, kernel, stack);
    for (const check_place *at = parts[part]; at != NULL; at = at->next)
        if (at->call == call && at->kernel == kernel && at->stack.count == stack->count &&
            memcmp(at->stack.frames, stack->frames,
                   (size_t)stack->count * sizeof(stack->frames[0])) == 0)
            return at;
    if (places_count >= PLACES_MAX && stack->count > 0)
        return check_place_of(call, kernel, &none);
    check_place *fresh = calloc(1, sizeof(*fresh));
    if (fresh == NULL)
        return &unknown;
    *fresh = (check_place){parts[part], call, kernel, *stack, ++places_count};
    parts[part] = fresh;
    return fresh;
}
