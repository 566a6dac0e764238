/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the library's own that wait for something: they help the program, and are no part of
 * it.
 *
 * They have all signals blocked, so the program's handlers never run on them. And they keep no
 * process alive. A program may end its main thread with pthread_exit and go on in others; it ends,
 * with 0, when its last thread does. Where helpers are left, one more thread looks for that, from
 * the end of the main thread on: when the kernel counts no other threads, it calls exit, which is
 * what the C library would have done. Until the main thread ends, nothing looks for anything.
 */
#ifndef TNRI_BASE_PRIM_HELPER_H
#define TNRI_BASE_PRIM_HELPER_H

#include "base/prim/thread.h"

/* Starts a thread. 0, or an error number. */
int tnri_helper_make(tnri_system_thread *thread, void *(*run)(void *), void *argument);
/* The last thing that such a thread does. */
void tnri_helper_end(void);

#endif
