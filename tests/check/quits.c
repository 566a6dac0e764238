/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with one block that it never frees, and the ways to end without the return of main:
 *
 *   check_quits quit|Quit|quick|late|thread|child|forked|hangs|breaks
 *
 * quit (_exit), Quit (_Exit), quick (quick_exit); late: _exit in an exit handler; thread: a thread
 * calls _exit while another one says what is said at the end; child: a child of vfork calls _exit,
 * and then the program ends; forked: so does a child of fork; hangs, breaks: a handler that has
 * interrupted malloc calls _exit, and malloc then waits for itself, or finds its heap broken. All
 * end with 7.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zoo.h"

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);

static const char *way;
static _Atomic int is_interrupted; /* from here on no memory can be had */

static void memory_asked(void)
{
    while (atomic_load(&is_interrupted)) {
        if (strcmp(way, "breaks") == 0)
            abort();
        (void)pause();
    }
}

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
    memory_asked();
    return __libc_malloc(bytes);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t bytes)
{
    memory_asked();
    return __libc_calloc(count, bytes);
}

static void on_signal(int number)
{
    (void)number;
    atomic_store(&is_interrupted, 1);
    _exit(7);
}

static void quit(void)
{
    _exit(7);
}

static void *thread_quit(void *unused)
{
    (void)unused;
    _exit(7);
}

static void thread_begin(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, thread_quit, NULL) == 0)
        (void)pthread_join(thread, NULL);
}

static void block_make(void)
{
    CUcontext context;
    CUdeviceptr block;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemAlloc(&block, BYTES));
}

int main(int argc, char **argv)
{
    way = argc > 1 ? argv[1] : "";
    block_make();
    printf("%d\n", (int)getpid());
    fflush(stdout);
    if (strcmp(way, "child") == 0 && vfork() == 0)
        _exit(3);
    if (strcmp(way, "forked") == 0 && fork() == 0)
        _exit(3);
    while (wait(NULL) > 0)
        ;
    if (strcmp(way, "Quit") == 0)
        _Exit(7);
    if (strcmp(way, "quick") == 0)
        quick_exit(7);
    if (strcmp(way, "late") == 0)
        (void)atexit(quit);
    if (strcmp(way, "thread") == 0)
        (void)atexit(thread_begin);
    if (strcmp(way, "hangs") == 0 || strcmp(way, "breaks") == 0) {
        (void)signal(SIGUSR1, on_signal);
        (void)raise(SIGUSR1);
    }
    if (strcmp(way, "quit") == 0)
        _exit(7);
    return 7;
}
