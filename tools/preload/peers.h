/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which contexts may use memory of which devices: see peers.c.
 */
#ifndef TENURE_PRELOAD_PEERS_H
#define TENURE_PRELOAD_PEERS_H

#include "service.h"

/* A context that is not primary has ended. */
void peers_context_ended(CUcontext context);

/* A device's primary context is about to be reset: no device has access to it any more, nor it to
 * others. */
void peers_device_resets(int device);

/* Whether a device may use the memory at an address of ours. Inside. */
int peers_may(int device, CUdeviceptr address);

#endif
