/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of other processes. cuIpcGetMemHandle cannot name memory that was mapped by hand. So
 * Tenure makes handles of its own: they hold a name of <tenure/export.h>, by which the other
 * process asks this one for the block.
 *
 * The driver's promises hold: opened memory stays as long as it is open; the same handle opened
 * twice gives one address and must be closed twice; a process does not open its own handles. Both
 * processes must run under Tenure, as the same user, in the same network namespace; the exporting
 * one must live until the handle is opened. When a primary context ends, its device ends in Tenure,
 * and all that was exported and imported there ends with it.
 */
#ifndef TENURE_PRELOAD_IPC_H
#define TENURE_PRELOAD_IPC_H

#include <stddef.h>

#include "entries.h"

/* The opened block that an address is in. 1 if there is one. */
int ipc_imported(CUdeviceptr address, CUdeviceptr *base, size_t *bytes);

#endif
