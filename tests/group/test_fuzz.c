/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes of one device, in one group. They do anything at random (random.h), in turns and at
 * once. Meanwhile they are stopped and killed at any step, the driver refuses calls, the disk is
 * full, and others that find it so cannot join. A process
 * that lives keeps what it has written, and others read what is published. Sometimes both give up
 * everything: then either must get the whole device except the other's floor. In the end nothing is
 * left on the device.
 *
 *   test_group_fuzz OPERATIONS [SEED]
 *
 * A seed is a program of OPERATIONS_EACH operations; the next program has the next one. A failure
 * says which it was: test_group_fuzz 20000 SEED runs that one alone.
 *
 * Lines of the library changed to see it fail, within 60,000 operations:
 *   tnri_ask_wait that never says that there may be more
 *   tnri_file_fill that takes a file for large enough where the system has no room
 * and of the test:
 *   import_toggle in random.c that forgets an import whose close was refused
 */
#include "random.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OPERATIONS_EACH = 20000, MEMBERS = 2 };

typedef struct member {
    peer process;
    unsigned floor, ceiling; /* MiB */
    char conf[192];
} member;

static struct {
    uint64_t random, seed, operations;
    unsigned device_mib;
    member members[MEMBERS];
    uint64_t kills, stops, refusals, both, whole, late, full;
} fuzz;

/* In a member: the system has no room for files. */
static int disk_is_full;

int __real_posix_fallocate(int file, off_t from, off_t bytes);
int __wrap_posix_fallocate(int file, off_t from, off_t bytes);
int __wrap_posix_fallocate(int file, off_t from, off_t bytes)
{
    return disk_is_full ? ENOSPC : __real_posix_fallocate(file, from, bytes);
}

