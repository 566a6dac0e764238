/* SPDX-License-Identifier: Apache-2.0 */
/* The function that is told what traps find: <tenure/trap.h>. */
#ifndef TNRI_TRAP_LISTENER_H
#define TNRI_TRAP_LISTENER_H

#include <tenure/trap.h>

#include "base/lock.h"

void tnri_trap_listen(tnr_trap_callback function, void *user);

#endif
