/* SPDX-License-Identifier: Apache-2.0 */
/* See helper.h. */
#include "base/prim/helper.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/prim/clock.h"

enum { LOOK_NS = 20000000 };

static _Atomic int helpers_count; /* never more than there are: its maker counts it after,
                                   * and it counts itself out before it ends */
static _Atomic int is_main_gone, is_watched;
static pthread_key_t main_key; /* its destructor runs when the main thread calls pthread_exit */
static int has_key;            /* constant after the constructor */

/* ---- the last thread ------------------------------------------------------------------------ */

/* How many threads the process has, with the main one, which is over; 0: it is not, or the kernel
 * does not say. */
static long threads_count(void)
{
    char text[512];
    int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
    if (file >= 0)
        (void)close(file);
    text[length < 0 ? 0 : length] = '\0';
    const char *at = strrchr(text, ')'); /* of the program's name, which may have blanks */
    if (at == NULL || strncmp(at, ") Z", 3) != 0)
        return 0;
    for (int field = 2; field < 20 && at != NULL; field++)
        at = strchr(at + 1, ' ');
    return at == NULL ? 0 : strtol(at, NULL, 10);
}

static void *last_watch(void *nothing)
{
    (void)nothing;
    do {
        while (atomic_load(&helpers_count) > 0) {
            if (threads_count() == atomic_load(&helpers_count) + 2) /* the main one, and this */
                exit(0);
            tnri_nap(LOOK_NS);
        }
        atomic_store(&is_watched, 0);
    } while (atomic_load(&helpers_count) > 0 && atomic_exchange(&is_watched, 1) == 0);
    return NULL;
}

static void watch_begin(void)
{
    pthread_t thread;
    if (atomic_load(&helpers_count) == 0 || atomic_exchange(&is_watched, 1) != 0)
        return;
    if (tnri_thread_make(&thread, last_watch, NULL) == 0)
        (void)pthread_detach(thread);
    else
        atomic_store(&is_watched, 0);
}

/* ---- the main thread ------------------------------------------------------------------------ */

static void main_gone(void *nothing)
{
    (void)nothing;
    atomic_store(&is_main_gone, 1);
    watch_begin();
}

static void main_mark(void)
{
    if (has_key && syscall(SYS_gettid) == getpid())
        (void)pthread_setspecific(main_key, &main_key);
}

/* A forked child has one thread, which is its main one. */
static void fork_child(void)
{
    atomic_store(&helpers_count, 0);
    atomic_store(&is_main_gone, 0);
    atomic_store(&is_watched, 0);
    main_mark();
}

static __attribute__((constructor)) void main_watch(void)
{
    has_key = pthread_key_create(&main_key, main_gone) == 0;
    main_mark();
    (void)pthread_atfork(NULL, NULL, fork_child);
}

/* ---- helpers -------------------------------------------------------------------------------- */

int tnri_helper_make(tnri_system_thread *thread, void *(*run)(void *), void *argument)
{
    int error = tnri_thread_make(thread, run, argument);
    if (error != 0)
        return error;
    main_mark();
    atomic_fetch_add(&helpers_count, 1);
    if (atomic_load(&is_main_gone))
        watch_begin();
    return 0;
}

void tnri_helper_end(void)
{
    atomic_fetch_sub(&helpers_count, 1);
}
