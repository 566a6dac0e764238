/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the unit tests share: a fresh library on a fresh simulated device for each test, and checks
 * that print the library's own sentence when a call does not do what it should.
 *
 * unit_start ... unit_stop bracket a test. unit_stop ends the library by force and then fails the
 * test if the simulated device still holds anything of it, or saw a use of the driver that was
 * wrong: no test can leak in silence.
 */
#ifndef TENURE_TESTS_UNIT_H
#define TENURE_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <tenure/alloc.h>
#include <tenure/simcuda.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* Ends the library if it runs, resets the simulated device, sets TENURE_SIM_<name> from
 * "NAME=value" strings up to a null, clears the others, and sets TENURE_CONF. Nothing is started.
 * A short address range is the default, for Valgrind; `conf` may be null and may raise it. */
void unit_settings(const char *conf, const char *first, ...);

/* The same, then tnr_init. */
void unit_start(const char *conf, const char *first, ...);

/* For cmocka_unit_test_teardown. */
int unit_stop(void **state);

/* A stream of a device's primary context. The fixture owns it. */
tnr_stream unit_stream(int device);

/* A call that must succeed, or fail in exactly this way with `text` in its sentence. */
void unit_expect(tnr_status got, tnr_status expected, const char *text, const char *call,
                 const char *file, int line);
#define assert_ok(call) unit_expect((call), TNR_OK, NULL, #call, __FILE__, __LINE__)
#define assert_error(call, status, text)                                                           \
    unit_expect((call), (status), (text), #call, __FILE__, __LINE__)

void *unit_malloc(size_t bytes, tnr_stream stream);

/* The statistics of device 0, after tnr_validate and with the equation of guarantee 2 checked. */
tnr_stats unit_stats(void);

/* Runs body(data) in a child. Returns its exit status, or minus the signal that ended it. Its
 * standard error is thrown away if `quiet`. */
int unit_in_child(void (*body)(void *data), void *data, int quiet);

/* 1 if the kernel says at once which threads are gone. 0 under an emulator or a filter of system
 * calls: the library then learns of it late, and what counts on that is to be skipped. */
int unit_knows_the_gone(void);

/* A generator with a state of one word: the same numbers on every machine. */
uint64_t unit_random(uint64_t *state);
/* A number below `bound`. */
uint64_t unit_below(uint64_t *state, uint64_t bound);

#endif
