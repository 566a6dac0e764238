/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening the memory of pools to other devices, and closing it: the walk over what exists.
 * memory/device/access.h says how this goes with threads that map, move and lend at the same time.
 */
#ifndef TNRI_POOL_PEERS_H
#define TNRI_POOL_PEERS_H

#include "memory/device/access.h"
#include "memory/device/device.h"

/* The access of a peer to memory that comes from now on. */
tnr_access tnri_access_get(const tnri_access *access, int peer);

/* Changes a peer's access to a pool: to the memory that the pool has, and to what it will have. The
 * peer can reach the device. On an error neither changes, as far as the driver lets us. Changes of
 * one pool wait for each other. The caller holds the pool, is in the device's context, and works on
 * no pool. */
tnr_status tnri_pool_access(tnr_pool pool, int peer, tnr_access access);

/* The same for all pools of a device, and for those that will be made. On an error the pools before
 * the one that failed stay changed. */
tnr_status tnri_device_access(tnri_device *device, int peer, tnr_access access);

/* For a device that is used from now on: opens host memory to each GPU in use, which must succeed,
 * and with the setting peers:used the devices in use to each other. Of these, devices that have no
 * way to each other stay as they are, and so does what the driver refuses. After an error it is
 * called once more. No lock held. */
tnr_status tnri_peers_meet(tnri_device *device);

#endif
