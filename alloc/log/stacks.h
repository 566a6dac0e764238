/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call stacks: return addresses, each distinct stack kept once and known by a number. To take one,
 * the C library's backtrace() walks the stack by the unwind tables that every program has, so no
 * frame pointers are needed. Names are looked up only when a snapshot is written (symbols.h).
 *
 * Stacks are kept until shutdown. When there are TNRI_STACKS_MAX of them, further ones are number
 * 0, "not known", and counted.
 */
#ifndef TNRI_HISTORY_STACKS_H
#define TNRI_HISTORY_STACKS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <tenure/history.h>

enum {
    TNRI_STACK_DEPTH = 48,           /* innermost frames that are kept */
    TNRI_STACKS_MAX = (1 << 22) - 1, /* what fits into a block's stamp */
};

/* Where frames of an interpreter come from; null functions: from nowhere. See <tenure/history.h>.
 * Set once: `describe` stays, because frames that were taken stay. */
extern _Atomic(tnr_frames_take) tnri_frames_take;
extern _Atomic(tnr_frames_describe) tnri_frames_describe;

/* 1 if a frame of a stack is an interpreter's, and no return address. */
static inline int tnri_frame_is_described(uintptr_t frame)
{
    return (frame >> (sizeof(frame) * 8 - 1)) != 0;
}

/* The number of the calling thread's stack, from the caller of this function on; 0 if it cannot be
 * kept. No lock is held. */
uint32_t tnri_stack_take(void);

/* The return addresses of a stack, innermost first; *count of them. Null: there is no such stack.
 * They stay where they are. */
const uintptr_t *tnri_stack_get(uint32_t number, size_t *count);
/* 1 for a file whose innermost frames tell a reader nothing, because they lie between the program
 * and Tenure: the preloaded library, and the CUDA runtime. */
int tnri_module_is_between(const char *path);
uint32_t tnri_stacks_count(void);
/* Stacks that were not kept. */
uint64_t tnri_stacks_missed(void);
/* Forgets all, while no other thread is inside Tenure. */
void tnri_stacks_free(void);

#endif
