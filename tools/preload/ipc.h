/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of other processes. cuIpcGetMemHandle cannot speak of memory that was mapped by hand, so
 * handles of ours are our own: they hold a name of <tenure/export.h>, by which the other process
 * asks this one for the block.
 *
 * What the driver promises holds: memory that was opened stays as long as it is open, the same
 * handle opened twice is one address and is closed twice, a process does not open its own. Both
 * processes must run under Tenure, as the same user, in the same network namespace; the exporting
 * one must live until the handle is opened. A primary context that ends takes all along that it
 * exported and imported, as its device ends in Tenure.
 */
#ifndef TENURE_PRELOAD_IPC_H
#define TENURE_PRELOAD_IPC_H

#include <stddef.h>

#include "entries.h"

/* The opened block that an address is in. 1 if there is one. */
int ipc_imported(CUdeviceptr address, CUdeviceptr *base, size_t *bytes);

#endif
