/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of threads. A number tells a thread from all others of the process, also from those that
 * are gone. */
#ifndef TNRI_BASE_THREAD_NUMBER_H
#define TNRI_BASE_THREAD_NUMBER_H

#include <stdint.h>

/* The calling thread's number, from 1 on, never used again by another thread. */
uint64_t tnri_thread_number(void);

#endif
