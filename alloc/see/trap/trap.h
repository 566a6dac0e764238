/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traps: what the settings guard, poison and canary do to blocks, to catch a program that touches
 * memory that is not its own.
 *
 *   guard    a block on pages of its own, before unmapped ones; its free unmaps it   (guard.h)
 *   poison   a freed block is filled, and looked at when handed out again            (poison.h)
 *   canary   bytes past the requested size, looked at when the block is freed      (canary.c)
 *
 * While one of them is on the gate says TRAPS, and api/cached.c asks here on each allocation
 * and free. While none is on, nothing of this is reached. The settings trap_* say which blocks get
 * a trap. A finding is told with the block's story (story.h), never as an error of the call that
 * brought it to light: that call is right.
 *
 * Fills and looks are work on the block's own stream, in its order, and no thread waits for them
 * (look.h). For a block that other streams use, and for one that tnr_free_sync frees, they are work
 * on a stream that waits for all others, and are given to it in the free. What is left in a trap at
 * the end is looked at then (ending.h). While a capture is under way no stream is given any, as it
 * could enter the capture. Blocks of graph pools, vouched pools, foreign segments and pools of
 * network cards have no traps: others than their owners may write there.
 *
 * The caller must hold no lock.
 */
#ifndef TNRI_TRAP_TRAP_H
#define TNRI_TRAP_TRAP_H

#include "memory/arena/arena.h"

/* What a block gets. */
enum { TNRI_TRAP_GUARD = 1, TNRI_TRAP_CANARY = 2 };

/* Decides which traps the block of a request gets, and makes room for them in the request. */
unsigned tnri_trap_choose(tnri_arena *arena, tnri_request *request);

/* A live block is about to be given to the caller: looks at the poison in it, and sets its
 * canary. From the first on, the process's end is watched. */
void tnri_trap_served(tnri_block *block, unsigned traps);

/* The block at `ptr` is about to be freed. In the order of its own stream: looks at its canary, and
 * fills the block. With `is_sync`, and if other streams use the block, that has to wait until the
 * device is through with the block; then returns 1, and the free must be one as tnr_free_sync does.
 * Nothing happens if the free will be refused. */
int tnri_trap_freeing(tnri_block *block, void *ptr, int is_sync);
/* Does the rest of that, on a stream that has waited for the device, before the mark that the block
 * waits for. `freed` is the stack of the free; 0: not known. */
void tnri_trap_fenced(tnri_block *block, uint32_t freed, tnri_stream *stream);
/* The block has been freed. */
void tnri_trap_freed(tnri_arena *arena);

/* Before the device is put out of use: looks at all that is left (ending.h), and forgets what was
 * poisoned. In the device's context. */
void tnri_trap_device_ending(struct tnri_device *device);

#endif
