/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device: its capabilities, its address space, its pools, and what is mapped on it.
 *
 * Every process that starts the library finds all devices (capabilities only). The first allocation
 * on a device puts it into use (start.h): then its primary context is retained and its address
 * range reserved. Both last until tnr_shutdown.
 *
 * Host memory near a GPU is a device too, number TNR_HOST(GPU): with a range of addresses, pools,
 * limits and sums of its own. It has no streams: its context is the GPU's, whose streams use its
 * memory (host.h). So `device` means where memory lies, and `device->gpu` whose streams.
 */
#ifndef TNRI_DEVICE_DEVICE_H
#define TNRI_DEVICE_DEVICE_H

#include <tenure/host.h>

#include "base/dmem.h"
#include "base/lock.h"
#include "gpu/capturing.h"
#include "gpu/backend.h"
#include "memory/device/event_store.h"
#include "memory/device/handling.h"
#include "memory/device/held.h"
#include "memory/space/address_space.h"

struct tnr_pool_st;
struct tnri_stream;

/* What host memory has of the driver: see host.h. */
typedef struct tnri_host {
    CUmemLocation location; /* where its chunks are made; set while it is put into use */
    struct tnri_stream
        *_Atomic idle; /* of memory/stream/idle.h, with a reference; null: none yet. Set once */
} tnri_host;

enum { TNRI_DEVICES_MAX = 64 }; /* GPUs */
/* Bound of a device's number: host memory near GPU i is number TNR_HOST(i). */
enum { TNRI_DEVICE_NUMBERS = 2 * TNRI_DEVICES_MAX };
_Static_assert(TNR_HOST(0) == TNRI_DEVICES_MAX, "numbers of host memory come after those of GPUs");

/* What the driver says of a device, asked once. Constant after start. */
typedef struct tnri_capabilities {
    CUdevice handle;
    char name[256];
    size_t memory_bytes;
    size_t granularity_bytes; /* 0 without VMM */
    int compute_major, compute_minor;
    int has_vmm, has_posix_fd, has_fabric, has_gpu_direct_rdma;
    int is_integrated; /* its memory is the host's */
    tnri_pci pci;
} tnri_capabilities;

typedef struct tnri_device {
    int index;                      /* constant */
    tnri_capabilities capabilities; /* constant */
    struct tnri_device *gpu;        /* itself; of host memory, the GPU that it is near; constant */

    /* Set when the device is put into use, under the library lock; constant afterwards. */
    _Atomic int in_use;
    _Atomic int has_met; /* host memory is open to it, or it, as host memory, to all: peers.h. Set
                          * after in_use, maybe by a later call */
    CUcontext context;   /* the primary context, retained; null: it is not */
    uintptr_t range_base;
    size_t range_bytes; /* addresses reserved; 0: none */
    int is_allocated;   /* its pools are of cuMemAlloc, or of cuMemHostAlloc: allocated.h. Constant
                         * while it is in use */
    tnri_host host;     /* of host memory alone: see host.h */
    tnri_space space;
    tnri_space *_Atomic foreign; /* of foreign segments; null: there never was one. Set once */
    struct tnr_pool_st *pool_default;

    tnri_lock lock;             /* protects what follows, and see tnri_device_look_begin */
    struct tnr_pool_st *pools;  /* the default pool among them, last */
    unsigned pools_made;        /* for names and for the generation of handles */
    struct tnri_chunk *refused; /* chunks that the driver did not take back: see chunk.h */

    tnri_event_store events; /* synchronisation: internal */

    /* Synchronisation: atomics. Changed on slow paths only. */
    _Atomic uint64_t reserved_bytes, reserved_peak_bytes;
    _Atomic uint64_t reserved_total_bytes; /* ever taken from the driver */
    _Atomic uint64_t limit_bytes;
    _Atomic(const char *) limit_by; /* who set it, for people: a constant text */
    _Atomic uint64_t ceiling_bytes; /* in its group: memory/device/group.h; UINT64_MAX: none */
    _Atomic int in_group;
    _Atomic int is_watched; /* control groups have its memory, or the host has: see
                             * memory/device/cgroup.h. Set when it is put into use */
    _Atomic uint64_t cgroup_looked_ns, cgroup_given_bytes;
    _Atomic int cgroup_is_coming; /* 1: that look was to be followed by another soon */
    tnri_handling handling;
    tnri_flow chunks;
    _Atomic uint64_t chunks_moved;
    tnri_held held[TNRI_HELD_SIZES]; /* reserved bytes and chunks by the size of blocks */
    _Atomic uint64_t mappings_made, mappings_removed;
    _Atomic uint64_t move_spent_ns; /* see memory/device/budget.h */
    _Atomic uint64_t move_took_ns;  /* likewise, as it was measured */
    uint64_t peers;                 /* bit i: new pools are open to device i; the device's lock */
    uint64_t started_ns;            /* by tnri_decision_ns; constant while in use */
    _Atomic uint64_t completed; /* all marks of its streams up to this number are over */
    _Atomic uint64_t retries_count, ooms_count, syncs_count;
    _Atomic uint64_t parks, unparks, park_waits; /* see miss/park.h */
    tnri_driver_counters counters;
} tnri_device;

