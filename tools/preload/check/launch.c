/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a launch uses, read from its parameters as the audit reads those of graph nodes
 * (capture/graph/nodes.h): every word that is aligned to 8 bytes as the kernel sees it.
 *
 * A parameter of 8 bytes that holds an address of a block is a use. A word of a larger parameter
 * may be one, or be left over from before in a structure that is only partly filled: what follows
 * from it alone is possible, not certain. So is what follows from the address where a block begins,
 * if another parameter leads to the block right below: that is how the end of a range is given.
 *
 * A tensor map is opaque: where one is found that the program has had encoded, the address is taken
 * that it was encoded with (tensor.c).
 *
 * What the driver tells of a function is asked once, since each parameter is a call of its own, and
 * forgotten when code is unloaded. Addresses that lie in device memory are not seen.
 */
#include "check/launch.h"

#include <stdlib.h>
#include <string.h>

#include "check/findings.h"
#include "check/rules.h"
#include "check/tensor.h"
#include "handles.h"
#include "journal.h"
#include "service.h"

enum { WORD = sizeof(CUdeviceptr), POINTERS_MAX = 512 };

typedef struct parameter {
    size_t offset, bytes;
} parameter;

struct check_layout {
    const char *name; /* kept for ever: places have it */
    int is_known;
    size_t count, room;
    parameter *parameters;
};

/* Both under the lock of check_enter. */
static handles layouts = HANDLES_INIT; /* function -> layout */
static handles kernels = HANDLES_INIT; /* handles that are kernels', not functions' */

/* ---- what the driver tells ------------------------------------------------------------------ */

static CUresult parameter_ask(const void *function, int is_kernel, size_t index, parameter *to)
{
    if (is_kernel)
        return REAL(cuKernelGetParamInfo, ((CUkernel)function, index, &to->offset, &to->bytes));
    return REAL(cuFuncGetParamInfo, ((CUfunction)function, index, &to->offset, &to->bytes));
}

static int parameter_add(check_layout *to, const parameter *one)
{
    if (to->count == to->room) {
        size_t room = to->room * 2 + 8;
        parameter *grown = realloc(to->parameters, room * sizeof(*grown));
        if (grown == NULL)
            return 0;
        to->parameters = grown;
        to->room = room;
    }
    to->parameters[to->count++] = *one;
    return 1;
}

/* Names are few, and live as long as the process: reports may come after the code is gone. */
static const char *name_ask(const void *function, int is_kernel)
{
    const char *name = NULL;
    CUresult result = is_kernel ? REAL(cuKernelGetName, (&name, (CUkernel)function))
                                : REAL(cuFuncGetName, (&name, (CUfunction)function));
    return result == CUDA_SUCCESS && name != NULL ? strdup(name) : NULL;
}

static check_layout *layout_ask(const void *function, int is_kernel)
{
    check_layout *fresh = calloc(1, sizeof(*fresh));
    if (fresh == NULL)
        return NULL;
    fresh->name = name_ask(function, is_kernel);
    for (;;) {
        parameter one;
        CUresult result = parameter_ask(function, is_kernel, fresh->count, &one);
        /* A handle that the driver takes for wrong gives the same answer as the end of the list: an
         * empty list is believed only if the driver knows the function by name. */
        fresh->is_known =
            result == CUDA_ERROR_INVALID_VALUE && (fresh->count > 0 || fresh->name != NULL);
        if (result == CUDA_ERROR_NOT_SUPPORTED)
            check_cannot_read();
        if (result != CUDA_SUCCESS || !parameter_add(fresh, &one))
            return fresh;
    }
}

static void layout_end(check_layout *layout)
{
    free(layout->parameters);
    free(layout);
}

static check_layout *layout_find(const void *function)
{
    uint64_t found = 0;
    (void)handles_get(&layouts, function, &found);
    return (check_layout *)(uintptr_t)found;
}

void check_layout_ask(const void *function)
{
    if (!check_enter())
        return;
    int is_known = layout_find(function) != NULL;
    int is_kernel = handles_get(&kernels, function, NULL);
    check_leave();
    check_layout *fresh = is_known || function == NULL ? NULL : layout_ask(function, is_kernel);
    if (fresh == NULL || !check_enter())
        return;
    if (layout_find(function) == NULL)
        handles_set(&layouts, function, (uint64_t)(uintptr_t)fresh);
    else
        layout_end(fresh);
    check_leave();
}

void check_kernel_known(CUkernel kernel)
{
    if (!check_enter())
        return;
    handles_set(&kernels, kernel, 1);
    check_leave();
}

/* Handles may be others' from now on. Layouts stay allocated: unloading is rare, they are small,
 * and the names are wanted. */
void check_code_unloaded(void)
{
    if (!check_enter())
        return;
    handles_clear(&layouts, 0);
    handles_clear(&kernels, 0);
    check_leave();
}

const char *check_kernel_name(const void *function)
{
    const check_layout *layout = layout_find(function);
    return layout == NULL ? NULL : layout->name;
}

/* ---- words ---------------------------------------------------------------------------------- */

typedef struct reading {
    check_word visit;
    void *user;
    CUdeviceptr pointers[POINTERS_MAX]; /* parameters of 8 bytes that are addresses of ours */
    size_t count;
} reading;

