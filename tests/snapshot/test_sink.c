/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a snapshot is written to. Anything may go wrong with a file, and with zlib: each failure
 * leaves nothing behind and the old file as it was. Also the texts and numbers that are written.
 *
 * The C library's functions that fail here are this program's: see the first section.
 *
 * Lines changed in the library to see it fail: file_write without its `continue`, or with no error
 * for a write of nothing; tnri_sink_close without the error of close, or of rename; beside_open
 * with one attempt; bounds in the last two lines of tnri_utf8_length.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "unit/unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/host_memory.h"
#include "see/snapshot/deflater.h"
#include "base/utf8.h"
#include "see/snapshot/sink.h"

/* ---- calls of the library that fail here ---------------------------------------------------- */

/* How calls answer: the next `left` of them with this error, or short (0). */
typedef struct answers {
    int left, error, is_short;
} answers;
static answers to_write, to_close, to_rename;
static int watched = -1;    /* writes and closes to no other file are touched */
static const char *zlib_is; /* in place of libz.so.1; null: itself */

#define ORIGINAL(name) ((__typeof__(&(name)))(uintptr_t)dlsym(RTLD_NEXT, #name))

/* 1 if a call is to be answered so. */
static int is_answered(answers *how)
{
    if (how->left == 0)
        return 0;
    how->left--;
    errno = how->error;
    return 1;
}

ssize_t write(int file, const void *bytes, size_t count)
{
    if (file == watched && is_answered(&to_write)) {
        if (!to_write.is_short)
            return -1;
        count = to_write.error == 0 ? 0 : count / 2 + 1;
    }
    return ORIGINAL(write)(file, bytes, count);
}

int close(int file)
{
    int result = ORIGINAL(close)(file);
    return file == watched && is_answered(&to_close) ? -1 : result;
}

int renameat(int from_folder, const char *from, int folder, const char *to)
{
    return is_answered(&to_rename) ? -1 : ORIGINAL(renameat)(from_folder, from, folder, to);
}

void *dlopen(const char *name, int flags)
{
    int is_zlib = zlib_is != NULL && name != NULL && strcmp(name, "libz.so.1") == 0;
    return ORIGINAL(dlopen)(is_zlib ? zlib_is : name, flags);
}

/* ---- files ---------------------------------------------------------------------------------- */

static const char *folder = ".";
static char path[512];

static size_t parts_count(void)
{
    char pattern[600];
    glob_t found;
    snprintf(pattern, sizeof(pattern), "%s*.part", path);
    size_t count = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return count;
}

/* What the file has; "" if it is not there. */
static const char *file_read(void)
{
    static char text[4096];
    FILE *file = fopen(path, "r");
    size_t bytes = file == NULL ? 0 : fread(text, 1, sizeof(text) - 1, file);
    if (file != NULL)
        fclose(file);
    text[bytes] = '\0';
    return text;
}

static int path_start(void **state)
{
    (void)state;
    memset(&to_write, 0, sizeof(to_write));
    memset(&to_close, 0, sizeof(to_close));
    memset(&to_rename, 0, sizeof(to_rename));
    watched = -1;
    zlib_is = NULL;
    snprintf(path, sizeof(path), "%s/file.json", folder);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return -1;
    fputs("as it was", file);
    fclose(file);
    return 0;
}

/* Writes "0 1 2 ..." and closes. */
static tnr_status numbers_write(void)
{
    tnri_sink sink;
    tnr_status status = tnri_sink_open(&sink, path, 0);
    if (status != TNR_OK)
        return status;
    watched = sink.file;
    for (int i = 0; i < 200; i++)
        tnri_sink_format(&sink, "%d ", i);
    return tnri_sink_close(&sink, 0);
}

static void check_numbers(void)
{
    const char *at = file_read();
    for (int i = 0; i < 200; i++) {
        char *end;
        assert_int_equal(strtol(at, &end, 10), i);
        at = end;
    }
    assert_string_equal(at, " ");
    assert_int_equal(parts_count(), 0);
}

static void check_as_it_was(void)
{
    assert_string_equal(file_read(), "as it was");
    assert_int_equal(parts_count(), 0);
}

