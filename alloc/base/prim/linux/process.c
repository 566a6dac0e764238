/* SPDX-License-Identifier: Apache-2.0 */
/* See process.h. */
#include "base/prim/process.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- the process ---------------------------------------------------------------------------- */

int tnri_process_id(void)
{
    return (int)getpid();
}

uint32_t tnri_process_user(void)
{
    return (uint32_t)geteuid();
}

const char *tnri_program_name(void)
{
    return program_invocation_short_name;
}

size_t tnri_program_path(char *path, size_t room)
{
    ssize_t length = readlink("/proc/self/exe", path, room - 1);
    path[length > 0 ? length : 0] = '\0';
    return length > 0 ? (size_t)length : 0;
}

void tnri_machine_name(char *name, size_t room)
{
    if (gethostname(name, room) != 0)
        name[0] = '\0';
    name[room - 1] = '\0';
}

long tnri_processors(void)
{
    return sysconf(_SC_NPROCESSORS_ONLN);
}

size_t tnri_machine_bytes(void)
{
    return (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}

int tnri_random(void *memory, size_t bytes)
{
    return getrandom(memory, bytes, 0) == (ssize_t)bytes;
}

const char *tnri_system_text(int error, char *text, size_t room)
{
    return strerror_r(error, text, room);
}

void tnri_complain(const char *text, size_t length)
{
    ssize_t ignored = write(STDERR_FILENO, text, length);
    (void)ignored;
}

uint64_t tnri_locked_limit(void)
{
    struct rlimit most;
    return getrlimit(RLIMIT_MEMLOCK, &most) == 0 && most.rlim_cur != RLIM_INFINITY ? most.rlim_cur
                                                                                   : UINT64_MAX;
}

/* ---- a signal ------------------------------------------------------------------------------- */

/* In the order of the words of snapshot_signal. */
static const int signals[] = {0, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, SIGURG, SIGIO, SIGPWR};

/* Under the library lock. */
static struct {
    int number; /* 0: none is followed */
    struct sigaction before;
} followed;

void tnri_signal_restore(void)
{
    if (followed.number != 0)
        sigaction(followed.number, &followed.before, NULL);
    followed.number = 0;
}

void tnri_signal_follow(int which, void (*handle)(int))
{
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    tnri_signal_restore();
    followed.number = signals[which];
    sigaction(followed.number, &action, &followed.before);
}

/* ---- waking --------------------------------------------------------------------------------- */

int tnri_wake_make(int is_polled)
{
    return eventfd(0, EFD_CLOEXEC | (is_polled ? EFD_NONBLOCK : 0));
}

void tnri_wake_ring(int wake)
{
    int saved = errno;
    uint64_t one = 1;
    ssize_t ignored = write(wake, &one, sizeof(one));
    (void)ignored;
    errno = saved;
}

int tnri_wake_hear(int wake)
{
    uint64_t count;
    ssize_t got = read(wake, &count, sizeof(count));
    return got == (ssize_t)sizeof(count) ? 1 : errno == EINTR ? 0 : -1;
}
