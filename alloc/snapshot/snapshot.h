/* SPDX-License-Identifier: Apache-2.0 */
/* Taking a snapshot for whatever reason. */
#ifndef TNRI_SNAPSHOT_SNAPSHOT_H
#define TNRI_SNAPSHOT_SNAPSHOT_H

#include <tenure/history.h>

#include "snapshot/picture.h"

/* As tnr_snapshot_write, and says why. Not while the library is not running. */
tnr_status tnri_snapshot_take(const char *path, tnr_snapshot_format format, tnri_reason reason);

#endif
