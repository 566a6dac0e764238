/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exports: blocks whose memory other processes may have, and which of them have it.
 *
 * An export holds its block (hold.h) as long as it is open or an importer has it. So a free of the
 * block waits for them as it waits for a graph. The memory stays where it is, because live and
 * retired blocks do not move. An export that tnr_export_offer made is closed when its block is
 * freed: at once, or, if the free came during a capture, when memory is short. A pool counts its
 * importers (account.h), and does not fall asleep while it has some.
 *
 * For each importer the exporter keeps one end of a pair of sockets; the other end was sent along
 * with the memory. The importer sends a greeting through it, with a descriptor of its process,
 * before it maps anything, and a farewell when it has closed the import. The importer is over when
 * the farewell is there, or when its process has ended. (A socket alone would not do: it closes
 * before the driver has ended the process's work.) If no descriptor of the process came, the
 * importer is over when the socket's other end is gone.
 */
#ifndef TNRI_LIFETIME_EXPORTED_H
#define TNRI_LIFETIME_EXPORTED_H

#include <tenure/export.h>

#include "memory/device/device.h"

/* The calls of <tenure/export.h>; what is sent is in shared.h. No lock held. */
tnr_status tnri_exported_create(tnri_device *device, const void *ptr, tnr_export *number);
/* The one export of a block that ends with the block's free. The first call makes it. */
tnr_status tnri_exported_offer(tnri_device *device, const void *ptr, tnr_export *number);
/* `who`: the process at the other end, 0 if that is not known. */
tnr_status tnri_exported_send(tnr_export number, int socket, int who);
/* Takes over what another process sends by the socket, as an export of this one's (relayed.h). */
tnr_status tnri_exported_adopt(int socket, tnr_export *number);
tnr_status tnri_exported_get(tnr_export number, tnr_export_info *info);
tnr_status tnri_exported_close(tnr_export number);
/* 1 if it is a block of the device that was freed, and that nothing but this export keeps. */
int tnri_exported_is_unused(tnr_export number, const tnri_device *device);

/* Lets go of what importers held, once they are over. Never waits for them; if another thread lets
 * go, waits until it has. No lock but that of the graphs held. */
void tnri_exported_settle(void);

/* 1 if importers have memory of other processes by this one, or are being sent it. Those processes
 * wait until this one has settled. No lock held. */
int tnri_exported_relays(void);

/* How many importers have an export open, as tnri_exported_settle left it; the export itself may be
 * closed. Fills `room` entries of `who`, first with their processes, as far as they are known; 0:
 * not known. No lock held. */
uint32_t tnri_exported_importers(tnr_export number, int *who, uint32_t room);

/* The device is about to be put out of use: forgets its exports and importers. Without force,
 * returns TNR_ERR_BUSY instead if there are some. In the context, no other thread is inside. */
tnr_status tnri_exported_end(const tnri_device *device, int force);

#endif
