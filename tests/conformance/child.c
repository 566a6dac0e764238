/* SPDX-License-Identifier: Apache-2.0 */
/* See child.h. */
#include "child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUIET_SECONDS 2.0 /* nothing is said of children that take less */
#define KILLED_SECONDS 5.0

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void child_watch(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
}

/* The child has the mask back that programs start with. */
static void mask_clear(void)
{
    sigset_t set;
    sigemptyset(&set);
    (void)sigprocmask(SIG_SETMASK, &set, NULL);
}

/* Until the child is over, a tenth of a second at most. */
static void nap(void)
{
    const struct timespec tenth = {0, 100000000};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    (void)sigtimedwait(&set, NULL, &tenth);
}

/* Waits until `until`; whether the child is over. What is said comes at twice the time each. */
static int over_by(pid_t child, double from, double until, const char *name, int *status)
{
    double say = QUIET_SECONDS;
    for (;;) {
        pid_t over = waitpid(child, status, WNOHANG);
        if (over == child || (over < 0 && errno != EINTR))
            return over == child;
        double now = seconds_now();
        if (now >= until)
            return 0;
        if (name != NULL && now - from >= say) {
            fprintf(stderr, "conformance: %s: running for %.0f s\n", name, now - from);
            say *= 2;
        }
        nap();
    }
}

int child_run(const char *name, void (*main)(const void *argument), const void *argument,
              unsigned limit_s, struct child_end *end)
{
    int status = 0;
    memset(end, 0, sizeof(*end));
    end->code = -1;
    fflush(NULL);
    double from = seconds_now();
    pid_t child = fork();
    if (child < 0)
        return 0;
    if (child == 0) {
        mask_clear();
        main(argument);
        _exit(0);
    }
    int over = over_by(child, from, from + limit_s, name, &status);
    if (!over) {
        end->hung = 1;
        (void)kill(child, SIGKILL);
        over = over_by(child, from, seconds_now() + KILLED_SECONDS, NULL, &status);
        end->left = !over;
    }
    end->seconds = seconds_now() - from;
    if (over && WIFSIGNALED(status))
        end->signal = WTERMSIG(status);
    else if (over && !end->hung)
        end->code = WEXITSTATUS(status);
    return 1;
}
