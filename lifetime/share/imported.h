/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Imports: memory of other processes, mapped chunk after chunk in one range of addresses that
 * belongs to no arena. Usually the driver reserves a range for each import. If the import is to be
 * at the exporter's address, and that lies in the device's own range, it is a span of that range
 * (memory/space/address_space.h).
 *
 * What is received is checked before it is used for anything: the exporter may have another
 * version, or may be no exporter at all.
 */
#ifndef TNRI_LIFETIME_IMPORTED_H
#define TNRI_LIFETIME_IMPORTED_H

#include <tenure/export.h>

#include "memory/device/device.h"

/* The calls of <tenure/export.h>. The first two in the device's context; no lock held. */
tnr_status tnri_imported_receive(tnri_device *device, int socket, const tnr_import_options *options,
                                 tnr_import_info *info);
tnr_status tnri_imported_open(tnri_device *device, const tnr_export_name *name,
                              const tnr_import_options *options, tnr_import_info *info);
tnr_status tnri_imported_get(const void *ptr, tnr_import_info *info);
tnr_status tnri_imported_close(void *ptr);

/* The import number `index` of those that exist now; returns 0 if there are fewer. */
int tnri_imported_at(size_t index, tnr_import_info *info);
/* Says what name and generation the import that begins at `ptr` was published as. No lock held. */
void tnri_imported_label(const void *ptr, const char *published, uint64_t generation);

/* Tries again to take back what a failed import has left. No lock held. */
void tnri_imported_retry(void);

/* The device is about to be put out of use: closes its imports. Without force, returns TNR_ERR_BUSY
 * instead if there are some. No other thread is inside. */
tnr_status tnri_imported_end(const tnri_device *device, int force);

#endif
