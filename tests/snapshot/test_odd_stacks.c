/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of which the C library says little, or something odd: no frames, addresses in no file,
 * files without names. What is known is shown, and nothing else; the program goes on.
 *
 * backtrace() and dladdr() are this program's: see the first section.
 *
 * Lines changed in the library to see it fail: frame_is_own without its last condition
 * (of_the_library_alone); frame_look_up with the path of a module that is not there
 * (what_nobody_knows); memo_set that does not note what it has put (many_in_a_pickle).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "unit/unit.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <tenure/history.h>

#include "log/stacks.h"
#include "see/snapshot/symbols.h"

/* ---- what the C library says ---------------------------------------------------------------- */

static const uintptr_t *told; /* frames in place of the real ones */
static int told_count;        /* -1: the real ones */
static int knows_nothing, knows_no_names, knows_no_files;

#define ORIGINAL(name) ((__typeof__(&(name)))(uintptr_t)dlsym(RTLD_NEXT, #name))

int backtrace(void **frames, int room)
{
    if (told_count < 0)
        return ORIGINAL(backtrace)(frames, room);
    int count = 0;
    for (; count < told_count && count < room; count++)
        memcpy(&frames[count], &told[count], sizeof(frames[0]));
    return count;
}

int dladdr(const void *address, Dl_info *info)
{
    if (knows_nothing || ORIGINAL(dladdr)(address, info) == 0)
        return 0;
    if (knows_no_names)
        info->dli_sname = NULL;
    if (knows_no_files) {
        info->dli_fname = NULL;
        info->dli_fbase = NULL;
    }
    return 1;
}

static int start(void **state)
{
    (void)state;
    unit_start("history:full", "MEMORY=256M", NULL);
    return 0;
}

static int stop(void **state)
{
    told_count = -1;
    knows_nothing = knows_no_names = knows_no_files = 0;
    return unit_stop(state);
}

/* The number of a stack of these frames, after that of who takes it. */
#define TAKE(...) take((const uintptr_t[]){1, __VA_ARGS__}, sizeof((uintptr_t[]){1, __VA_ARGS__}))

static uint32_t take(const uintptr_t *frames, size_t bytes)
{
    told = frames;
    told_count = (int)(bytes / sizeof(frames[0]));
    uint32_t number = tnri_stack_take();
    told_count = -1;
    return number;
}

static const tnri_frame *frame_of(const tnri_symbols *symbols, uintptr_t address)
{
    return &symbols->frames[tnri_symbols_find(symbols, address)];
}

#define OWN ((uintptr_t)tnri_symbols_make + 4)
#define OWN_TOO ((uintptr_t)tnri_stack_take + 4)
#define OF_LIBC ((uintptr_t)ORIGINAL(gnu_get_libc_version) + 4) /* no sanitizer has its own */
#define NOWHERE ((uintptr_t)0x1000)

/* --------------------------------------------------------------------------------------------- */

static void no_frames(void **state)
{
    (void)state;
    static const uintptr_t one[] = {0x1000};
    uint32_t before = tnri_stacks_count();
    assert_int_equal(take(one, 0), 0);
    assert_int_equal(take(one, sizeof(one)), 0); /* its own alone */
    assert_int_equal(tnri_stacks_count(), before);
    size_t count = 7;
    assert_null(tnri_stack_get(0, &count));
    assert_int_equal(count, 0);
    assert_null(tnri_stack_get(before + 1, &count));
    tnri_symbols symbols;
    assert_true(tnri_symbols_make(&symbols));
    assert_null(tnri_symbols_stack(&symbols, 0, &count));
    assert_null(tnri_symbols_stack(&symbols, (size_t)before + 1, &count));
    assert_int_equal(count, 0);
    tnri_symbols_free(&symbols);
}

static void what_nobody_knows(void **state)
{
    (void)state;
    uintptr_t vdso = getauxval(AT_SYSINFO_EHDR);
    uint32_t number = TAKE(NOWHERE, OF_LIBC, vdso == 0 ? NOWHERE : vdso + 64);
    tnri_symbols symbols;
    assert_true(number > 0);
    assert_true(tnri_symbols_make(&symbols));
    size_t count;
    const uintptr_t *frames = tnri_symbols_stack(&symbols, number, &count);
    assert_int_equal(count, 3);
    assert_int_equal(frames[0], NOWHERE);
    assert_string_equal(frame_of(&symbols, NOWHERE)->function, "");
    assert_string_equal(frame_of(&symbols, NOWHERE)->module, "");
    assert_non_null(strstr(frame_of(&symbols, OF_LIBC)->function, "gnu_get_libc_version"));
    assert_non_null(strstr(frame_of(&symbols, OF_LIBC)->module, "libc"));
    tnri_symbols_free(&symbols);
    knows_no_files = 1;
    assert_true(tnri_symbols_make(&symbols));
    assert_non_null(strstr(frame_of(&symbols, OF_LIBC)->function, "gnu_get_libc_version"));
    assert_string_equal(frame_of(&symbols, OF_LIBC)->module, "");
    assert_int_equal(frame_of(&symbols, OF_LIBC)->module_number, 0);
    tnri_symbols_free(&symbols);
    knows_nothing = 1;
    assert_true(tnri_symbols_make(&symbols));
    assert_string_equal(frame_of(&symbols, OF_LIBC)->function, "");
    (void)tnri_symbols_stack(&symbols, number, &count);
    assert_int_equal(count, 3);
    tnri_symbols_free(&symbols);
}

