/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chunk: a piece of physical memory, one driver handle, mapped whole.
 *
 * It is created once, then moved between addresses: the new mapping comes first, and the old one is
 * removed when the work that uses it has provably ended (miss/stale.h). Costs are per mapping,
 * not per byte, so large requests get large chunks.
 *
 * A chunk belongs to a pool, and at any time has one address that counts, `page`; the page table
 * (memory/space/address_space.h) points back at it. It is owned by the arena that has the addresses
 * and protected by that arena's lock, except while a thread has taken it out (cut, not yet mapped).
 */
#ifndef TNRI_DEVICE_CHUNK_H
#define TNRI_DEVICE_CHUNK_H

#include "memory/device/account.h"
#include "memory/device/device.h"

/* How far a chunk is from being used. It is in the later states only while its pool sleeps. */
typedef enum tnri_chunk_state {
    TNRI_CHUNK_READY,  /* has memory; at its address, with access, unless it is on its way */
    TNRI_CHUNK_PLACED, /* at its address, without access */
    TNRI_CHUNK_HELD,   /* has memory and no address */
    TNRI_CHUNK_ASLEEP  /* has no memory */
} tnri_chunk_state;

typedef struct tnri_chunk {
    CUmemGenericAllocationHandle handle; /* constant but for sleeps; see segment.c, too */
    size_t pages;                        /* constant */
    tnri_account *account;               /* of its pool; constant */
    size_t page;                         /* first page of its address that counts */
    int is_small; /* 1: its memory counts for small blocks: see tnri_chunk_enter */
    /* Of its latest mapping: a number that no other has. What the chunk held before that mapping
     * may be gone. */
    _Atomic uint64_t placed;
    _Atomic size_t home;      /* the first page that it had, and still has: see alias.h */
    _Atomic uint32_t aliases; /* mappings besides that one: see memory/arena/alias.h */
    /* For a thread that looks for free chunks, under the lock of the arena that has the chunk: the
     * look that found it free, and the run in which it found it. */
    _Atomic uint64_t free_look;
    struct tnri_block *free_run;
    tnri_chunk_state state; /* changed by the thread that sleeps, wakes or ends the pool */
    size_t kept_until; /* of the thread that puts the pool to sleep: see capture/away/sleeper.h */
    struct tnri_evicted *evicted; /* ranges that are still mapped to it; the parking lock */
    struct tnri_chunk *next;      /* among the refused ones; the device's lock */
} tnri_chunk;

/* Stands in the page table for a mapping that could not be removed: see tnri_world_unclaim. */
extern tnri_chunk tnri_mapping_refused;

/* What the calling thread's latest request for memory lacked. */
extern _Thread_local tnr_oom_reason tnri_chunk_lacks;

/* What the driver said was left when it last refused the calling thread memory, beyond the most
 * that it can have had: so much of what it says is left it does not hand out. */
extern _Thread_local size_t tnri_chunk_withheld;

/* Takes `bytes` of the device's and the pool's limits. TNR_ERR_LIMIT if one would be exceeded;
 * tnri_chunk_lacks says which one. */
tnr_status tnri_chunk_charge(tnri_account *account, size_t bytes);
/* TNR_OK if so many bytes could be mapped if everything else were given back; otherwise the error
 * in which the request must end. For refusing a request before anything is done for it. */
tnr_status tnri_chunk_check(tnri_account *account, size_t bytes);
/* How many bytes must go back to the driver before the setting headroom_mb and the hard limits of
 * control groups let a new chunk be made. Also 0 if so many bytes cannot be had beside the
 * headroom. The device's context is current. */
size_t tnri_chunk_headroom_lack(const tnri_device *device, size_t bytes);
/* Gives them back. */
void tnri_chunk_discharge(tnri_account *account, size_t bytes);

