/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What control groups leave a device (base/dmem.h). The hard limit is the driver's to keep, and
 * Tenure asks before: a refusal then comes with a sentence, and after what is idle has gone back.
 * Above a limit idle memory goes back to the driver: after a request that the cached path
 * could not serve, and, with the setting `control`, by the thread that listens, which looks every
 * TNRI_CGROUP_LOOK_MS, and sooner while memory goes back. Live memory is never taken.
 *
 * Whether groups have the device's memory at all is asked once, when it is put into use. If they
 * have not, this is one load where memory is taken from the driver, and one for each such request.
 * A group whose files vanish later limits nothing.
 *
 * An integrated GPU is looked at in the same places: idle memory goes back while the host has less
 * left than its rest (memory/device/host.h), and all of it while threads of the machine stand still
 * for want of memory.
 */
#ifndef TNRI_DEVICE_CGROUP_H
#define TNRI_DEVICE_CGROUP_H

#include "memory/device/device.h"

/* How often the thread looks, also while memory is on its way back, and how far apart any two looks
 * are at least: a request that has just looked must not cost the thread its turn. */
enum { TNRI_CGROUP_LOOK_MS = 20, TNRI_CGROUP_AGAIN_MS = 5, TNRI_CGROUP_APART_NS = 1000000 };

/* 1 if there is anything to look at. */
static inline int tnri_device_is_watched(const tnri_device *device)
{
    return atomic_load_explicit(&device->is_watched, memory_order_relaxed);
}

/* When the device is put into use. */
void tnri_cgroup_begin(tnri_device *device);

/* TNR_OK if `come` bytes may be taken once `gone` have gone back, by the hard limit; else
 * TNR_ERR_OUT_OF_MEMORY. */
tnr_status tnri_cgroup_room(const tnri_device *device, size_t gone, size_t come);

/* How much is taken above the hard limit, which may have been lowered, or of the host's rest. */
size_t tnri_cgroup_over_hard(const tnri_device *device);
/* *bytes: above either limit, or SIZE_MAX while the host is pressed. Returns 0, and leaves it, if
 * there is nothing to look at, or if that was looked at less than `apart_ns` ago. */
int tnri_cgroup_over(tnri_device *device, uint64_t apart_ns, size_t *bytes);

#endif
