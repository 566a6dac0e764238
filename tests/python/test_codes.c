/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is kept of code objects (tools/python/frames/codes.c), with a stand-in for the interpreter:
 * the one that runs the other tests may be older than 3.12, and then nothing is kept at all.
 *
 * Broken to see it fail: code_event forgets nothing, or all but the first instruction; is_watched
 * is 1 without the trial.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codes.h"

/* ---- an interpreter ------------------------------------------------------------------------- */

typedef int (*watcher)(int, void *);

#define FOUND __attribute__((visibility("default")))
FOUND int PyCode_AddWatcher(watcher function);
FOUND void *Py_CompileString(const char *text, const char *file, int start);
FOUND void Py_DecRef(void *object);

static struct {
    watcher told;
    int destroyed; /* what it calls the end of a code object */
    int refuses, has_compiled;
} interpreter;

static char objects[64]; /* whose addresses are those of code objects */

int PyCode_AddWatcher(watcher function)
{
    interpreter.told = function;
    return interpreter.refuses ? -1 : 0;
}

void *Py_CompileString(const char *text, const char *file, int start)
{
    assert_string_equal(text, "0");
    assert_non_null(file);
    assert_int_equal(start, 258);
    interpreter.has_compiled = 1;
    return &objects[63];
}

void Py_DecRef(void *object)
{
    assert_ptr_equal(object, &objects[63]);
    assert_int_equal(interpreter.told(interpreter.destroyed, object), 0);
}

/* ---- what is kept --------------------------------------------------------------------------- */

static void keep(const void *code, int instruction, const void *found)
{
    python_codes_enter();
    python_codes_keep(code, instruction, found);
    python_codes_leave();
}

/* 1 if something is believed of the instruction, and then it must be `found`. */
static int is_kept(const void *code, int instruction, const void *found)
{
    const void *got = NULL;
    python_codes_enter();
    int is_known = python_codes_get(&got, code, instruction);
    python_codes_leave();
    if (is_known)
        assert_ptr_equal(got, found);
    return is_known;
}

static void nothing_without_being_told(void **state)
{
    (void)state;
    keep(&objects[0], 1, "a");
    assert_false(is_kept(&objects[0], 1, "a"));
    interpreter.refuses = 1;
    python_codes_watch();
    assert_non_null(interpreter.told);
    assert_false(interpreter.has_compiled);
    keep(&objects[0], 1, "a");
    assert_false(is_kept(&objects[0], 1, "a"));
}

/* Another version may number its events otherwise. */
static void nothing_if_events_mean_something_else(void **state)
{
    (void)state;
    interpreter.refuses = 0;
    interpreter.destroyed = 2;
    python_codes_watch();
    assert_true(interpreter.has_compiled);
    keep(&objects[0], 1, "a");
    assert_false(is_kept(&objects[0], 1, "a"));
}

/* What has its address next is another code object. */
static void what_ended_is_not_believed(void **state)
{
    (void)state;
    interpreter.destroyed = 1;
    python_codes_watch();
    for (int i = 0; i < 8; i++)
        for (int instruction = 0; instruction < 3; instruction++)
            keep(&objects[i], instruction, &objects[32 + i]);
    keep(&objects[8], 0, NULL);
    assert_true(is_kept(&objects[8], 0, NULL));
    assert_int_equal(interpreter.told(0, &objects[2]), 0); /* one was made: nothing ends */
    assert_true(is_kept(&objects[2], 0, &objects[34]));
    assert_int_equal(interpreter.told(1, &objects[2]), 0);
    for (int i = 0; i < 8; i++)
        for (int instruction = 0; instruction < 3; instruction++)
            assert_int_equal(is_kept(&objects[i], instruction, &objects[32 + i]), i != 2);
    keep(&objects[2], 1, "another");
    assert_true(is_kept(&objects[2], 1, "another"));
    assert_false(is_kept(&objects[2], 0, NULL));
    for (int i = 0; i < 9; i++)
        assert_int_equal(interpreter.told(1, &objects[i]), 0);
    assert_false(is_kept(&objects[8], 0, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_without_being_told),
        cmocka_unit_test(nothing_if_events_mean_something_else),
        cmocka_unit_test(what_ended_is_not_believed),
    };
    return cmocka_run_group_tests_name("codes", tests, NULL, NULL);
}
