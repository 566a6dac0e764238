/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a thread gone? Threads end without a word: handlers of their end run before their last call,
 * and not at all where the library has been closed meanwhile. So who wants to know asks the kernel.
 *
 * A thread is told by its address (tnri_alive_self), which another one may have when it is gone.
 * The kernel can be told of a word per thread that it is to clear when the thread has run for the
 * last time, and the C library, which needs it for pthread_join, has that word hold the thread's
 * kernel id while it lives, at the same distance from every thread's address. Which distance that
 * is the kernel says; if it does not, or the word is not what it is taken for, nothing can be told
 * by the address alone.
 *
 * Each answer takes one or two system calls of a few tenths of a microsecond.
 */
#ifndef TNRI_BASE_ALIVE_H
#define TNRI_BASE_ALIVE_H

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

/* Learns how to tell. Again and again does nothing. */
void tnri_alive_start(void);

/* The calling thread's kernel id. */
uint32_t tnri_alive_id(void);

/* 1 if no thread lives at the address: none that did will ever store anything again. 0 if one does,
 * or if nobody can tell. */
int tnri_alive_none_at(uintptr_t address);

/* 1 if the thread that had this address and this id is gone, by all that can be told; the address
 * may be another thread's now. 0 if it lives, or if nobody can tell. */
int tnri_alive_is_gone(uintptr_t address, uint32_t id);

#endif
