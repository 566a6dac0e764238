/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the checker remembers of functions (tools/check/layout.c), by itself: a driver of this
 * file's own tells it, and code is unloaded at any moment of the question, as another thread does.
 * What is remembered of a handle is what the driver says of it now.
 *
 * Seen to fail with these lines changed:
 *   unloaded_while_it_is_asked   layout_keep: kept whatever was unloaded; check_layout_ask: once
 *   asked_while_it_is_unloaded   CHECK_UNLOADS: forgotten before the call alone
 *   handle_used_again            check_code_unloaded: the lists left as they are; CHECK_UNLOADS:
 *                                forgotten after the call alone
 *   kernel_stays_known           check_code_unloaded: kernels cleared, too; check_kernels_end:
 *                                nothing cleared
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "check/check.h"
#include "check/findings.h"
#include "check/launch.h"
#include "check/layout.h"
#include "check/places.h"
#include "check/streams.h"
#include "driver.h"

/* ---- what layout.c asks for ----------------------------------------------------------------- */

_Atomic int check_state = CHECK_REPORTS;
static int depth;

int check_begin(void)
{
    return CHECK_REPORTS;
}

int check_enter(void)
{
    assert_int_equal(depth++, 0);
    return 1;
}

void check_leave(void)
{
    assert_int_equal(--depth, 0);
}

const char *check_text_keep(const char *text)
{
    return text;
}

void check_cannot_read(void)
{
    fail();
}

void check_words_end(check_words *history)
{
    (void)history;
}

/* ---- a driver ------------------------------------------------------------------------------- */

driver_functions driver;
_Atomic int driver_is_found = 1;

int driver_look(void)
{
    return 1;
}

CUresult driver_absent(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

enum { PARAMETERS_MAX = 4 };

/* What is behind the one handle. */
static struct code {
    const char *name;
    size_t count;
} code;
static const int handle;
static int questions; /* for parameters */
static int stop_at;   /* at this one another thread unloads the code; 0: at none */

/* The code goes, and other code gets its handle. */
static CUresult code_replace(const char *name, size_t count)
{
    code = (struct code){name, count};
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI name_get(const char **name, CUfunction function)
{
    assert_int_equal(depth, 0);
    assert_ptr_equal(function, &handle);
    *name = code.name;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI parameter_get(CUfunction function, size_t index, size_t *offset,
                                      size_t *bytes)
{
    assert_int_equal(depth, 0);
    assert_ptr_equal(function, &handle);
    struct code asked = code;
    if (++questions == stop_at)
        CHECK_UNLOADS((void)code_replace("later", 1));
    if (index >= asked.count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = 8 * index;
    *bytes = 8;
    return CUDA_SUCCESS;
}

static int start(void **state)
{
    (void)state;
    driver.fn_cuFuncGetName = name_get;
    driver.fn_cuFuncGetParamInfo = parameter_get;
    code = (struct code){"first", 3};
    questions = stop_at = 0;
    check_code_unloaded();
    return 0;
}

static void assert_known(const char *name, size_t count)
{
    const check_layout *known = check_layout_find(&handle);
    assert_non_null(known);
    assert_true(known->is_known);
    assert_string_equal(known->name, name);
    assert_int_equal(known->count, count);
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void asked_once(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        check_layout_ask(&handle);
    assert_known("first", 3);
    assert_int_equal(questions, 3 + 1);
}

/* At each question there is. */
static void unloaded_while_it_is_asked(void **state)
{
    for (int at = 1; at <= 4; at++) {
        (void)start(state);
        stop_at = at;
        check_layout_ask(&handle);
        assert_known("later", 1);
    }
}

static CUresult unload_while_it_is_asked(void)
{
    check_layout_ask(&handle); /* another thread launches it a last time */
    return code_replace("later", 2);
}

static void asked_while_it_is_unloaded(void **state)
{
    (void)state;
    CHECK_UNLOADS((void)unload_while_it_is_asked());
    assert_null(check_layout_find(&handle));
    check_layout_ask(&handle);
    assert_known("later", 2);
}

/* While the unload is under way the handle is free, and other code gets it. */
static CUresult unload_and_use_again(void)
{
    (void)code_replace("later", 2);
    check_layout_ask(&handle);
    assert_known("later", 2);
    return CUDA_SUCCESS;
}

static void handle_used_again(void **state)
{
    (void)state;
    check_layout_ask(&handle);
    CHECK_UNLOADS((void)unload_and_use_again());
    check_layout_ask(&handle);
    assert_known("later", 2);
    CHECK_UNLOADS((void)code_replace("last", 1));
    check_layout_ask(&handle);
    assert_known("last", 1);
}

static CUresult CUDAAPI kernel_parameter_get(CUkernel kernel, size_t index, size_t *offset,
                                             size_t *bytes)
{
    (void)kernel;
    *offset = *bytes = 8;
    return index < 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult CUDAAPI kernel_name_get(const char **name, CUkernel kernel)
{
    (void)kernel;
    *name = "kernel";
    return CUDA_SUCCESS;
}

/* Another thread gets a kernel while code is unloaded, which also ends with its context: the handle
 * is still a kernel's, until its library goes. */
static void kernel_stays_known(void **state)
{
    (void)state;
    driver.fn_cuKernelGetName = kernel_name_get;
    driver.fn_cuKernelGetParamInfo = kernel_parameter_get;
    CHECK_UNLOADS(check_kernel_known((CUkernel)&handle));
    CHECK_UNLOADS((void)0);
    check_layout_ask(&handle);
    assert_known("kernel", 2);
    assert_int_equal(questions, 0);
    check_kernels_end();
    check_code_unloaded();
    check_layout_ask(&handle);
    assert_known("first", 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(asked_once, start),
        cmocka_unit_test_setup(unloaded_while_it_is_asked, start),
        cmocka_unit_test_setup(asked_while_it_is_unloaded, start),
        cmocka_unit_test_setup(handle_used_again, start),
        cmocka_unit_test_setup(kernel_stays_known, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
