/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exports: blocks whose memory other processes may have, and who has it.
 *
 * An export holds its block (hold.h) as long as it is open, or an importer has it; so a free of the
 * block waits for them as it waits for a graph, and the memory stays where it is: live and retired
 * blocks do not move. One that was made by tnr_export_offer is closed when its block is freed: at
 * once, or, where the free came during a capture, when memory is short. A pool counts its importers
 * (account.h), and does not fall asleep while it has some.
 *
 * An importer is a socket whose other end was sent along, and what came back through it: a greeting
 * with a descriptor of the importer's process, before it mapped anything, and a farewell when it
 * has closed the import. It is over when the farewell is there; when the process has ended (its
 * socket closes before the driver has ended its work); or, if there was no descriptor of the
 * process, when the socket's other end is gone.
 */
#ifndef TNRI_LIFETIME_EXPORTED_H
#define TNRI_LIFETIME_EXPORTED_H

#include <sys/types.h>

#include <tenure/export.h>

#include "device/device.h"

/* The calls of <tenure/export.h>; what is sent is in shared.h. No lock held. */
tnr_status tnri_exported_create(tnri_device *device, const void *ptr, tnr_export *number);
/* The one export of a block that ends with the block's free; made if it is the first time. */
tnr_status tnri_exported_offer(tnri_device *device, const void *ptr, tnr_export *number);
/* `who`: the process at the other end, 0 if that is not known. */
tnr_status tnri_exported_send(tnr_export number, int socket, pid_t who);
/* Takes over what another process sends by the socket, as an export of this one's (relayed.h). */
tnr_status tnri_exported_adopt(int socket, tnr_export *number);
tnr_status tnri_exported_get(tnr_export number, tnr_export_info *info);
tnr_status tnri_exported_close(tnr_export number);

/* Closes offers whose blocks have been freed. Cheap where there are none. No lock held. */
void tnri_exported_withdraw(void);

/* Lets go of what importers held that are over. Never waits. No lock held. */
void tnri_exported_settle(void);

/* How many importers have an export open, be it closed itself, as tnri_exported_settle left it. The
 * first of `room` processes are theirs, as far as they are known; 0: not. No lock held. */
uint32_t tnri_exported_importers(tnr_export number, pid_t *who, uint32_t room);

/* The device is about to be put out of use: forgets its exports and importers, or, without force,
 * returns TNR_ERR_BUSY if there are some. In the context, no other thread is inside. */
tnr_status tnri_exported_end(const tnri_device *device, int force);

#endif
