/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of other processes: see ipc.c.
 */
#ifndef TENURE_PRELOAD_IPC_H
#define TENURE_PRELOAD_IPC_H

#include "entries.h"

/* The context ends, and with it all that was exported. */
void ipc_forget(void);

#endif