static void short_writes_go_on(void **state)
{
    (void)state;
    to_write = (answers){.left = 6, .error = 1, .is_short = 1};
    assert_ok(numbers_write());
    assert_int_equal(to_write.left, 0);
    check_numbers();
    to_write = (answers){.left = 3, .error = EINTR};
    assert_ok(numbers_write());
    check_numbers();
}

static void a_disk_that_takes_nothing(void **state)
{
    (void)state;
    to_write = (answers){.left = 1, .error = ENOSPC};
    assert_error(numbers_write(), TNR_ERR_FILE, "No space left on device");
    check_as_it_was();
    to_write = (answers){.left = 1, .error = 0, .is_short = 1}; /* 0 bytes, and no error */
    assert_error(numbers_write(), TNR_ERR_FILE, "No space left on device");
    check_as_it_was();
}

/* Errors that come with the last call. */
static void late_errors(void **state)
{
    (void)state;
    to_close = (answers){.left = 1, .error = EIO};
    assert_error(numbers_write(), TNR_ERR_FILE, "Input/output error");
    check_as_it_was();
    to_rename = (answers){.left = 1, .error = EROFS};
    assert_error(numbers_write(), TNR_ERR_FILE, "Read-only file system");
    check_as_it_was();
    /* The first of two errors is told, and an interrupted close has closed. */
    to_write = (answers){.left = 1, .error = EIO};
    to_close = (answers){.left = 1, .error = EDQUOT};
    assert_error(numbers_write(), TNR_ERR_FILE, "Input/output error");
    check_as_it_was();
    to_close = (answers){.left = 1, .error = EINTR};
    assert_ok(numbers_write());
    check_numbers();
}

/* What lies where it would be written first is left alone, and another name taken. */
static void names_that_are_taken(void **state)
{
    (void)state;
    char taken[16][600];
    tnri_sink sink;
    assert_ok(tnri_sink_open(&sink, path, 0));
    unsigned last = 0;
    const char *number = strrchr(sink.beside, '-');
    assert_int_equal(sscanf(number, "-%u.part", &last), 1);
    assert_ok(tnri_sink_close(&sink, 1));
    for (unsigned i = 0; i < 16; i++) {
        snprintf(taken[i], sizeof(taken[i]), "%s.%ld-%u.part", path, (long)getpid(), last + 1 + i);
        FILE *file = fopen(taken[i], "w");
        assert_non_null(file);
        fclose(file);
    }
    assert_error(tnri_sink_open(&sink, path, 0), TNR_ERR_FILE, "File exists");
    for (unsigned i = 0; i < 16; i++) /* the next sixteen, but for the last */
        assert_int_equal(unlink(taken[i]), 0);
    for (unsigned i = 0; i < 15; i++) {
        snprintf(taken[i], sizeof(taken[i]), "%s.%ld-%u.part", path, (long)getpid(), last + 17 + i);
        FILE *file = fopen(taken[i], "w");
        assert_non_null(file);
        fclose(file);
    }
    assert_ok(numbers_write());
    for (unsigned i = 0; i < 15; i++)
        assert_int_equal(unlink(taken[i]), 0);
    check_numbers();
}

/* A name that only just fits has no room for what is written meanwhile. */
static void long_names(void **state)
{
    (void)state;
    static char deep[4200];
    tnri_sink sink;
    size_t length = 0;
    while (length < 4090)
        length += (size_t)snprintf(deep + length, sizeof(deep) - length, "./");
    snprintf(deep + length, sizeof(deep) - length, "x.js");
    assert_int_equal(strlen(deep), 4094);
    assert_error(tnri_sink_open(&sink, deep, 0), TNR_ERR_FILE, "File name too long");
}

/* ---- zlib ----------------------------------------------------------------------------------- */

static const char *zlibs[5]; /* that lack something, by how much they have */

