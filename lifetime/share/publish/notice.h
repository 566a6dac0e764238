/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A notice: the file NAME.published in the folder of folder.h. It says what the latest generation
 * of a name is and which processes hold it. A new notice replaces the old one whole, by a rename,
 * so a reader needs no lock. A writer locks the folder; the lock ends with the writer's process.
 *
 * The file stays when no process holds the name any more, so that generations only grow.
 */
#ifndef TNRI_PUBLISH_NOTICE_H
#define TNRI_PUBLISH_NOTICE_H

#include <tenure/publish.h>

#include "share/descriptor.h"

typedef struct tnri_notice {
    uint64_t magic;
    uint64_t generation;
    uint64_t bytes;
    uint64_t holders_count;
    tnr_export_name holders[TNR_HOLDERS_MAX];
} tnri_notice;

/* Opens the folder in which a name is: of the places of folder.h the one where somebody holds it,
 * else the last that knows of it, else home. Errors: TNR_ERR_FILE. */
tnr_status tnri_names_open(tnri_descriptor *folder, const char *name);
/* The same, and keeps others from changing any name there until the descriptor is closed. Waits at
 * most `patience_ms`. */
enum { TNRI_NAMES_PATIENCE_MS = 10000 };
tnr_status tnri_names_lock(tnri_descriptor *folder, const char *name, int patience_ms);

/* Errors: TNR_ERR_INVALID_ARGUMENT. */
tnr_status tnri_name_check(const char *name);

/* Reads the file of a name; generation 0: there never was one. Errors: TNR_ERR_FILE. */
tnr_status tnri_notice_read(tnri_notice *notice, const tnri_descriptor *folder, const char *name);
/* Under the lock. On an error the former one stays. Errors: TNR_ERR_FILE. */
tnr_status tnri_notice_write(const tnri_notice *notice, const tnri_descriptor *folder,
                             const char *name);

/* Strikes out holders that have ended, and this process if `own`. */
void tnri_notice_clean(tnri_notice *notice, int own);

#endif
