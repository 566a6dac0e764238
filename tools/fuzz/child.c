/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See child.h.
 */
#include "child.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int fuzz_child_open(fuzz_child *child, size_t ops_max, char *error, size_t error_bytes)
{
    memset(child, 0, sizeof(*child));
    child->link = -1;
    child->shared_bytes = sizeof(fuzz_shared) + ops_max * sizeof(fuzz_op);
    for (int i = 0; i < 2; i++) {
        void *memory = mmap(NULL, child->shared_bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        child->slots[i] = memory == MAP_FAILED ? NULL : memory;
    }
    child->output = memfd_create("tenure-fuzz-output", MFD_CLOEXEC);
    if (child->slots[0] == NULL || child->slots[1] == NULL || child->output < 0) {
        snprintf(error, error_bytes, "no memory for programs of %zu operations", ops_max);
        fuzz_child_close(child);
        return -1;
    }
    child->slots[0]->room = child->slots[1]->room = ops_max;
    child->shared = child->slots[0];
    return 0;
}

void fuzz_child_close(fuzz_child *child)
{
    if (child->shared_bytes == 0)
        return;
    for (int i = 0; i < 2; i++)
        if (child->slots[i] != NULL)
            munmap(child->slots[i], child->shared_bytes);
    if (child->output >= 0)
        close(child->output);
    memset(child, 0, sizeof(*child));
}

/* Operations between two complete checks: no power of two, so that they fall everywhere. */
enum { DRAWN_CHECK_EVERY = 997 };

/* ---- in the child --------------------------------------------------------------------------- */

/* Processor time: what a program costs, whatever else the machine does. */
static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void child_draw(fuzz_shared *shared, fuzz_device *device, uint64_t seed,
                       const fuzz_limits *limits)
{
    static fuzz_run run;
    static fuzz_draw draw;
    fuzz_draw_start(&draw, &shared->setup, seed, limits);
    device->is_certain = limits->illegal;
    shared->planted = limits->illegal ? draw.illegal_kind : -1;
    uint64_t began = now_ns();
    if (fuzz_run_start(&run, device, &shared->setup, &shared->result, DRAWN_CHECK_EVERY) != 0)
        return;
    /* The steps around a planted error belong together. */
    while (!run.is_over && shared->count < shared->room &&
           (shared->result.ran < limits->ops || (draw.is_gated && draw.queue_count > 0))) {
        shared->ops[shared->count++] = fuzz_draw_next(&draw, &run.model);
        if (!fuzz_run_op(&run, &shared->ops[shared->count - 1]))
            shared->count--;
    }
    fuzz_run_end(&run);
    if (shared->result.verdict == FUZZ_VERDICT_OK && !device->is_gated)
        (void)device->reset(); /* counts as the program's */
    shared->result.ns = now_ns() - began;
}

static void child_replay(fuzz_shared *shared, fuzz_device *device, uint64_t check_every,
                         int is_verbose)
{
    static fuzz_run run;
    uint64_t began = now_ns();
    /* Checks ask the library, which looks at its events then: as often as when it was drawn. */
    if (device->is_gated)
        check_every = DRAWN_CHECK_EVERY;
    device->is_certain = 0;
    for (size_t i = 0; i < shared->count; i++)
        device->is_certain |= shared->ops[i].is_illegal;
    if (fuzz_run_start(&run, device, &shared->setup, &shared->result, check_every) != 0)
        return;
    run.is_verbose = is_verbose;
    for (size_t i = 0; i < shared->count && !run.is_over; i++)
        (void)fuzz_run_op(&run, &shared->ops[i]);
    fuzz_run_end(&run);
    shared->result.ns = now_ns() - began;
}

/* ---- in the parent -------------------------------------------------------------------------- */

/* What the program finds: no result, no output of others, its time still to come. */
static void program_begin(const fuzz_child *child, unsigned seconds_max)
{
    memset(&child->shared->result, 0, sizeof(child->shared->result));
    if (ftruncate(child->output, 0) == 0)
        (void)lseek(child->output, 0, SEEK_SET);
    alarm(seconds_max); /* a program that hangs ends by SIGALRM */
}

static pid_t child_fork(fuzz_child *child, unsigned seconds_max, int keep_output)
{
    child->shared = child->slots[0];
    child->is_stopped = 0;
    child->programs = 0;
    child->seed_first = child->seed;
    pid_t pid = fork();
    if (pid == 0) {
        if (!keep_output)
            (void)dup2(child->output, STDERR_FILENO);
        program_begin(child, seconds_max);
    } else if (pid > 0) {
        child->pid = pid;
    }
    return pid;
}

int fuzz_child_is_fresh_each(const fuzz_device *device, const fuzz_limits *limits)
{
    return device->is_gated || limits->illegal || limits->odd;
}

/* A process that runs programs: the first one, then those whose seeds come by the link. */
static void worker_run(fuzz_child *child, int link, fuzz_device *device, const fuzz_limits *limits,
                       unsigned seconds_max)
{
    int is_fresh_each = fuzz_child_is_fresh_each(device, limits);
    for (int programs = 1;; programs++) {
        child->shared->count = 0;
        child_draw(child->shared, device, child->seed, limits);
        alarm(0);
        if (child->shared->result.verdict != FUZZ_VERDICT_OK || is_fresh_each ||
            programs == FUZZ_PROGRAMS_EACH || write(link, "", 1) != 1 ||
            read(link, &child->seed, sizeof(child->seed)) != sizeof(child->seed))
            _exit(0);
        child->shared = child->slots[programs % 2];
        program_begin(child, seconds_max);
    }
}

static int worker_start(fuzz_child *child, fuzz_device *device, const fuzz_limits *limits,
                        unsigned seconds_max)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    pid_t pid = child_fork(child, seconds_max, 0);
    if (pid == 0) {
        close(ends[0]);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* no worker waits for a fuzzer that is no more */
        worker_run(child, ends[1], device, limits, seconds_max);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return -1;
    }
    child->link = ends[0];
    return 0;
}

