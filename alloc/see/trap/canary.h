/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Canaries: the bytes between the end of what was asked for and the end of the block, at least
 * TNRI_CANARY_LEAST. They are filled when the block is handed out, and looked at when it is freed.
 * A live block that has a canary says so in its record (`holds`).
 */
#ifndef TNRI_TRAP_CANARY_H
#define TNRI_TRAP_CANARY_H

#include "memory/arena/arena.h"
#include "see/trap/story.h"

enum { TNRI_CANARY = 0xca, TNRI_CANARY_LEAST = 64, TNRI_CANARY_MOST = 1024 };

/* Where the canary of a live or retired block is, or would be; returns its bytes. Under the arena's
 * lock. */
size_t tnri_canary_place(const tnri_block *block, uintptr_t *address);

/* Sets the canary of a live block that no other thread knows of. In the context, no lock held. */
void tnri_canary_set(tnri_block *block, tnri_stream *stream);

/* Takes the canary of a live or retired block away. Returns its bytes, which lie from *address on;
 * 0 if the block has none. Under the arena's lock. */
size_t tnri_canary_take(tnri_block *block, uintptr_t *address);

#endif
