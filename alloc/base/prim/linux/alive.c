/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the kernel for threads: see alive.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* process_vm_readv */
#endif

#include "base/prim/alive.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* No thread's word is so far from its address: it lies in the C library's record of the thread. */
enum { DISTANCE_MAX = 1 << 14 };

/* From a thread's address to the word with its id; 0: not known. */
static _Atomic intptr_t word_distance;

uint32_t tnri_alive_id(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

void tnri_alive_start(void)
{
    const uint32_t *word = NULL;
    if (prctl(PR_GET_TID_ADDRESS, &word, 0, 0, 0) != 0 || word == NULL)
        return;
    intptr_t distance = (intptr_t)((uintptr_t)word - tnri_alive_self());
    if (distance > -DISTANCE_MAX && distance < DISTANCE_MAX && *word == tnri_alive_id())
        atomic_store_explicit(&word_distance, distance, memory_order_relaxed);
}

/* Reads the word of the thread that lives at the address, or lived: 1 if it can be read, 0 if there
 * is no memory any more, -1 if that cannot be known. The kernel reads, so that it does not matter
 * what the memory has become. */
static int word_read(uintptr_t address, uint32_t *word)
{
    intptr_t distance = atomic_load_explicit(&word_distance, memory_order_relaxed);
    if (distance == 0)
        return -1;
    struct iovec here = {word, sizeof(*word)};
    struct iovec there = {(void *)(address + (uintptr_t)distance), sizeof(*word)};
    if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)sizeof(*word))
        return 1;
    return errno == EFAULT ? 0 : -1;
}

/* 1 if no thread of this process has the id. One that has not been waited for has it still. */
static int id_is_free(uint32_t id)
{
    return id == 0 || id > INT32_MAX ||
           (syscall(SYS_tgkill, getpid(), (int)id, 0) != 0 && errno == ESRCH);
}

int tnri_alive_none_at(uintptr_t address)
{
    int error = errno;
    uint32_t word = 0;
    int can_read = word_read(address, &word);
    /* What was memory of a thread may hold anything now, but a living thread's id would be there.
     * */
    int is_none = can_read == 0 || (can_read > 0 && id_is_free(word));
    errno = error;
    atomic_thread_fence(memory_order_acquire); /* its stores are done */
    return is_none;
}

int tnri_alive_is_gone(uintptr_t address, uint32_t id)
{
    int error = errno;
    uint32_t word = 0;
    int can_read = word_read(address, &word);
    int is_gone = can_read < 0 ? id_is_free(id) : can_read == 0 || word != id;
    errno = error;
    return is_gone;
}