/* How many bytes at a place of a parameter are a tensor map, which is then visited; 0: none are. */
static size_t read_tensor(const reading *self, const char *from, size_t place, size_t left,
                          int is_whole)
{
    CUdeviceptr address = place % CHECK_TENSOR_ALIGNMENT == 0 && left >= CHECK_TENSOR_BYTES
                              ? check_tensor_find(from)
                              : 0;
    if (address != 0 && service_of_address(address) != NULL)
        self->visit(self->user, address, is_whole);
    return address != 0 ? CHECK_TENSOR_BYTES : 0;
}

static void read_bytes(reading *self, const void *from, size_t offset, size_t bytes)
{
    for (size_t i = (0 - offset) & (WORD - 1); i + WORD <= bytes; i += WORD) {
        CUdeviceptr word;
        size_t skipped = read_tensor(self, (const char *)from + i, offset + i, bytes - i,
                                     bytes == CHECK_TENSOR_BYTES);
        if (skipped > 0) {
            i += skipped - WORD;
            continue;
        }
        memcpy(&word, (const char *)from + i, sizeof(word));
        if (service_of_address(word) == NULL)
            continue;
        if (bytes == WORD && self->count < POINTERS_MAX)
            self->pointers[self->count++] = word;
        else
            self->visit(self->user, word, 0);
    }
}

/* 1 if the address is where a block begins and another ends, to which another parameter leads. */
static int is_end_of_another(const reading *self, CUdeviceptr address)
{
    const check_block *block = check_block_live(address);
    if (block == NULL)
        block = check_block_freed(address);
    if (block != NULL && block->base != address)
        return 0;
    const check_block *below = check_block_live(address - 1);
    for (size_t i = 0; i < self->count && below != NULL; i++)
        if (self->pointers[i] >= below->base && self->pointers[i] < address)
            return 1;
    return 0;
}

static void read_end(reading *self)
{
    for (size_t i = 0; i < self->count; i++)
        self->visit(self->user, self->pointers[i], !is_end_of_another(self, self->pointers[i]));
}

/* The parameters in one buffer: each by itself if their places are known. */
static int read_packed(reading *self, const check_layout *layout, void *const *extra)
{
    const char *buffer = NULL;
    size_t bytes = 0;
    for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[i + 1] != NULL)
            memcpy(&bytes, extra[i + 1], sizeof(bytes));
        else
            return 0;
    }
    if (buffer == NULL || layout == NULL || !layout->is_known) {
        if (buffer != NULL)
            read_bytes(self, buffer, 0, bytes);
        return buffer != NULL || bytes == 0;
    }
    for (size_t i = 0; i < layout->count; i++) {
        const parameter *one = &layout->parameters[i];
        if (one->offset + one->bytes <= bytes)
            read_bytes(self, buffer + one->offset, one->offset, one->bytes);
    }
    return 1;
}

int check_words_each(const void *function, void *const *parameters, void *const *extra,
                     check_word visit, void *user)
{
    const check_layout *layout = layout_find(function);
    reading self = {.visit = visit, .user = user, .count = 0};
    int is_read = 1;
    if (extra != NULL && extra[0] != CU_LAUNCH_PARAM_END) {
        is_read = read_packed(&self, layout, extra);
    } else if (layout == NULL || !layout->is_known) {
        is_read = 0;
    } else {
        for (size_t i = 0; i < layout->count && is_read; i++) {
            is_read = parameters != NULL && parameters[i] != NULL;
            if (is_read)
                read_bytes(&self, parameters[i], layout->parameters[i].offset,
                           layout->parameters[i].bytes);
        }
    }
    read_end(&self);
    return is_read;
}

/* ---- launches ------------------------------------------------------------------------------- */

static void launch_uses(void *user, CUdeviceptr address, int is_certain)
{
    check_use(user, address, is_certain);
}

static void captured_uses(void *user, CUdeviceptr address, int is_certain)
{
    (void)is_certain;
    check_use_captured(address, user);
}

/* The addresses that a launch names, for the journal. */
typedef struct named {
    uint64_t list[JOURNAL_WORDS];
    int count;
} named;

static void word_note(void *user, CUdeviceptr address, int is_certain)
{
    named *self = user;
    (void)is_certain;
    if (self->count < JOURNAL_WORDS)
        self->list[self->count++] = address;
}

void check_launched(const char *call, CUfunction function, CUstream handle, void **parameters,
                    void **extra)
{
    check_work work;
    check_stack stack = check_stack_here();
    check_name name = check_name_of(handle);
    if (name.is_capturing && !check_does(CHECK_RECORDS))
        return;
    check_layout_ask(function);
    if (!check_enter())
        return;
    if (name.is_capturing) {
        check_count_launch(check_words_each(function, parameters, extra, captured_uses, handle));
        check_leave();
        return;
    }
    const check_place *place = check_place_of(call, check_kernel_name(function), &stack);
    if (check_work_begin(&work, &name, place))
        check_count_launch(check_words_each(function, parameters, extra, launch_uses, &work));
    if (journal_is_on()) {
        named words = {.count = 0};
        (void)check_words_each(function, parameters, extra, word_note, &words);
        journal_launched(check_kernel_name(function), handle, words.list, words.count);
    }
    check_leave();
}

/* The events that a launch records as it begins or ends: taken for its end, which orders more. */
void check_launch_attributes(const CUlaunchConfig *config)
{
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *one = &config->attrs[i];
        if (one->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
            check_event_recorded(one->value.programmaticEvent.event, config->hStream);
        else if (one->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
            check_event_recorded(one->value.launchCompletionEvent.event, config->hStream);
    }
}
