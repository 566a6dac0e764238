/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests share that export and import in one process: a pair of sockets, and what is sent
 * from one to the other.
 */
#ifndef TENURE_TEST_EXPORT_HERE_H
#define TENURE_TEST_EXPORT_HERE_H

#include "calls.h"

#include <tenure/tenure.h>

enum { EXPORTER, IMPORTER, SIDES };

extern int sockets[SIDES];

void start(const char *conf, const char *setting);
int stop(void **state);

/* An export of the block, sent and received. */
tnr_import_info pass_on(tnr_export exported);

tnr_export export_of(const void *ptr);
tnr_export_info info_of(tnr_export exported);

#endif