int fuzz_child_draw(fuzz_child *child, fuzz_device *device, uint64_t seed,
                    const fuzz_limits *limits, unsigned seconds_max)
{
    if (child->pid == 0) {
        child->seed = seed;
        return worker_start(child, device, limits, seconds_max);
    }
    child->ahead = seed;
    child->has_ahead = 1;
    /* If the process has ended meanwhile, that will be heard, and the seed is dealt out again. */
    (void)send(child->link, &seed, sizeof(seed), MSG_NOSIGNAL);
    return 0;
}

int fuzz_child_advance(fuzz_child *child)
{
    if (!child->has_ahead)
        return 0;
    child->has_ahead = 0;
    child->seed = child->ahead;
    child->programs++;
    child->shared = child->slots[child->programs % 2];
    return 1;
}

int fuzz_child_replay(fuzz_child *child, fuzz_device *device, const fuzz_program *program,
                      uint64_t check_every, int is_verbose, unsigned seconds_max)
{
    child->seed = program->setup.seed;
    child->shared = child->slots[0];
    child->shared->setup = program->setup;
    child->shared->count = program->count;
    if (program->count > 0)
        memcpy(child->shared->ops, program->ops, program->count * sizeof(fuzz_op));
    pid_t pid = child_fork(child, seconds_max, is_verbose);
    if (pid == 0) {
        child_replay(child->shared, device, check_every, is_verbose);
        _exit(0);
    }
    return pid < 0 ? -1 : 0;
}

/* The end of what the child printed: a sanitizer's report, an assertion. */
static void output_append(const fuzz_child *child, char *text, size_t bytes)
{
    size_t length = strlen(text);
    off_t size = lseek(child->output, 0, SEEK_END);
    off_t room = (off_t)(bytes - length - 2);
    off_t from = size > room ? size - room : 0;
    if (size <= 0 || room <= 0)
        return;
    ssize_t got = pread(child->output, text + length + 1, (size_t)(size - from), from);
    text[length] = '\n';
    text[length + 1 + (got > 0 ? (size_t)got : 0)] = '\0';
}

/* The process has ended with that status: completes the result if it could not. */
static void child_ended(fuzz_child *child, int status)
{
    fuzz_result *result = &child->shared->result;
    child->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    int signal_number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    int hangs = signal_number == SIGALRM;
    result->verdict = hangs ? FUZZ_VERDICT_LIVENESS : FUZZ_VERDICT_CRASH;
    result->step = child->shared->count > 0 ? child->shared->count - 1 : 0;
    snprintf(result->check, sizeof(result->check), "%s", hangs ? "hang" : "crash");
    if (signal_number != 0)
        snprintf(result->text, sizeof(result->text), "%s: signal %d (%s)",
                 hangs ? "the program did not end in time" : "the process died", signal_number,
                 strsignal(signal_number));
    else
        snprintf(result->text, sizeof(result->text), "the process ended with code %d",
                 WEXITSTATUS(status));
    output_append(child, result->text, sizeof(result->text));
}

void fuzz_child_wait(fuzz_child *child)
{
    int status = 0;
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
        ;
    child_ended(child, status);
}

fuzz_child_news fuzz_child_hear(fuzz_child *child)
{
    char byte;
    ssize_t got = recv(child->link, &byte, sizeof(byte), MSG_DONTWAIT);
    if (got == 1)
        return FUZZ_CHILD_DONE;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return FUZZ_CHILD_RUNS;
    close(child->link);
    child->link = -1;
    fuzz_child_wait(child);
    return FUZZ_CHILD_GONE;
}

void fuzz_child_dismiss(fuzz_child *child)
{
    /* Closing is not enough: the processes that were begun later have the socket too. */
    (void)shutdown(child->link, SHUT_RDWR);
    close(child->link);
    child->link = -1;
    fuzz_child_wait(child);
}
