/* SPDX-License-Identifier: Apache-2.0 */
/* Where something was done: see places.h. */
#include "check/places.h"

#include <stdlib.h>
#include <string.h>

enum { PARTS = 4096, PLACES_MAX = 65536, TEXTS_MAX = 1 << 24 };

static check_place *parts[PARTS];
static uint64_t places_count;

/* ---- texts ---------------------------------------------------------------------------------- */

typedef struct kept_text {
    struct kept_text *next;
    char string[];
} kept_text;

static kept_text *texts[PARTS];
static size_t texts_bytes;

const char *check_text_keep(const char *text)
{
    uint64_t mixed = 0;
    size_t length = 0;
    if (text == NULL)
        return NULL;
    for (; text[length] != '\0'; length++)
        mixed = mixed * UINT64_C(0x100000001b3) ^ (unsigned char)text[length];
    kept_text **part = &texts[mixed * UINT64_C(0x9e3779b97f4a7c15) >> 52];
    for (const kept_text *one = *part; one != NULL; one = one->next)
        if (strcmp(one->string, text) == 0)
            return one->string;
    size_t bytes = sizeof(kept_text) + length + 1;
    kept_text *fresh = texts_bytes + bytes > TEXTS_MAX ? NULL : malloc(bytes);
    if (fresh == NULL)
        return NULL;
    texts_bytes += bytes;
    memcpy(fresh->string, text, length + 1);
    fresh->next = *part;
    *part = fresh;
    return fresh->string;
}

/* ---- places --------------------------------------------------------------------------------- */

static size_t part_of(const char *call, const char *kernel, const check_stack *stack)
{
    uint64_t mixed = (uint64_t)(uintptr_t)call * 31 + (uint64_t)(uintptr_t)kernel;
    for (int i = 0; i < stack->count; i++)
        mixed = mixed * UINT64_C(0x100000001b3) ^ (uint64_t)(uintptr_t)stack->frames[i];
    return (size_t)(mixed * UINT64_C(0x9e3779b97f4a7c15) >> 52);
}

/* The place in the table, which is entered if it is new. */
static const check_place *place_find(const char *call, const char *kernel, const check_stack *stack)
{
    static check_place unknown = {.call = "a call"};
    static const check_stack none;
    size_t part = part_of(call, kernel, stack);
    for (const check_place *at = parts[part]; at != NULL; at = at->next)
        if (at->call == call && at->kernel == kernel && at->stack.count == stack->count &&
            memcmp(at->stack.frames, stack->frames,
                   (size_t)stack->count * sizeof(stack->frames[0])) == 0)
            return at;
    if (places_count >= PLACES_MAX && stack->count > 0)
        return place_find(call, kernel, &none);
    check_place *fresh = calloc(1, sizeof(*fresh));
    if (fresh == NULL)
        return &unknown;
    *fresh = (check_place){parts[part], call, kernel, check_stack_copy(stack), ++places_count};
    parts[part] = fresh;
    return fresh;
}

static __attribute__((noinline)) const check_place *place_ask(const char *call, const char *kernel,
                                                              check_stack *stack)
{
    const check_place *found = place_find(call, kernel, stack);
    if (stack->keeps_last)
        stack->last = (check_asked){call, kernel, found};
    return found;
}

const check_place *check_place_of(const char *call, const char *kernel, check_stack *stack)
{
    static check_stack none;
    if (stack == NULL)
        return place_ask(call, kernel, &none);
    const check_asked *last = &stack->last;
    if (last->place != NULL && last->call == call && last->kernel == kernel)
        return last->place;
    return place_ask(call, kernel, stack);
}