static uint64_t draw(uint64_t below)
{
    uint64_t z = (fuzz.random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("seed %llu, after %llu operations: %s", (unsigned long long)fuzz.seed,        \
                     (unsigned long long)fuzz.operations, #condition);                             \
    } while (0)

enum { DISK = 255 }; /* beside what random_operate takes; count 1: full, 0: no longer */

static tnr_status other(uint64_t a, uint64_t b)
{
    if ((a & 255) != DISK)
        return random_operate(a & 255, a >> 8, b);
    disk_is_full = a >> 8 != 0;
    return TNR_OK;
}

/* ---- members -------------------------------------------------------------------------------- */

static void member_draw(member *self)
{
    static const char *const chunks[] = {"", ",chunk_exact_mb:2,chunk_max_mb:2", ",chunk_share:8",
                                         ",history:full"};
    self->floor = draw(2) == 0 ? 0 : (unsigned)draw(fuzz.device_mib / 4);
    self->ceiling = draw(3) == 0 ? self->floor + 16 + (unsigned)draw(fuzz.device_mib) : 0;
    int length =
        snprintf(self->conf, sizeof(self->conf), "group:g,group_wait_ms:20,address_space_gb:256%s",
                 chunks[draw(sizeof(chunks) / sizeof(*chunks))]);
    if (self->floor > 0)
        length += snprintf(self->conf + length, sizeof(self->conf) - (size_t)length,
                           ",group_floor_mb:%u", self->floor);
    if (self->ceiling > 0)
        (void)snprintf(self->conf + length, sizeof(self->conf) - (size_t)length,
                       ",group_ceiling_mb:%u", self->ceiling);
}

static int tell(const member *self, uint64_t what, uint64_t count)
{
    fuzz.operations += count;
    return peer_tell(&self->process, PEER_OTHER, what | count << 8, draw(UINT64_MAX));
}

/* 0: it has ended. */
static int hear(const member *self)
{
    static peer_answer said;
    if (!peer_hear(&self->process, &said))
        return 0;
    if (said.status != TNR_OK && said.status != TNR_ERR_ASLEEP)
        print_error("status %d: %s\n", (int)said.status, said.text);
    MUST(said.status == TNR_OK || said.status == TNR_ERR_ASLEEP);
    return 1;
}

static void run(const member *self, uint64_t what, uint64_t count)
{
    MUST(tell(self, what, count) && hear(self));
}

/* It has ended, and must have been killed by its trap; another takes its place. */
static void member_replace(member *self)
{
    int status = 0;
    (void)close(self->process.file);
    MUST(waitpid(self->process.process, &status, 0) == self->process.process);
    MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    self->process = peer_start(self->conf);
    fuzz.kills++;
}

/* ---- what befalls them ---------------------------------------------------------------------- */

static uint64_t some(void)
{
    return 1 + draw(400);
}

/* Killed at a step, or not, if there are not so many. */
static void killed(member *self)
{
    peer_must(&self->process, PEER_KILL_AT, 1 + draw(300), 0);
    MUST(tell(self, RANDOM_OPERATIONS, some()));
    if (!hear(self))
        member_replace(self);
    else if (!peer_tell(&self->process, PEER_KILL_AT, 0, 0) || !hear(self))
        member_replace(self); /* its other threads have steps, too */
}

/* Stopped at a step, while the other goes on. */
static void stopped(member *self, member *beside)
{
    int status = 0, is_stopped = 0;
    peer_must(&self->process, PEER_STOP_AT, 1 + draw(300), 0);
    MUST(tell(self, RANDOM_OPERATIONS, some()));
    struct pollfd wait = {.fd = self->process.file, .events = POLLIN};
    while (!is_stopped && poll(&wait, 1, 1) == 0)
        is_stopped =
            waitpid(self->process.process, &status, WUNTRACED | WNOHANG) > 0 && WIFSTOPPED(status);
    run(beside, is_stopped ? RANDOM_ALONE : RANDOM_OPERATIONS, some());
    peer_go_on(&self->process);
    fuzz.stops += (uint64_t)is_stopped;
    MUST(hear(self));
    MUST(peer_tell(&self->process, PEER_STOP_AT, 0, 0));
    struct pollfd answer = {.fd = self->process.file, .events = POLLIN};
    while (poll(&answer, 1, 1) == 0) /* another thread of it may still come to that step */
        peer_go_on(&self->process);
    MUST(hear(self));
}

/* Stopped between two operations. */
static void stopped_idle(member *self, member *beside)
{
    peer_stop(&self->process);
    run(beside, RANDOM_ALONE, some());
    peer_go_on(&self->process);
    fuzz.stops++;
}

static void refused(member *self)
{
    uint64_t calls = 0;
    while (peer_calls[calls] != NULL)
        calls++;
    run(self, RANDOM_OPERATIONS, 0); /* what it begins with must not be refused */
    peer_must(&self->process, PEER_REFUSE, draw(calls), 1 + draw(6));
    run(self, RANDOM_REFUSED, some());
    fuzz.refusals += peer_must(&self->process, PEER_REFUSE, 0, 0).value;
}

static void disk_fill(const peer *process, int is_full)
{
    peer_must(process, PEER_OTHER, DISK | (uint64_t)is_full << 8, 0);
}

/* What is written is refused, and all else goes on. */
static void full(const member *self)
{
    run(self, RANDOM_OPERATIONS, 0); /* it has joined */
    disk_fill(&self->process, 1);
    run(self, RANDOM_FULL, some());
    disk_fill(&self->process, 0);
    fuzz.full++;
}

/* Another process cannot join while the disk is full, and can when there is room. */
static void joins_late(void)
{
    static peer_answer said;
    peer process = peer_start("group:g,group_wait_ms:20,address_space_gb:256");
    disk_fill(&process, 1);
    MUST(peer_ask(&process, PEER_MALLOC, 0, 2 * MIB, &said) && said.status == TNR_ERR_FILE);
    disk_fill(&process, 0);
    MUST(peer_ask(&process, PEER_MALLOC, 0, 2 * MIB, &said));
    MUST(said.status == TNR_OK || said.status == TNR_ERR_OUT_OF_MEMORY);
    MUST(peer_end(&process));
    fuzz.full++;
}

static void at_once(void)
{
    MUST(tell(&fuzz.members[0], RANDOM_OPERATIONS, some()));
    MUST(tell(&fuzz.members[1], RANDOM_OPERATIONS, some()));
    MUST(hear(&fuzz.members[0]) && hear(&fuzz.members[1]));
    fuzz.both++;
}

/* A member must get so many MiB, less one if they are odd. A thread of a process that others had
 * memory of, or by which they had memory of a third one, sees in its own time that they are gone.
 * Until then blocks of this one may stay, and count against its ceiling too. */
static void must_get(const member *self, unsigned mib)
{
    static peer_answer said;
    for (int i = 0; i < 6000; i++) {
        MUST(peer_ask(&self->process, PEER_MALLOC, 0, mib / 2 * 2 * MIB, &said));
        if (said.status != TNR_ERR_OUT_OF_MEMORY && said.status != TNR_ERR_LIMIT)
            break;
        fuzz.late++;
        (void)usleep(10000);
    }
    if (said.status != TNR_OK) {
        print_error("%u of %u MiB: %s\n", mib, fuzz.device_mib, said.text);
        for (unsigned i = 0; i < MEMBERS; i++)
            run(&fuzz.members[i], RANDOM_TELL, 0);
    }
    MUST(said.status == TNR_OK);
}

/* Both give up everything, and one must get all that the other's floor leaves; and the other that
 * floor. */
static void whole(void)
{
    unsigned who = (unsigned)draw(MEMBERS);
    const member *self = &fuzz.members[who];
    unsigned room = fuzz.device_mib - fuzz.members[1 - who].floor;
    for (unsigned i = 0; i < MEMBERS; i++)
        run(&fuzz.members[i], RANDOM_CLOSE, 0);
    for (unsigned i = 0; i < 2 * MEMBERS; i++) /* one that sleeps wakes when the other has ended */
        run(&fuzz.members[i % MEMBERS], RANDOM_END, i / MEMBERS);
    if (self->ceiling > 0 && self->ceiling < room)
        room = self->ceiling;
    peer_must(&self->process, PEER_WAIT_MS, 600000, 0);
    must_get(self, room);
    const member *beside = &fuzz.members[1 - who];
    if (beside->floor >= 2) {
        must_get(beside, beside->floor);
        peer_must(&beside->process, PEER_FREE, 0, 0);
    }
    peer_must(&self->process, PEER_FREE, 0, 0);
    peer_must(&self->process, PEER_WAIT_MS, 20, 0);
    fuzz.whole++;
}

static void step(void)
{
    unsigned who = (unsigned)draw(MEMBERS);
    member *self = &fuzz.members[who], *beside = &fuzz.members[1 - who];
    switch (draw(120)) {
    case 0:
        killed(self);
        break;
    case 1:
        stopped(self, beside);
        break;
    case 2:
        stopped_idle(self, beside);
        break;
    case 3:
    case 4:
        refused(self);
        break;
    case 5:
        whole();
        break;
    case 6:
        full(self);
        break;
    case 7:
        joins_late();
        break;
    default:
        if (draw(4) == 0)
            at_once();
        else
            run(self, RANDOM_OPERATIONS, some());
    }
}

static uint64_t operations_wanted, operations_each, seed_first;

static void program(uint64_t seed)
{
    fuzz.seed = fuzz.random = seed;
    fuzz.device_mib = 32 + 2 * (unsigned)draw(64);
    peers_begin(fuzz.device_mib);
    if (draw(4) == 0)
        joins_late(); /* and would be the first */
    for (unsigned i = 0; i < MEMBERS; i++) {
        member_draw(&fuzz.members[i]);
        fuzz.members[i].process = peer_start(fuzz.members[i].conf);
    }
    for (uint64_t end = fuzz.operations + operations_each; fuzz.operations < end;)
        step();
    whole();
    for (unsigned i = 0; i < MEMBERS; i++)
        run(&fuzz.members[i], RANDOM_LEAVE, 0);
    for (unsigned i = 0; i < MEMBERS; i++)
        MUST(peer_end(&fuzz.members[i].process));
    MUST(peers_left_nothing(fuzz.device_mib));
    MUST(peers_end(NULL) == 0);
}

/* ---- the test ------------------------------------------------------------------------------- */

static void two_processes(void **state)
{
    (void)state;
    for (uint64_t seed = seed_first; fuzz.operations < operations_wanted; seed++)
        program(seed);
    print_message(
        "seeds %llu to %llu: %llu operations; %llu killed, %llu stopped, %llu driver "
        "calls refused, %llu times at once, %llu times the whole device, %llu times late, "
        "%llu times a full disk\n",
        (unsigned long long)seed_first, (unsigned long long)fuzz.seed,
        (unsigned long long)fuzz.operations, (unsigned long long)fuzz.kills,
        (unsigned long long)fuzz.stops, (unsigned long long)fuzz.refusals,
        (unsigned long long)fuzz.both, (unsigned long long)fuzz.whole,
        (unsigned long long)fuzz.late, (unsigned long long)fuzz.full);
}

int main(int argc, char **argv)
{
    peer_other = other;
    if (argc == 2 && strcmp(argv[1], "peer") == 0)
        return peer_work();
    operations_wanted = argc > 1 ? strtoull(argv[1], NULL, 10) : OPERATIONS_EACH;
    operations_each = operations_wanted < OPERATIONS_EACH ? operations_wanted : OPERATIONS_EACH;
    seed_first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_processes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
