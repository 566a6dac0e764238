/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process publishes, for the room beside this one: weights as a cache. See `yields` in
 * <tenure/publish.h>.
 */
#ifndef TNRI_PUBLISH_PUBLISH_H
#define TNRI_PUBLISH_PUBLISH_H

#include "memory/device/device.h"

/* Ends the publication on the device that yields, has no user, and was published first. Returns the
 * bytes of its block, which are free then, or soon; 0: there is none, or names are being changed
 * just now. Never waits. No lock held. */
size_t tnri_publication_yield(const tnri_device *device);

#endif
