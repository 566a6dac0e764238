/* SPDX-License-Identifier: Apache-2.0 */
/* Following a file: see run_follow.h. */
#include "run_follow.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { PAUSE_MS = 20 };

static void *follow(void *argument)
{
    const run_follower *self = argument;
    struct pollfd ending = {.fd = self->ending, .events = POLLIN};
    do
        self->look(self->of);
    while (poll(&ending, 1, PAUSE_MS) == 0);
    return NULL;
}

int run_follow_begin(run_follower *self, void (*look)(void *of), void *of)
{
    sigset_t all, before;
    *self = (run_follower){.look = look, .of = of, .ending = eventfd(0, EFD_CLOEXEC)};
    sigfillset(&all); /* signals are for the thread that forwards them */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    self->has_thread = self->ending >= 0 && pthread_create(&self->thread, NULL, follow, self) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return self->has_thread;
}

void run_follow_end(run_follower *self)
{
    if (self->look == NULL)
        return;
    if (self->has_thread) {
        (void)eventfd_write(self->ending, 1);
        pthread_join(self->thread, NULL);
    }
    self->look(self->of);
    if (self->ending >= 0)
        close(self->ending);
}