/* Asks the driver for the number of devices and what each can do. Under the library lock. */
tnr_status tnri_devices_find(void);
/* Forgets them. Each has been put out of use. */
void tnri_devices_forget(void);
int tnri_devices_count(void);

/* The device, in use or not; null if there is no such device. */
tnri_device *tnri_device_at(int index);

/* For walks over everything that has memory: the GPUs, and then host memory near each. Null past
 * the last. */
tnri_device *tnri_device_nth(int n);

/* 1 if it is host memory. */
static inline int tnri_device_is_host(const tnri_device *device)
{
    return device->gpu != device;
}

/* Makes a started device known, with its default pool: from now on it is in use, and its addresses
 * are recognised. Under the library lock. */
void tnri_device_publish(tnri_device *device);
/* The reverse, while no other thread is inside Tenure. */
void tnri_device_withdraw(tnri_device *device);

/* Ranges of the devices in use. Entries are only added, `bytes` last, and the count is published
 * after them. They are removed at shutdown, when no other thread is inside. An entry that is not in
 * use has no bytes. */
typedef struct tnri_device_range {
    _Atomic uintptr_t base;
    _Atomic size_t bytes;
    tnri_granule *_Atomic granules; /* of its block map */
    tnri_device *device;
} tnri_device_range;
extern tnri_device_range tnri_device_ranges[TNRI_DEVICE_NUMBERS];
extern _Atomic int tnri_device_ranges_count;

/* tnri_block_map_at for an address of one device; null for any other. No lock. */
static inline tnri_block *tnri_device_range_block(const tnri_device_range *range, uintptr_t address)
{
    size_t bytes = atomic_load_explicit(&range->bytes, memory_order_acquire);
    uintptr_t offset = address - atomic_load_explicit(&range->base, memory_order_relaxed);
    if (tnri_unlikely(offset >= bytes))
        return NULL;
    const tnri_granule *granules = atomic_load_explicit(&range->granules, memory_order_relaxed);
    return tnri_granule_at(&granules[offset >> TNRI_GRANULE_SHIFT], address);
}

static inline int tnri_device_range_has(const tnri_device_range *range, uintptr_t address)
{
    size_t bytes = atomic_load_explicit(&range->bytes, memory_order_acquire);
    return address - atomic_load_explicit(&range->base, memory_order_relaxed) < bytes;
}

/* The number of the range that contains the address; -1: none does. No lock. */
int tnri_device_range_find(uintptr_t address);

/* Between these two calls no arena gives back addresses, or records that the block map leads to.
 * For code that looks up an address at which nothing need be live. Takes the device's lock. */
static inline void tnri_device_look_begin(tnri_device *device)
{
    tnri_lock_take(&device->lock);
}
static inline void tnri_device_look_end(tnri_device *device)
{
    tnri_lock_release(&device->lock);
}

/* The device in use whose range contains the address; null for a foreign address. No lock. */
static inline tnri_device *tnri_device_of(uintptr_t address)
{
    int count = atomic_load_explicit(&tnri_device_ranges_count, memory_order_acquire);
    for (int i = 0; i < count; i++)
        if (tnri_device_range_has(&tnri_device_ranges[i], address))
            return tnri_device_ranges[i].device;
    return NULL;
}

/* The space of foreign segments in which an address has memory, and its device; null: none. No
 * lock. */
tnri_space *tnri_device_foreign_of(uintptr_t address, tnri_device **device);

/* The space that an address belongs to, and its device: the device's own space, or that of foreign
 * segments if the address has memory there. Null: neither. No lock. */
static inline tnri_space *tnri_space_of(uintptr_t address, tnri_device **device)
{
    *device = tnri_device_of(address);
    if (tnri_likely(*device != NULL))
        return &(*device)->space;
    return tnri_device_foreign_of(address, device);
}

/* The space of a device's foreign segments, made if there is none yet: all addresses there are.
 * Null: no host memory for its tables. */
tnri_space *tnri_device_foreign(tnri_device *device);
/* Ends that space, when the device is put out of use. */
void tnri_device_foreign_end(tnri_device *device);

/* Makes the device's context current for the calling thread, and counts the thread's driver calls
 * to the device. While a capture is under way, also makes the thread's capture mode RELAXED.
 * tnri_device_leave puts everything back. Calls nest. */
typedef struct tnri_visit {
    tnri_driver_counters *counters_before;
    int pushed;
    int calm_before;
    tnri_relaxed relaxed;
} tnri_visit;
tnr_status tnri_device_enter(tnri_device *device, tnri_visit *visit);
/* The same, but leaves the thread's last error alone. */
CUresult tnri_device_push(tnri_device *device, tnri_visit *visit);
void tnri_device_leave(tnri_visit *visit);

/* Sets the device's limit. `by` says who did, for people: a constant text. */
static inline void tnri_device_limit(tnri_device *device, uint64_t bytes, const char *by)
{
    atomic_store(&device->limit_by, by);
    atomic_store(&device->limit_bytes, bytes);
}

/* The most that may be mapped: the limit, or the ceiling in a group if that is less. */
static inline uint64_t tnri_device_most(const tnri_device *device)
{
    uint64_t limit = atomic_load_explicit(&device->limit_bytes, memory_order_relaxed);
    uint64_t ceiling = atomic_load_explicit(&device->ceiling_bytes, memory_order_relaxed);
    return limit < ceiling ? limit : ceiling;
}

#endif
