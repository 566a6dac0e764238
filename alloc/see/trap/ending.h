/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last look: at what is still in a trap when a device, or the process, ends. That is the canary
 * of each live block, and poison that was never handed out.
 *
 * At the process's end other threads may still run. So memory is looked at in the order of its own
 * stream, as otherwise, and what is found counts only if the memory did not change hands meanwhile
 * (tnri_looked.is_still).
 */
#ifndef TNRI_TRAP_ENDING_H
#define TNRI_TRAP_ENDING_H

#include "memory/device/device.h"

/* How long the end of the process waits for its devices. Tests make it longer where the wait must
 * not end, and shorter where it must. Written before anything else runs. */
extern uint64_t tnri_trap_exit_wait_ns;

/* Has the process look at its end, unless all devices have ended by then. */
void tnri_trap_watch_end(void);

/* Tells how many looks there were and what they found, unless a function listens, or no block has
 * had a trap since that was told last. */
void tnri_trap_sums_tell(void);

/* Waits until all work of the device is over, and looks at everything. In the device's context, no
 * lock held. */
void tnri_trap_last_look(tnri_device *device);

#endif
