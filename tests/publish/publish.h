/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of published blocks share: a library with a folder of names of its own, and
 * workers (export/worker.h) that publish, hold and attach under the name "w". */
#ifndef TENURE_TESTS_PUBLISH_H
#define TENURE_TESTS_PUBLISH_H

#include "export/calls.h"

#include <tenure/tenure.h>

#include "export/worker.h"

/* Under ThreadSanitizer the simulated device has other addresses in each process. */
#if defined(__SANITIZE_THREAD__)
enum { SAME = 0 };
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
enum { SAME = 0 };
#else
enum { SAME = 1 };
#endif
#else
enum { SAME = 1 };
#endif

extern char folder[64]; /* of the names */

/* Starts the library with a folder of names that is new. */
void start(const char *conf, const char *memory);
/* For cmocka_unit_test_teardown. */
int stop(void **state);
#define CASE(test) cmocka_unit_test_teardown(test, stop)

/* Has a worker do something under a name. 0: it has ended. */
int there(const worker *who, uint64_t what, uint64_t value, const char *name, answer *said);
/* The same for what must succeed, under "w". Returns the answer's value. */
uint64_t must(const worker *who, uint64_t what, uint64_t value);
/* The same for what may fail. */
tnr_status tried(const worker *who, uint64_t what, uint64_t value);

/* Attaches here. */
tnr_status attach(tnr_import_info *info, int same_address);
/* A pool whose memory others may have. */
tnr_pool shared_pool(void);
/* Publishes a new block of the pool, which is freed at once. */
tnr_status publish(tnr_pool pool, size_t bytes, unsigned word, const tnr_publish_options *options);

/* Nothing of the device is needed any more, once the system has taken who died apart. */
void all_is_free_at_last(void);

#endif
