/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is kept of code objects (tools/python/frames/codes.c), with a stand-in for the interpreter:
 * as it is from 3.12 on, or, with BEFORE_WATCHERS, before.
 *
 * Broken to see it fail: code_event forgets nothing, or all but the first instruction, or leaves
 * the number as it is; is_watched is 1 without the trial; the slot is not given back after it; the
 * first word is taken of two that are alike.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "codes.h"

/* ---- an interpreter ------------------------------------------------------------------------- */

typedef int (*watcher)(int, void *);
typedef void (*destructor)(void *);

#define FOUND __attribute__((visibility("default")))
FOUND int PyCode_AddWatcher(watcher function);
FOUND void *PyType_GetSlot(void *type, int slot);
FOUND void PyErr_Clear(void);
FOUND void *Py_CompileString(const char *text, const char *file, int start);
FOUND void Py_DecRef(void *object);

static struct {
    watcher told;
    int destroyed; /* what it calls the end of a code object */
    int refuses, has_compiled, errors, ends;
    void *type[48]; /* of code objects; what ends them is in the seventh word */
} interpreter;

static char objects[64]; /* whose addresses are those of code objects */

static void object_dealloc(void *object)
{
    (void)object;
    interpreter.ends++;
}

static void *dealloc_word(void)
{
    destructor function = object_dealloc;
    void *word;
    memcpy(&word, &function, sizeof(word));
    return word;
}

#ifndef BEFORE_WATCHERS
int PyCode_AddWatcher(watcher function)
{
    interpreter.told = function;
    return interpreter.refuses ? -1 : 0;
}

static void object_ends(void *object)
{
    assert_int_equal(interpreter.told(interpreter.destroyed, object), 0);
}
#else
void *PyType_GetSlot(void *type, int slot)
{
    assert_ptr_equal(type, interpreter.type);
    assert_int_equal(slot, 52);
    return interpreter.refuses ? NULL : dealloc_word();
}

static void object_ends(void *object)
{
    destructor function;
    memcpy(&function, &interpreter.type[6], sizeof(function));
    (interpreter.destroyed == 1 ? function : object_dealloc)(object);
}
#endif

void PyErr_Clear(void)
{
    interpreter.errors++;
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
    object_ends(object);
}

static int type_make(void **state)
{
    (void)state;
    interpreter.type[6] = dealloc_word();
    return 0;
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
    python_codes_watch(interpreter.type);
    assert_false(interpreter.has_compiled);
    assert_int_equal(python_codes_number(), 0);
    keep(&objects[0], 1, "a");
    assert_false(is_kept(&objects[0], 1, "a"));
}

/* Another version may number its events otherwise. */
static void nothing_if_events_mean_something_else(void **state)
{
    (void)state;
    interpreter.refuses = 0;
    interpreter.destroyed = 2;
    python_codes_watch(interpreter.type);
    assert_true(interpreter.has_compiled);
    keep(&objects[0], 1, "a");
    assert_false(is_kept(&objects[0], 1, "a"));
    assert_int_equal(python_codes_number(), 0);
    assert_ptr_equal(interpreter.type[6], dealloc_word());
}

#ifdef BEFORE_WATCHERS
/* Then nobody knows which of them is the slot. */
static void nothing_if_two_words_are_alike(void **state)
{
    (void)state;
    interpreter.destroyed = 1;
    interpreter.type[20] = interpreter.type[6];
    interpreter.has_compiled = 0;
    python_codes_watch(interpreter.type);
    assert_false(interpreter.has_compiled);
    assert_ptr_equal(interpreter.type[6], interpreter.type[20]);
    interpreter.type[20] = NULL;
}
#endif

/* What has its address next is another code object. */
static void what_ended_is_not_believed(void **state)
{
    (void)state;
    interpreter.destroyed = 1;
    python_codes_watch(interpreter.type);
    for (int i = 0; i < 8; i++)
        for (int instruction = 0; instruction < 3; instruction++)
            keep(&objects[i], instruction, &objects[32 + i]);
    keep(&objects[8], 0, NULL);
    assert_true(is_kept(&objects[8], 0, NULL));
#ifndef BEFORE_WATCHERS
    assert_int_equal(interpreter.told(0, &objects[2]), 0); /* one was made: nothing ends */
#endif
    unsigned number = python_codes_number();
    object_ends(&objects[40]); /* of which nothing is known */
    assert_int_equal(python_codes_number(), number);
    assert_true(is_kept(&objects[2], 0, &objects[34]));
    object_ends(&objects[2]);
    assert_int_not_equal(python_codes_number(), number);
    for (int i = 0; i < 8; i++)
        for (int instruction = 0; instruction < 3; instruction++)
            assert_int_equal(is_kept(&objects[i], instruction, &objects[32 + i]), i != 2);
    keep(&objects[2], 1, "another");
    assert_true(is_kept(&objects[2], 1, "another"));
    assert_false(is_kept(&objects[2], 0, NULL));
    for (int i = 0; i < 9; i++)
        object_ends(&objects[i]);
    assert_false(is_kept(&objects[8], 0, NULL));
#ifdef BEFORE_WATCHERS
    assert_true(interpreter.ends > 10); /* they end nevertheless */
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_without_being_told),
        cmocka_unit_test(nothing_if_events_mean_something_else),
#ifdef BEFORE_WATCHERS
        cmocka_unit_test(nothing_if_two_words_are_alike),
#endif
        cmocka_unit_test(what_ended_is_not_believed),
    };
    return cmocka_run_group_tests_name("codes", tests, type_make, NULL);
}
