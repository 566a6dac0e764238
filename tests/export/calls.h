/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of exports share: the system's calls that the library makes for them, which can be
 * made to fail, or to be the process's last, at their nth use; and a look at descriptors.
 */
#ifndef TENURE_TESTS_EXPORT_CALLS_H
#define TENURE_TESTS_EXPORT_CALLS_H

#include "unit/unit.h"

/* The nth call from now on (1: the next) fails with the error; 0: kills the process there. Null for
 * `nth` switches it off. */
void calls_fail_at(unsigned nth, int error);
void calls_kill_at(unsigned nth);
/* From now on a message is with its receiver so long before sendmsg returns; 0: as it comes. */
void calls_send_slowly(unsigned ms);
/* How many there were since. */
unsigned calls_count(void);

/* Open descriptors of this process, but for the one that looks. */
unsigned descriptors_count(void);

/* A word at the start of a block of device 0, written and read through the driver. */
void mark(const void *ptr, unsigned value);
unsigned marked(const void *ptr);
/* Queues work that writes all of it. */
void work_on(void *ptr, size_t bytes, tnr_stream stream);

#endif
