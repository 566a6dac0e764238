/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Families: the pools that threads are routed to by a tag. A family has one pool on each device,
 * made when it is first needed there, and a handle that stands for whichever of them the device in
 * question has. A tag has one for each thing that may become of contents in a sleep.
 *
 * A handle of a family is told from one of a pool by its highest bits (pool/handle.h). It is good
 * for as long as the process lives.
 *
 * Tagging: what a thread that is routed to a family makes, carries its tag.
 */
#ifndef TNRI_POOL_FAMILY_H
#define TNRI_POOL_FAMILY_H

#include "device/tag.h"
#include "pool/pool.h"

enum { TNRI_FAMILY_CONTENTS = 3 }; /* kinds; their meaning is a layer's above */

tnr_pool tnri_family_handle(const tnri_tag *tag, int content);

/* 1 if the handle is a family's. */
int tnri_family_is(tnr_pool handle);

/* The family's pool on a device, held until tnri_pool_drop; null: there is none yet. */
tnr_pool tnri_family_find(tnri_device *device, tnr_pool handle);

/* The same, made if there is none. Under the library lock. TNR_ERR_INVALID_POOL: no such family. */
tnr_status tnri_family_pool(tnri_device *device, tnr_pool handle, tnr_pool *pool);

/* The tag of what the calling thread makes on any device; null: none. */
tnri_tag *tnri_tag_here(void);

#endif
