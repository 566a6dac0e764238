/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a thread gone? Threads end without a word: handlers of a thread's end run before its last
 * call, and not at all if the library has been closed meanwhile. So Tenure asks the kernel.
 *
 * A thread is told by its address (tnri_alive_self), which another thread may have once it is gone.
 * The kernel can clear one word per thread when the thread has run for the last time. The C library
 * needs that for pthread_join. Its word holds the thread's kernel id while the thread lives, and
 * lies at the same distance from every thread's address. The kernel says which distance that is. If
 * it does not, or if the word turns out to be another one, the address alone tells nothing.
 *
 * Each answer takes one or two system calls of a few tenths of a microsecond.
 */
#ifndef TNRI_BASE_PRIM_ALIVE_H
#define TNRI_BASE_PRIM_ALIVE_H

#include <stdint.h>

/* What tells threads apart: an address that each has of its own, a multiple of 16. Another thread
 * may have it later, but not before this one is gone. */
static inline uintptr_t tnri_alive_self(void)
{
#if defined(__x86_64__)
    uintptr_t self;
    __asm__("mov %%fs:0, %0" : "=r"(self));
    return self;
#else
    return (uintptr_t)__builtin_thread_pointer();
#endif
}

/* Learns how to tell. Further calls do nothing. */
void tnri_alive_start(void);

/* The calling thread's kernel id. */
uint32_t tnri_alive_id(void);

/* 1 if no thread lives at the address: no thread that had it will ever store anything again. 0 if
 * one lives there, or if that cannot be known. */
int tnri_alive_none_at(uintptr_t address);

/* 1 if the thread that had this address and this id is gone, as far as anybody can tell; another
 * thread may have the address now. 0 if it lives, or if that cannot be known. */
int tnri_alive_is_gone(uintptr_t address, uint32_t id);

#endif
