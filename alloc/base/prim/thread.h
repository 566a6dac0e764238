/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked of the system: threads, what they wait with, and what is told of a fork.
 *
 * The locks of the allocator are its own (base/lock.h). A mutex is for what may take long, or is
 * waited under.
 */
#ifndef TNRI_BASE_PRIM_THREAD_H
#define TNRI_BASE_PRIM_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/* ---- mutexes and conditions ----------------------------------------------------------------- */

typedef pthread_mutex_t tnri_mutex;
#define TNRI_MUTEX_INIT PTHREAD_MUTEX_INITIALIZER

static inline void tnri_mutex_init(tnri_mutex *mutex)
{
    (void)pthread_mutex_init(mutex, NULL);
}

static inline void tnri_mutex_end(tnri_mutex *mutex)
{
    (void)pthread_mutex_destroy(mutex);
}

static inline void tnri_mutex_lock(tnri_mutex *mutex)
{
    (void)pthread_mutex_lock(mutex);
}

/* 0: another thread has it. */
static inline int tnri_mutex_try(tnri_mutex *mutex)
{
    return pthread_mutex_trylock(mutex) == 0;
}

static inline void tnri_mutex_unlock(tnri_mutex *mutex)
{
    (void)pthread_mutex_unlock(mutex);
}

typedef pthread_cond_t tnri_condition;
#define TNRI_CONDITION_INIT PTHREAD_COND_INITIALIZER

static inline void tnri_condition_init(tnri_condition *condition)
{
    (void)pthread_cond_init(condition, NULL);
}

static inline void tnri_condition_end(tnri_condition *condition)
{
    (void)pthread_cond_destroy(condition);
}

/* The mutex is held before and after. It may return without a reason. */
static inline void tnri_condition_wait(tnri_condition *condition, tnri_mutex *mutex)
{
    (void)pthread_cond_wait(condition, mutex);
}

static inline void tnri_condition_wake_one(tnri_condition *condition)
{
    (void)pthread_cond_signal(condition);
}

static inline void tnri_condition_wake_all(tnri_condition *condition)
{
    (void)pthread_cond_broadcast(condition);
}

typedef pthread_once_t tnri_once;
#define TNRI_ONCE_INIT PTHREAD_ONCE_INIT

/* Runs the function in the first call; the other calls wait until it has run. */
static inline void tnri_once_run(tnri_once *once, void (*run)(void))
{
    (void)pthread_once(once, run);
}

/* ---- words ---------------------------------------------------------------------------------- */

/* A word may lie in memory that several processes share. */

/* Waits until *word is not `value` any more, or somebody wakes, or `ns` have passed (UINT64_MAX:
 * for ever). May return for no reason. */
void tnri_word_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns);
/* Adds one to a word and wakes all who wait for it. */
void tnri_word_ring(_Atomic uint32_t *word);

/* ---- threads -------------------------------------------------------------------------------- */

typedef pthread_t tnri_system_thread;

/* Starts a thread that no signal interrupts. 0, or an error number. Threads that wait for something
 * outside are made with tnri_helper_make. */
int tnri_thread_make(tnri_system_thread *thread, void *(*run)(void *), void *argument);

static inline void tnri_thread_join(tnri_system_thread thread)
{
    (void)pthread_join(thread, NULL);
}

static inline int tnri_thread_is_self(tnri_system_thread thread)
{
    return pthread_equal(thread, pthread_self());
}

/* A value of each thread's own, for which `end` is called when the thread ends, unless it is null.
 * 0: there are no more keys. */
typedef pthread_key_t tnri_key;

static inline int tnri_key_make(tnri_key *key, void (*end)(void *))
{
    return pthread_key_create(key, end) == 0;
}

/* 0: there is no memory for it. */
static inline int tnri_key_set(tnri_key key, const void *value)
{
    return pthread_setspecific(key, value) == 0;
}

/* ---- forks ---------------------------------------------------------------------------------- */

/* The functions are called before each fork, and after it in the parent and in the child. Null:
 * none. */
static inline void tnri_forks_watch(void (*before)(void), void (*parent)(void), void (*child)(void))
{
    (void)pthread_atfork(before, parent, child);
}

#endif
