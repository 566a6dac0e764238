/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of functions: see layout.h. */
#include "check/layout.h"

#include <stdlib.h>
#include <string.h>

#include "check/findings.h"
#include "check/launch.h"
#include "driver.h"
#include "handles.h"

enum { WORD = sizeof(CUdeviceptr) };

/* Which functions share a part depends on where the driver has them. So a part is no more than a
 * list: to step over another function's layout takes a few instructions. */
enum { PARTS_BITS = 10 };

/* Under the lock of check_enter. */
static check_layout *layouts[1 << PARTS_BITS];
static uint64_t unloads;               /* how often all was forgotten */
static handles kernels = HANDLES_INIT; /* handles that are kernels', not functions' */

/* ---- what the driver tells ------------------------------------------------------------------ */

static CUresult parameter_ask(const void *function, int is_kernel, size_t index,
                              check_parameter *to)
{
    size_t offset = 0, bytes = 0;
    CUresult result =
        is_kernel ? REAL(cuKernelGetParamInfo, ((CUkernel)function, index, &offset, &bytes))
                  : REAL(cuFuncGetParamInfo, ((CUfunction)function, index, &offset, &bytes));
    *to = (check_parameter){
        .index = (uint32_t)index, .offset = (uint32_t)offset, .bytes = (uint32_t)bytes};
    return result;
}

static int has_word(const check_parameter *one)
{
    return ((0 - one->offset) & (WORD - 1)) + WORD <= one->bytes;
}

static void number_add(check_numbers *to, const check_parameter *one)
{
    if (to->count == CHECK_NUMBERS_MAX || one->index > UINT16_MAX)
        return;
    const struct check_number *last = to->count > 0 ? &to->list[to->count - 1] : NULL;
    int has_before = last != NULL && to->index[to->count - 1] + 1u == one->index &&
                     last->bytes == 4 && one->bytes == 4 && last->offset + 4 == one->offset;
    to->index[to->count] = (uint16_t)one->index;
    to->list[to->count++] = (struct check_number){
        .offset = one->offset, .bytes = one->bytes, .has_before = has_before != 0};
}

static int parameter_add(check_layout *to, const check_parameter *one)
{
    if (to->count == to->room) {
        int is_inside = to->parameters == to->inside;
        size_t room = to->room * 2;
        check_parameter *grown = realloc(is_inside ? NULL : to->parameters, room * sizeof(*grown));
        if (grown == NULL)
            return 0;
        if (is_inside)
            memcpy(grown, to->inside, sizeof(to->inside));
        to->parameters = grown;
        to->room = room;
    }
    to->parameters[to->count++] = *one;
    to->large_count += one->bytes > WORD;
    return 1;
}

/* As the driver has it: until the code is gone. */
static const char *name_ask(const void *function, int is_kernel)
{
    const char *name = NULL;
    CUresult result = is_kernel ? REAL(cuKernelGetName, (&name, (CUkernel)function))
                                : REAL(cuFuncGetName, (&name, (CUfunction)function));
    return result == CUDA_SUCCESS ? name : NULL;
}

static check_layout *layout_ask(const void *function, int is_kernel)
{
    check_layout *fresh = calloc(1, sizeof(*fresh));
    if (fresh == NULL)
        return NULL;
    fresh->name = name_ask(function, is_kernel);
    fresh->parameters = fresh->inside;
    fresh->room = CHECK_PARAMETERS_INSIDE;
    for (size_t index = 0;; index++) {
        check_parameter one;
        CUresult result = parameter_ask(function, is_kernel, index, &one);
        /* A handle that the driver takes for wrong gives the same answer as the end of the list: an
         * empty list is believed only if the driver knows the function by name. */
        fresh->is_known = result == CUDA_ERROR_INVALID_VALUE && (index > 0 || fresh->name != NULL);
        if (result == CUDA_ERROR_NOT_SUPPORTED)
            check_cannot_read();
        if (result != CUDA_SUCCESS)
            return fresh;
        if (!has_word(&one)) {
            number_add(&fresh->numbers, &one);
        } else if (!parameter_add(fresh, &one)) {
            fresh->is_known = 0;
            return fresh;
        }
    }
}

static void layout_end(check_layout *layout)
{
    for (size_t i = 0; i < layout->count; i++) {
        check_words_end(layout->parameters[i].words);
        free(layout->parameters[i].lanes);
    }
    if (layout->parameters != layout->inside)
        free(layout->parameters);
    free(layout);
}

static check_layout **part_of(const void *function)
{
    return &layouts[(uint64_t)(uintptr_t)function * UINT64_C(0x9e3779b97f4a7c15) >>
                    (64 - PARTS_BITS)];
}

check_layout *check_layout_find(const void *function)
{
    check_layout *one = *part_of(function);
    while (one != NULL && one->function != function)
        one = one->next;
    return one;
}

/* What the driver has said of the function. 0: code was unloaded meanwhile, and it may have said it
 * of another one that had the handle. Inside of check_enter. */
static int layout_keep(const void *function, check_layout *fresh, uint64_t unloads_before)
{
    if (unloads != unloads_before || check_layout_find(function) != NULL) {
        int is_known = unloads == unloads_before;
        layout_end(fresh);
        return is_known;
    }
    check_layout **part = part_of(function);
    fresh->name = check_text_keep(fresh->name);
    fresh->function = function;
    fresh->next = *part;
    *part = fresh;
    return 1;
}

/* 0: to be asked again. */
static int layout_known(const void *function)
{
    if (!check_enter())
        return 1;
    uint64_t unloads_before = unloads;
    int is_known = check_layout_find(function) != NULL;
    int is_kernel = handles_get(&kernels, function, NULL);
    check_leave();
    check_layout *fresh = is_known || function == NULL ? NULL : layout_ask(function, is_kernel);
    if (fresh == NULL || !check_enter())
        return 1;
    is_known = layout_keep(function, fresh, unloads_before);
    check_leave();
    return is_known;
}

void check_layout_ask(const void *function)
{
    while (!layout_known(function))
        ;
}

void check_kernel_known(CUkernel kernel)
{
    if (!check_enter())
        return;
    handles_set(&kernels, kernel, 1);
    check_leave();
}

void check_kernels_end(void)
{
    if (!check_enter())
        return;
    handles_clear(&kernels, 0);
    check_leave();
}

/* Handles may be others' from now on. */
void check_code_unloaded(void)
{
    if (!check_enter())
        return;
    unloads++;
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        for (check_layout *next; layouts[i] != NULL; layouts[i] = next) {
            next = layouts[i]->next;
            layout_end(layouts[i]);
        }
    }
    check_leave();
}

const char *check_kernel_name(const void *function)
{
    const check_layout *layout = check_layout_find(function);
    return layout == NULL ? NULL : layout->name;
}
