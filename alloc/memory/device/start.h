/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts a device into use: its primary context, its range of addresses and its tables. Puts it out
 * of use: gives all of it back, in steps that are remembered, so that what the driver refuses can
 * be tried again. Under the library lock.
 */
#ifndef TNRI_DEVICE_START_H
#define TNRI_DEVICE_START_H

#include "memory/device/device.h"

/* Takes what a device in use needs from the driver. */
tnr_status tnri_device_start(tnri_device *device);
/* For a device that was started but not published: gives back what it has, as far as the driver
 * allows it, and leaves the thread's last error alone. */
void tnri_device_abandon(tnri_device *device);
/* Gives everything back: nothing is mapped on the device, and it is not in use. What the driver
 * refuses stays on the books; calling it again, or starting the device, goes on from there. */
tnr_status tnri_device_stop(tnri_device *device);

#endif
