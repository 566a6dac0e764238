/* SPDX-License-Identifier: Apache-2.0 */
/* Taking a snapshot for whatever reason; walking over one. */
#ifndef TNRI_SNAPSHOT_SNAPSHOT_H
#define TNRI_SNAPSHOT_SNAPSHOT_H

#include <tenure/history.h>

#include "see/snapshot/picture.h"

/* As tnr_snapshot_write; `reason` says why. The library must be running. */
tnr_status tnri_snapshot_take(const char *path, tnr_snapshot_format format, tnri_reason reason);

/* Writes a snapshot to one path and a report on the failed allocation to another. */
tnr_status tnri_snapshot_take_oom(const char *path, const char *report_path, const char *sentence,
                                  int device, size_t bytes);

/* As tnr_memory_walk, once its arguments are known to be good. */
tnr_status tnri_memory_walk(tnr_pool handle, int device, tnr_walk_visit visit, void *user);

#endif
