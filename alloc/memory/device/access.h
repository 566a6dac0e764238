/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which other devices, peers, reach the memory of a pool.
 *
 * Access is a property of each mapping, and costs as much again as the mapping. So a pool has a set
 * of peers, and each new mapping is given what the set says. A change of the set must also reach
 * the mappings that exist, while other threads map, move and lend (memory/pool/peers.h):
 *
 *   1. the set is changed and the epoch goes on. A thread that begins to place memory from now on
 *      sees the new set, and lends nothing. Threads that began before are waited for: memory that
 *      is on its way is in no arena, and would be missed.
 *   2. each chunk of each arena is given the new access. A chunk that moves on meanwhile is given
 *      it where it goes.
 *   3. threads that began meanwhile are waited for again. If one of them put back a mapping that it
 *      had taken away (`returned`), the arenas are walked once more.
 */
#ifndef TNRI_DEVICE_ACCESS_H
#define TNRI_DEVICE_ACCESS_H

#include <stdatomic.h>
#include <stdint.h>

#include <tenure/alloc.h>

typedef struct tnri_access {
    /* Synchronisation: atomics. */
    _Atomic uint64_t peers;      /* bit i: device i reaches the memory too */
    _Atomic uint64_t changed;    /* bit i: that has not been the same all the time */
    _Atomic uint32_t epoch;      /* grows each time that somebody is to be waited for */
    _Atomic uint32_t placing[2]; /* threads that place memory, by the epoch they began in */
    _Atomic uint32_t returned;   /* mappings that were taken away, and put back */
    _Atomic int is_changing;     /* 1: nothing is lent, and nothing comes back to old mappings */
    /* Of the thread that set is_changing. Bit i: a change for device i failed, and the way back
     * too, so what it reaches differs from mapping to mapping. */
    uint64_t torn;
} tnri_access;

struct tnri_device;

/* To be called around everything that gives pages of the pool to an arena, from before the peers
 * are read until the arena has the pages. Neither call blocks. */
unsigned tnri_placing_begin(tnri_access *access);
void tnri_placing_end(tnri_access *access, unsigned epoch);

/* Waits for all that began to place memory before. No lock held, not while placing. */
void tnri_placing_wait(tnri_access *access);

/* Gives the device, and the peers that the pool has now, access to a range of mapped pages. In the
 * device's context. */
tnr_status tnri_pages_access(const struct tnri_device *device, const tnri_access *access,
                             size_t page, size_t pages);

/* The same for pages whose mapping is as old as the pool may be: peers that are not in the set any
 * more lose what they had. */
tnr_status tnri_pages_access_again(const struct tnri_device *device, const tnri_access *access,
                                   size_t page, size_t pages);

/* Gives one peer access to a range of mapped pages, or takes it away. */
tnr_status tnri_pages_access_peer(const struct tnri_device *device, size_t page, size_t pages,
                                  int peer, tnr_access wanted);

/* Waits for all work that a device was given, because it may use memory of other devices; `why`
 * says what for. Does nothing for a device without a primary context. No capture may be under
 * way. */
tnr_status tnri_peer_finish(int peer, const char *why);
/* The same for all that reach the memory of a pool. */
tnr_status tnri_peers_finish(const tnri_access *access, const char *why);

/* Whether the device `peer` can reach memory of the device: TNR_OK, or the error that says why
 * not. */
tnr_status tnri_peer_check(const struct tnri_device *device, int peer);

#endif
