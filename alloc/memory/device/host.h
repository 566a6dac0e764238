/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory as a device: what <tenure/host.h> says of it, and how the driver makes it.
 *
 * It has the context of the GPU that it is near, and neither streams nor events of its own: where
 * those are meant, code says device->gpu. Its arenas are those of one stream of the GPU on which
 * nothing ever runs (memory/stream/idle.h). What is free in them is idle, so chunks move as
 * elsewhere, and the marks that prove that nothing uses their old addresses are over at once.
 *
 * An integrated GPU (DGX Spark, Jetson) shares the host's memory. What it has left is what the
 * system says, and it leaves the host more than a program needs: a machine whose memory is all used
 * stands still.
 *
 * The order of that stream says nothing of what the host does. So it is never made to wait, and a
 * retired block of host memory is free only when its uses are known to be over
 * (order/collect.c).
 */
#ifndef TNRI_DEVICE_HOST_H
#define TNRI_DEVICE_HOST_H

#include "memory/device/device.h"

/* 1 if what the device has is taken from the host: host memory, and all of an integrated GPU's,
 * whose driver does not know what the kernel would give up for it. */
static inline int tnri_device_in_host(const tnri_device *device)
{
    return tnri_device_is_host(device) || device->capabilities.is_integrated;
}

/* What is left of the host's memory for the program and all others: more beside an integrated GPU,
 * where it is the kernel's, too. */
uint64_t tnri_host_rest(const tnri_device *device);

/* TNR_OK if so many bytes more may be taken: always of a GPU with memory of its own. Else
 * TNR_ERR_OUT_OF_MEMORY, with a sentence that names the file that says so. */
tnr_status tnri_host_room(const tnri_device *device, size_t bytes);

/* Of an integrated GPU: how much is missing of that rest. */
size_t tnri_host_lack(const tnri_device *device);

/* After the driver has refused host memory: says what the system allows. */
void tnri_host_explain(const tnri_device *device);

/* What a device has left: the driver's word, or what the machine and control groups leave, less the
 * rest. Of a GPU, in the context. */
CUresult tnri_device_left(const tnri_device *device, size_t *left, size_t *total);

#endif
