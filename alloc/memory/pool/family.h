/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Families: the pools that threads are routed to by a tag. A family has one pool on each device,
 * made when it is first needed there. It has one handle, which stands for its pool on whichever
 * device is in question. A tag has one family for each thing that may become of contents in a
 * sleep.
 *
 * The highest bits of a handle tell a family from a pool (memory/pool/handle.h). A family's handle
 * is good for as long as the process lives.
 *
 * Tagging: while a thread is routed to a family, what it makes carries the family's tag.
 */
#ifndef TNRI_POOL_FAMILY_H
#define TNRI_POOL_FAMILY_H

#include "memory/device/tag.h"
#include "memory/pool/pool.h"

enum { TNRI_FAMILY_CONTENTS = 4 }; /* kinds; a layer above gives them their meaning */

tnr_pool tnri_family_handle(const tnri_tag *tag, int content);

/* 1 if the handle is a family's. */
int tnri_family_is(tnr_pool handle);

/* The family's pool on a device, held until tnri_pool_drop; null: there is none yet. */
tnr_pool tnri_family_find(tnri_device *device, tnr_pool handle);

/* tnri_family_find, but makes the pool if there is none. Under the library lock.
 * TNR_ERR_INVALID_POOL: no such family. */
tnr_status tnri_family_pool(tnri_device *device, tnr_pool handle, tnr_pool *pool);

/* The tag of what the calling thread makes on any device; null: none. */
tnri_tag *tnri_tag_here(void);

#endif