static void zlibs_that_will_not_do(void **state)
{
    (void)state;
    tnri_deflater *deflater = NULL;
    zlib_is = "libnowhere.so.1";
    assert_error(tnri_deflater_make(&deflater), TNR_ERR_FILE, "libz.so.1");
    for (int i = 0; i < 3; i++) {
        zlib_is = zlibs[i];
        assert_error(tnri_deflater_make(&deflater), TNR_ERR_FILE, "Install it, or write without");
    }
    zlib_is = zlibs[3]; /* whose begin fails, and whose end must not be called then */
    assert_error(tnri_deflater_make(&deflater), TNR_ERR_HOST_MEMORY, "to compress");
    assert_null(deflater);
    tnri_host_fail_at(1, 0);
    assert_error(tnri_deflater_make(&deflater), TNR_ERR_HOST_MEMORY, "to compress");
    tnri_host_fail_at(0, 0);
    tnri_sink sink;
    assert_error(tnri_sink_open(&sink, path, 1), TNR_ERR_HOST_MEMORY, "to compress");
    check_as_it_was();
    zlib_is = NULL;
    assert_ok(tnri_deflater_make(&deflater));
    tnri_deflater_free(deflater);
}

/* ---- texts ---------------------------------------------------------------------------------- */

/* What the Unicode standard says of a sequence of bytes, by its number. */
static size_t length_expected(const unsigned char *bytes)
{
    static const unsigned first_of[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t count = bytes[0] < 0x80             ? 1
                   : (bytes[0] & 0xe0) == 0xc0 ? 2
                   : (bytes[0] & 0xf0) == 0xe0 ? 3
                   : (bytes[0] & 0xf8) == 0xf0 ? 4
                                               : 0;
    unsigned number = count == 1 ? bytes[0] : bytes[0] & (0x7fu >> count);
    for (size_t i = 1; i < count; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
        number = number << 6 | (bytes[i] & 0x3fu);
    }
    if (count == 0 || number < first_of[count] || number > 0x10ffff ||
        (number >= 0xd800 && number < 0xe000))
        return 0;
    return count;
}

static void all_characters(void **state)
{
    (void)state;
    static const unsigned char ends[] = {0, 'a', 0x7f, 0x80, 0xbf, 0xc0, 0xff};
    for (unsigned first = 0; first < 256; first++)
        for (unsigned second = 0; second < 256; second++)
            for (size_t third = 0; third < sizeof(ends); third++)
                for (size_t fourth = 0; fourth < sizeof(ends); fourth++) {
                    const unsigned char bytes[] = {(unsigned char)first, (unsigned char)second,
                                                   ends[third], ends[fourth]};
                    size_t expected = length_expected(bytes);
                    for (size_t length = 0; length <= 4; length++)
                        if (tnri_utf8_length((const char *)bytes, length) !=
                            (expected <= length ? expected : 0))
                            fail_msg("%02x %02x %02x %02x, %zu of them", first, second, bytes[2],
                                     bytes[3], length);
                }
}

static void all_numbers(void **state)
{
    (void)state;
    unsigned char text[TNRI_NUMBER_BYTES + 1];
    for (int power = 0; power < 64; power++)
        for (int add = -2; add <= 2; add++)
            for (int is_negative = 0; is_negative < 2; is_negative++) {
                char expected[32];
                uint64_t bits = ((uint64_t)1 << power) + (uint64_t)(int64_t)add;
                int64_t number = (int64_t)(is_negative ? 0 - bits : bits);
                unsigned char *end = tnri_number_put(text, number);
                *end = '\0';
                snprintf(expected, sizeof(expected), "%lld", (long long)number);
                assert_string_equal((const char *)text, expected);
            }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(short_writes_go_on, path_start),
        cmocka_unit_test_setup(a_disk_that_takes_nothing, path_start),
        cmocka_unit_test_setup(late_errors, path_start),
        cmocka_unit_test_setup(names_that_are_taken, path_start),
        cmocka_unit_test_setup(long_names, path_start),
        cmocka_unit_test_setup(zlibs_that_will_not_do, path_start),
        cmocka_unit_test(all_characters),
        cmocka_unit_test(all_numbers),
    };
    if (argc < 6)
        return 2;
    folder = argv[1];
    for (int i = 0; i < 4; i++)
        zlibs[i] = argv[2 + i];
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
