/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes which statuses the public functions return in a test program. In the debug build
 * tenure_test() links each program so that its calls of public functions, and those between objects
 * of the library, come here first (--wrap; `manual.py wrap` makes the functions from the headers).
 *
 * A status that the function's manual does not name ends the program: the header or the code is
 * wrong. All others are noted once, a line "FUNCTION STATUS" in the file that the environment
 * variable TENURE_STATUSES names; `manual.py seen` compares. TENURE_STATUSES_ALL=1 notes those
 * without a name too, and goes on.
 *
 * It was seen to fail with TNR_ERR_ASLEEP taken out of the manual of tnr_malloc (sleep_pools).
 */
#ifndef TENURE_TESTS_STATUSES_NOTE_H
#define TENURE_TESTS_STATUSES_NOTE_H

#include <stdatomic.h>
#include <stdint.h>

#include <tenure/alloc.h>

/* Returns `status`. Bit i of `named`: the manual of the function names status i. `seen` is the
 * function's own, of the same form. Any thread. */
tnr_status statuses_note(const char *function, uint64_t named, _Atomic uint64_t *seen,
                         tnr_status status);

#endif
