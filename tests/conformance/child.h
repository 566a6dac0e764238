/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function in a process of its own, watched: it ends, dies or is killed when its time is up. The
 * watch does not depend on the child: one that blocks signals, or that sits in a driver's lock, is
 * killed all the same, and one that does not even die then is left behind.
 */
#ifndef TENURE_TESTS_CONFORMANCE_CHILD_H
#define TENURE_TESTS_CONFORMANCE_CHILD_H

struct child_end {
    int code;       /* what it ended with; -1 if it did not end by itself */
    int signal;     /* what it died of, or 0 */
    int hung;       /* its time was up */
    int left;       /* and it did not die of SIGKILL either */
    double seconds; /* how long it took */
};

/* Blocks SIGCHLD, which child_run waits for; once, before any other thread. */
void child_watch(void);

/* Runs main(argument) in a child for at most limit_s seconds. From two seconds on says on stderr
 * that `name` is still running, and for how long. 0 if there can be no child, with errno. */
int child_run(const char *name, void (*main)(const void *argument), const void *argument,
              unsigned limit_s, struct child_end *end);

double seconds_now(void); /* of a clock that only goes forward */

#endif