/* The library's own frames are left out, by name or by file; one always stays. */
static void of_the_library_alone(void **state)
{
    (void)state;
    uint32_t both = TAKE(OWN, OWN_TOO, OF_LIBC), own = TAKE(OWN_TOO, OWN);
    uint32_t nowhere = TAKE(OWN, NOWHERE, OF_LIBC), others = TAKE(OWN, OF_LIBC, OF_LIBC + 1);
    for (knows_no_names = 0; knows_no_names < 2; knows_no_names++) {
        tnri_symbols symbols;
        size_t count;
        assert_true(tnri_symbols_make(&symbols));
        assert_int_equal(tnri_symbols_stack(&symbols, both, &count)[0], OF_LIBC);
        assert_int_equal(count, 1);
        assert_int_equal(tnri_symbols_stack(&symbols, own, &count)[0], OWN);
        assert_int_equal(count, 1);
        assert_int_equal(tnri_symbols_stack(&symbols, nowhere, &count)[0], NOWHERE);
        assert_int_equal(count, 2);
        assert_int_equal(tnri_symbols_stack(&symbols, others, &count)[0], OF_LIBC);
        assert_int_equal(count, 2);
        tnri_symbols_free(&symbols);
    }
}

/* ---- files ---------------------------------------------------------------------------------- */

enum { BLOCKS = 300, DEPTH = 20 };

/* What the file has, as a text; zeroes in it are spaces. */
static char *file_read(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(*bytes + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, *bytes, file), *bytes);
    fclose(file);
    unlink(path);
    for (size_t i = 0; i < *bytes; i++)
        text[i] = text[i] == '\0' ? ' ' : text[i];
    text[*bytes] = '\0';
    return text;
}

static size_t times(const char *text, const char *wanted)
{
    size_t count = 0;
    for (; (text = strstr(text, wanted)) != NULL; text++)
        count++;
    return count;
}

/* More frames and stacks than fit into one byte of a number: each is in the file once. */
static void many_in_a_pickle(void **state)
{
    (void)state;
    static uintptr_t frames[BLOCKS][DEPTH];
    char path[64];
    size_t bytes;
    for (size_t b = 0; b < BLOCKS; b++)
        for (size_t i = 0; i < DEPTH; i++)
            frames[b][i] = NOWHERE + (b / 2 + i) * 16 + (i == DEPTH - 1 ? b % 2 * 0x100000 : 0);
    for (size_t b = 0; b < BLOCKS; b++) {
        told = frames[b];
        told_count = DEPTH;
        (void)unit_malloc(512, NULL);
        told_count = -1;
    }
    snprintf(path, sizeof(path), "odd-stacks-%ld.pickle", (long)getpid());
    assert_ok(tnr_snapshot_write(path, TNR_SNAPSHOT_AUTO));
    char *text = file_read(path, &bytes);
    static const uintptr_t shown[] = {NOWHERE + 16, NOWHERE + 1600, NOWHERE + 100 * 16 + 304};
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        char name[32];
        tnri_symbols symbols;
        assert_true(tnri_symbols_make(&symbols));
        snprintf(name, sizeof(name), "0x%llx",
                 (unsigned long long)frame_of(&symbols, shown[i])->offset);
        tnri_symbols_free(&symbols);
        assert_true(times(text, name) >= 1);
    }
    /* 300 stacks of 20 frames each: written anew each time they would be a megabyte. */
    assert_true(bytes < 200000);
    free(text);
}

/* A name shorter than the endings that tell formats apart. */
static void short_names(void **state)
{
    (void)state;
    size_t bytes;
    assert_ok(tnr_snapshot_write("q", TNR_SNAPSHOT_AUTO));
    char *text = file_read("q", &bytes);
    assert_int_equal(text[0], '{');
    free(text);
}

int main(void)
{
    told_count = -1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_frames, start, stop),
        cmocka_unit_test_setup_teardown(what_nobody_knows, start, stop),
        cmocka_unit_test_setup_teardown(of_the_library_alone, start, stop),
        cmocka_unit_test_setup_teardown(many_in_a_pickle, start, stop),
        cmocka_unit_test_setup_teardown(short_names, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
