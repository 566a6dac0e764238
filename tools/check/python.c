/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that are Python: see python.h. */
#include "check/python.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "check/check.h"
#include "check/places.h"
#include "driver.h"

static _Atomic int is_module_there, is_put_under, is_ending;
static _Atomic(tnr_frames_take) frames_take;
static _Atomic(tnr_frames_describe) frames_describe;

__attribute__((visibility("default"))) void tenure_preload_python(void)
{
    atomic_store(&is_module_there, 1);
}

__attribute__((visibility("default"))) void tenure_preload_under(void)
{
    atomic_store(&is_put_under, 1);
}

int check_is_put_under(void)
{
    return atomic_load_explicit(&is_put_under, memory_order_relaxed);
}

__attribute__((visibility("default"))) void tenure_preload_ending(void)
{
    atomic_store(&is_ending, 1);
}

int check_python_ends(void)
{
    return atomic_load_explicit(&is_ending, memory_order_relaxed);
}

/* A function of the interpreter's. Null: none is in the process. */
static void *interpreter_symbol(void)
{
    return dlsym_of_libc()(RTLD_DEFAULT, "Py_IsInitialized");
}

void check_python_missing(void)
{
    static _Atomic int is_asked;
    static const char said[] =
        "tenure: check: Python's options -I, -E and -S keep Tenure's module out: of "
        "the memory of PyTorch and CuPy only segments are checked, and stacks have no lines of "
        "Python\n";
    int (*is_initialized)(void);
    if (!check_does(CHECK_REPORTS) || atomic_load_explicit(&is_asked, memory_order_relaxed) ||
        atomic_exchange(&is_asked, 1) || atomic_load(&is_module_there))
        return;
    void *symbol = interpreter_symbol();
    memcpy(&is_initialized, &symbol, sizeof(symbol));
    if (symbol == NULL || !is_initialized())
        return;
    ssize_t written = write(STDERR_FILENO, said, sizeof(said) - 1);
    (void)written;
}

void check_frames_from(tnr_frames_take take, tnr_frames_describe describe)
{
    const void *symbol = interpreter_symbol();
    if (symbol != NULL)
        check_stack_interpreter(symbol);
    if (describe != NULL)
        atomic_store(&frames_describe, describe);
    atomic_store_explicit(&frames_take, take, memory_order_release);
}

size_t check_frames_take(uintptr_t *frames, size_t room)
{
    tnr_frames_take take = atomic_load_explicit(&frames_take, memory_order_acquire);
    return take == NULL ? 0 : take(frames, room);
}

int check_frame_describe(tnr_frame_info *info, const void *frame)
{
    if (!check_frame_is_described(frame))
        return 0;
    tnr_frames_describe describe = atomic_load(&frames_describe);
    describe(info, (uintptr_t)frame);
    return 1;
}