/* Whether chunks of so many bytes in all can be had, before the first of them is made: the driver
 * takes milliseconds to refuse one, and those before it would be made for nothing. Asks the limits,
 * and where it may refuse, the driver. It is asked for all bytes at once: memory that it keeps for
 * its own pools counts as used, and yet it may hand that out; and of what it says is left it may
 * keep some. `was_refused`: it has refused this request before, so what it says of free memory is
 * enough, less tnri_chunk_withheld. In the device's context, no lock held. Errors:
 * TNR_ERR_OUT_OF_MEMORY, TNR_ERR_LIMIT. */
tnr_status tnri_chunk_foresee(tnri_account *account, size_t bytes, int was_refused);

/* 1 if an error is the driver's, which has no memory. */
int tnri_chunk_was_refused(tnr_status status);

/* Counts the memory of a chunk that was taken, or given back, and the limits with it: bytes are
 * charged before memory is taken, and discharged here. */
void tnri_chunk_count_taken(const tnri_chunk *chunk);
void tnri_chunk_count_released(const tnri_chunk *chunk);
/* A chunk comes to addresses of a world: from now on it counts for blocks of that size. */
void tnri_chunk_enter(tnri_chunk *chunk, int is_small);

/* Takes physical memory from the driver, within the limits, for blocks of one size. In the device's
 * context, no lock held.
 * Errors: TNR_ERR_OUT_OF_MEMORY, TNR_ERR_LIMIT, TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER. */
tnr_status tnri_chunk_create(tnri_account *account, size_t pages, int is_small, tnri_chunk **chunk);
/* ASLEEP -> HELD: takes memory within the limits. In the device's context, no lock held. */
tnr_status tnri_chunk_rouse(tnri_device *device, tnri_chunk *chunk);
/* Brings a chunk from any state to READY: takes memory within the limits, maps it at its address,
 * gives access. On an error the chunk stays in the state that it reached. In the device's context,
 * no lock held. */
tnr_status tnri_chunk_wake(tnri_device *device, tnri_chunk *chunk);
/* Brings a chunk to HELD, if it is not that far: removes its mapping. Only with proof that nothing
 * uses it. */
tnr_status tnri_chunk_unplace(tnri_device *device, tnri_chunk *chunk);
/* HELD -> ASLEEP: gives its memory back. */
tnr_status tnri_chunk_sleep(tnri_device *device, tnri_chunk *chunk);

/* A chunk without memory, ASLEEP: for a part of `whole` at this address, which is asleep too when
 * they are entered. Needs no context. Null: no host memory. */
tnri_chunk *tnri_chunk_create_asleep(const tnri_chunk *whole, size_t pages, size_t page);
/* TNR_OK if `come` bytes may be taken once `gone` bytes have gone back, by the limits and by
 * headroom_mb; otherwise TNR_ERR_LIMIT or TNR_ERR_OUT_OF_MEMORY. In the device's context. */
tnr_status tnri_chunk_exchange_check(const tnri_account *account, size_t gone, size_t come);

/* Gives back a chunk that is mapped nowhere. No caller is there to take an error. So if the
 * driver refuses, the chunk is taken off the books and kept in a list of the device, to be tried
 * again. */
void tnri_chunk_release(tnri_device *device, tnri_chunk *chunk);
/* The same for memory that no pool has and nobody counts. */
void tnri_chunk_release_bare(tnri_device *device, CUmemGenericAllocationHandle handle);
/* Tries the refused ones again and adds their bytes to *released. Returns the driver's first
 * refusal. In the device's context, no lock held. */
CUresult tnri_chunks_release_refused(tnri_device *device, size_t *released);

/* A chunk has come to another address: its former contents may be gone. */
void tnri_chunk_placed(tnri_chunk *chunk);

/* Maps a chunk at a page, without access. */
tnr_status tnri_chunk_map(tnri_device *device, tnri_chunk *chunk, size_t page);
/* Removes all mappings of a range of whole mappings. Only with proof that nothing uses them. */
tnr_status tnri_pages_unmap(tnri_device *device, size_t page, size_t pages, size_t mappings);

#endif
