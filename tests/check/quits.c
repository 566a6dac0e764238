/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with one block that it never frees, and the ways to end without the return of main:
 *
 *   check_quits quit|Quit|quick|late|thread|small|child|forked|hangs|breaks|twice
 *   check_quits small BYTES
 *
 * quit (_exit), Quit (_Exit), quick (quick_exit); late: _exit in an exit handler; thread: a thread
 * calls _exit while another one says what is said at the end; small: a handler calls _exit on a
 * signal stack that has no room for more, or only so much more than the system's least; twice: when
 * the sums have been said, another thread calls _exit, too, and has time to say them again; child:
 * a child of vfork calls _exit, and then the program ends; forked: so does a child of fork; hangs,
 * breaks: a handler that has interrupted malloc calls _exit, and malloc then waits for itself, or
 * finds its heap broken. All end with 7.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
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

static _Atomic int is_ending; /* the next sums that are written are the last */

static void *thread_quit(void *unused)
{
    (void)unused;
    _exit(7);
}

/* Once the sums are out, another thread ends the process. It has a second to say them again. */
__attribute__((visibility("default"))) ssize_t write(int file, const void *bytes, size_t count)
{
    static const char sums[] = "check: process ";
    int is_last = memmem(bytes, count, sums, strlen(sums)) != NULL && atomic_load(&is_ending);
    ssize_t written = syscall(SYS_write, file, bytes, count);
    pthread_t thread;
    if (is_last && atomic_exchange(&is_ending, 0) &&
        pthread_create(&thread, NULL, thread_quit, NULL) == 0)
        (void)sleep(1);
    return written;
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

static void thread_begin(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, thread_quit, NULL) == 0)
        (void)pthread_join(thread, NULL);
}

static void quit_on_signal(int number)
{
    (void)number;
    _exit(7);
}

/* Room for what the kernel puts there, and so much more; nothing can be written below it. */
static void signal_on_small_stack(size_t more)
{
    enum { PAGE = 4096 };
    size_t bytes = (size_t)sysconf(_SC_MINSIGSTKSZ) + more;
    size_t pages = (bytes + PAGE - 1) / PAGE * PAGE;
    char *memory = mmap(NULL, PAGE + pages, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = memory + PAGE, .ss_size = bytes};
    struct sigaction action = {.sa_handler = quit_on_signal, .sa_flags = SA_ONSTACK};
    if (memory == MAP_FAILED || mprotect(memory + PAGE, pages, PROT_READ | PROT_WRITE) != 0 ||
        sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0)
        exit(1);
    (void)raise(SIGUSR1);
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
    if (strcmp(way, "small") == 0) /* as much for the loader, which looks functions up, and 2 KiB */
        signal_on_small_stack(argc > 2 ? strtoul(argv[2], NULL, 10)
                                       : (size_t)sysconf(_SC_MINSIGSTKSZ) + 2048);
    atomic_store(&is_ending, strcmp(way, "twice") == 0);
    if (strcmp(way, "hangs") == 0 || strcmp(way, "breaks") == 0) {
        (void)signal(SIGUSR1, on_signal);
        (void)raise(SIGUSR1);
    }
    if (strcmp(way, "quit") == 0 || strcmp(way, "twice") == 0)
        _exit(7);
    return 7;
}
