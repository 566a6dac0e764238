/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said at the end of a process, however it ends by itself: by the return of main, exit,
 * quick_exit, _exit or _Exit. Only a signal leaves it unsaid, and not what was found before.
 *
 * Programs call _exit where they must not run what others have registered, and two of these places
 * are not for us. A child of vfork runs in its parent's memory: it has another process id than the
 * one that began here. And a signal handler may have interrupted anything, also the C library's
 * malloc or whoever holds our locks. Nothing tells a handler from other code. So before anything is
 * said, signals are set so that the process ends with the program's code whatever happens: if its
 * heap is broken (SIGSEGV, SIGBUS, SIGABRT), or if after five seconds it still waits for a lock
 * (SIGALRM). These handlers make one system call. A handler may also run on a small stack, so that
 * it is said on another; and what is called before that is looked up at the start, so that it takes
 * less than the program's own look-up of _exit did. A thread that was interrupted inside of Tenure
 * says nothing (check_enter).
 */
#include "check/ending.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "check/check.h"
#include "driver.h"
#include "service.h"

enum { SAY_FOR_S = 5, ASKS_IN_A_SECOND = 100, SAY_STACK_BYTES = 256 << 10 };

static pid_t self;             /* of the process that began */
static _Atomic pid_t sayer;    /* the thread that says it; 0: none yet */
static _Atomic int is_said;    /* all is, by that thread */
static _Atomic int code_own;   /* what the program ends with */
static void (*next_exit)(int); /* the next _exit: another library's, or the C library's */

static void say(void)
{
    check_findings_end();
    check_waste_end();
    check_record_end();
    atomic_store(&is_said, 1);
}

/* 1 for the first who ends the process. */
static int is_first(void)
{
    pid_t none = 0;
    return atomic_compare_exchange_strong(&sayer, &none, (pid_t)syscall(SYS_gettid));
}

__attribute__((destructor)) static void say_at_exit(void)
{
    if (is_first())
        say();
}

__attribute__((constructor)) static void next_find(void)
{
    void *found = dlsym_of_libc()(RTLD_NEXT, "_exit");
    memcpy(&next_exit, &found, sizeof(found));
}

void check_ending_begin(void)
{
    self = getpid();
    (void)at_quick_exit(say_at_exit);
}

/* ---- without exit handlers ------------------------------------------------------------------- */

static _Noreturn void end_now(int code)
{
    for (;;)
        (void)syscall(SYS_exit_group, code);
}

static void on_signal(int number)
{
    (void)number;
    end_now(atomic_load(&code_own));
}

/* From here on the process ends with this code, and soon. */
static void end_is_sure(int code)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT, SIGALRM};
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t all;
    atomic_store(&code_own, code);
    (void)sigemptyset(&all);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        (void)sigaction(numbers[i], &action, NULL);
        (void)sigaddset(&all, numbers[i]);
    }
    (void)pthread_sigmask(SIG_UNBLOCK, &all, NULL);
    (void)alarm(SAY_FOR_S);
}

/* On a stack of its own: a signal handler's may have no room for it. */
static void say_apart(void)
{
    static _Alignas(64) char stack[SAY_STACK_BYTES];
    static ucontext_t here, there;
    if (getcontext(&there) != 0) {
        say();
        return;
    }
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = sizeof(stack);
    there.uc_link = &here;
    makecontext(&there, say, 0);
    (void)swapcontext(&here, &there);
}

/* The first is saying it; a thread that ends the process, too, waits until that is done. */
static void wait_for_sayer(void)
{
    const struct timespec pause = {.tv_nsec = 1000000000L / ASKS_IN_A_SECOND};
    for (int i = 0; i < SAY_FOR_S * ASKS_IN_A_SECOND && !atomic_load(&is_said); i++)
        (void)nanosleep(&pause, NULL);
}

static _Noreturn void end_by_itself(int code)
{
    int has_words = check_is_on() && atomic_load(&driver_is_found) && getpid() == self &&
                    !service_is_forked() && !service_is_inside();
    if (has_words && is_first()) {
        end_is_sure(code);
        say_apart();
    } else if (has_words && atomic_load(&sayer) != (pid_t)syscall(SYS_gettid)) {
        wait_for_sayer();
    }
    if (!has_words && next_exit != NULL)
        next_exit(code);
    end_now(code);
}

__attribute__((visibility("default"))) _Noreturn void _exit(int code)
{
    end_by_itself(code);
}

__attribute__((visibility("default"))) _Noreturn void _Exit(int code)
{
    end_by_itself(code);
}
