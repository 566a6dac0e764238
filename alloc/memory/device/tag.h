/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tags: names that pools of several devices have in common, so that they are limited, counted and
 * put to sleep together. A pool's account says which tag it carries. Here are the names, and for
 * each device what the pools with a tag may have mapped and have.
 *
 * A name is entered when it is first asked for and stays for the process, also over a shutdown. So
 * code that has found a tag may keep it. A pool without a tag costs nothing here except a
 * comparison where memory is taken from the driver.
 *
 * Synchronisation: entering takes a lock, everything else none.
 */
#ifndef TNRI_DEVICE_TAG_H
#define TNRI_DEVICE_TAG_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/device/device.h"

enum { TNRI_TAGS_MAX = 64, TNRI_TAG_BYTES = 64 };

/* What the pools of one device that carry a tag may have mapped together, and have. */
typedef struct tnri_tag_sum {
    _Atomic uint64_t limit_bytes;   /* UINT64_MAX: none */
    _Atomic(const char *) limit_by; /* who set it, for people: a constant text */
    _Atomic uint64_t reserved_bytes;
} tnri_tag_sum;

typedef struct tnri_tag {
    char name[TNRI_TAG_BYTES];            /* constant */
    tnri_tag_sum on[TNRI_DEVICE_NUMBERS]; /* by the number of the device */
} tnri_tag;

/* The tag of this name; null: no call has asked for it. */
tnri_tag *tnri_tag_find(const char *name);

/* The same, entered if it is not there. TNR_ERR_INVALID_ARGUMENT: no name that a tag can have, or
 * there are too many. */
tnr_status tnri_tag_enter(tnri_tag **tag, const char *name);

/* Tag number `index`, counted from 0 in the order in which they were entered; null past the last.
 * And its number. */
tnri_tag *tnri_tag_at(size_t index);
size_t tnri_tag_index(const tnri_tag *tag);

/* A device is put into use: no tag has a limit there. */
void tnri_tags_start(int device);

#endif
