/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that another process opens by name. This process and a worker (worker.h) die at every
 * system call, belong to different users, and have forked children.
 *
 * Lines of the library changed to see it fail:
 *   export_drop that forgets any offer of the block: names_that_are_none
 *   one->opened++ in import_open left out: a_name_there_and_back
 *   is_same_user always 1: another_user_is_refused
 *   sigemptyset in listener_start: signals_are_the_programs ends the program
 *   child_close that closes nothing: a_child_of_who_offers_lives
 *   offers_withdraw that closes nothing: a_name_ends_with_its_block and four more
 *   import_abandon in tnri_imported_open left out: a leak, under AddressSanitizer
 *   an offer that is there not found: a_name_there_and_back
 *   asker_take that answers on the one thread: silent_ones_keep_nobody
 *   askers_hang_up that hangs up on nobody: the_end_waits_for_nobody
 *   share_device without tnri_offered_pause: a_device_ends_under_a_request, most times, under
 *     AddressSanitizer; tnri_offered_pause that does not wait likewise
 */
#include "calls.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>
#include <tenure/tenure.h>

#include "await.h"
#include "worker.h"

/* Has the worker open a name; what comes of it. */
static tnr_status there_open(const worker *there, const tnr_export_name *name, uint64_t *address)
{
    answer said = {0, -1, *name};
    assert_true(worker_ask(there, 'p', 0, &said));
    *address = said.value;
    return (tnr_status)said.status;
}

/* The name of the worker's block. */
static tnr_export_name there_offered(const worker *there)
{
    answer said = {0, -1, {{0}}};
    assert_true(worker_ask(there, 'o', 0, &said));
    assert_int_equal(said.status, TNR_OK);
    return said.name;
}

static tnr_status open_name(const tnr_export_name *name, tnr_import_info *info)
{
    *info = (tnr_import_info){.struct_bytes = sizeof(*info)};
    return tnr_import_open(info, name, 0, NULL);
}

/* The thread that answers may still be about one that has closed a block or died, and holds blocks
 * meanwhile, small ones as well. */
static void all_is_free_at_last(void)
{
    await_true(tnr_trim(NULL, 0, 0) == TNR_OK && unit_stats().reserved_bytes.current == 0);
    worker_all_is_free();
}

static void a_name_there_and_back(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=64M", NULL);
    worker other = worker_start();
    char *block = unit_malloc(40 * MIB, NULL), *small = unit_malloc(512, NULL);
    tnr_export_name name, again, others;
    uint64_t there, twice;
    mark(block, 5);
    mark(small, 9);
    assert_ok(tnr_export_offer(&name, block + 3 * MIB));
    assert_ok(tnr_export_offer(&again, block));
    assert_ok(tnr_export_offer(&others, small));
    assert_memory_equal(&name, &again, sizeof(name));
    assert_memory_not_equal(&name, &others, sizeof(name));
    assert_ok(there_open(&other, &name, &there));
    assert_ok(there_open(&other, &name, &twice));
    assert_int_equal(there, twice);
    assert_int_equal(worker_must(&other, 'q', there), 5);
    assert_ok(tnr_free(block));
    assert_ok(there_open(&other, &name, &twice)); /* it has it */
    assert_false(worker_can_have_it_all());
    for (int i = 0; i < 3; i++) {
        assert_int_equal(worker_must(&other, 'q', there), 5);
        (void)worker_must(&other, 'z', there);
    }
    answer said = {0, -1, {{0}}};
    assert_true(worker_ask(&other, 'z', there, &said));
    assert_int_equal(said.status, TNR_ERR_FOREIGN_POINTER);
    assert_int_equal(there_open(&other, &name, &there), TNR_ERR_TRANSPORT); /* it is freed */
    assert_ok(there_open(&other, &others, &there));
    assert_int_equal(worker_must(&other, 'q', there), 9);
    assert_ok(tnr_free(small));
    (void)worker_must(&other, 'z', there);
    all_is_free_at_last();
    assert_true(worker_end(&other, 0));
}

/* Freed without an importer, it is free at once; and a block that comes to its address is another.
 */
static void a_name_ends_with_its_block(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=64M", NULL);
    tnr_export_name name, next;
    void *block = unit_malloc(40 * MIB, NULL);
    assert_ok(tnr_export_offer(&name, block));
    assert_ok(tnr_free(block));
    assert_int_equal(unit_stats().bytes_retired, 0);
    assert_ptr_equal(unit_malloc(40 * MIB, NULL), block);
    assert_ok(tnr_export_offer(&next, block));
    assert_memory_not_equal(&name, &next, sizeof(name));
    assert_ok(tnr_free_sync(block));
    all_is_free_at_last();
}

static void names_that_are_none(void **state)
{
    (void)state;
    unit_start(NULL, NULL, NULL);
    tnr_import_info info;
    tnr_export_name name, none = {{0}};
    void *block = unit_malloc(MIB, NULL);
    assert_ok(tnr_export_offer(&name, block));
    assert_int_equal(open_name(&none, &info), TNR_ERR_INVALID_ARGUMENT);
    assert_int_equal(open_name(&name, &info), TNR_ERR_INVALID_ARGUMENT); /* its own */
    assert_int_equal(open_name(NULL, &info), TNR_ERR_INVALID_ARGUMENT);
    name.words[2] ^= 1; /* nobody's socket */
    assert_int_equal(open_name(&name, &info), TNR_ERR_TRANSPORT);
    name.words[2] ^= 1;
    /* An export of the same block that ends takes the name with it no more than the block. */
    tnr_export exported;
    tnr_export_name again;
    assert_ok(tnr_export_create(&exported, block));
    assert_ok(tnr_export_close(exported));
    assert_ok(tnr_export_offer(&again, block));
    assert_memory_equal(&again, &name, sizeof(name));
    assert_int_equal(tnr_export_offer(NULL, block), TNR_ERR_INVALID_ARGUMENT);
    assert_int_equal(tnr_export_offer(&name, &info), TNR_ERR_FOREIGN_POINTER);
    assert_ok(tnr_free(block));
    assert_int_equal(tnr_export_offer(&name, block), TNR_ERR_NOT_LIVE);
}

static void another_user_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    unit_start(NULL, NULL, NULL);
    tnr_import_info info;
    uint64_t there;
    worker other = worker_start();
    tnr_export_name name, theirs;
    void *block = unit_malloc(MIB, NULL);
    assert_ok(tnr_export_offer(&name, block));
    (void)worker_must(&other, 'a', MIB);
    theirs = there_offered(&other);
    (void)worker_must(&other, 'u', 65534);
    assert_int_equal(there_open(&other, &name, &there), TNR_ERR_TRANSPORT);
    assert_int_equal(open_name(&theirs, &info), TNR_ERR_TRANSPORT);
    (void)worker_must(&other, 'u', 0);
    assert_ok(there_open(&other, &name, &there));
    (void)worker_must(&other, 'z', there);
    assert_ok(tnr_free(block));
    assert_true(worker_end(&other, 0));
}

/* The end of whoever offers, be it at each call, is an error at once, whatever children it has. */
static void who_offers_dies(void **state)
{
    (void)state;
    unit_start(NULL, NULL, NULL);
    tnr_import_info info;
    int dies = 1;
    for (unsigned nth = 1; dies; nth++) {
        worker other = worker_start();
        (void)worker_must(&other, 'a', 9 * MIB);
        tnr_export_name name = there_offered(&other);
        (void)worker_must(&other, 'k', nth);
        tnr_status status = open_name(&name, &info);
        dies = status != TNR_OK;
        if (!dies) {
            assert_int_equal(marked(info.ptr), 77);
            (void)worker_end(&other, 1);
            assert_int_equal(marked(info.ptr), 77); /* it stays */
            assert_ok(tnr_import_close(info.ptr));
        } else {
            assert_int_equal(status, TNR_ERR_TRANSPORT);
            (void)worker_end(&other, 1);
        }
        assert_ok(tnr_validate(-1));
    }
    simcuda_live live;
    assert_int_equal(simcuda_live_get(-1, &live), 0);
    assert_int_equal(live.handles, 0);
}

/* Connects as one that asks, and says no more than it is told to. */
static int asker_make(const tnr_export_name *name, int is_asking)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct {
        uint64_t magic, number;
    } request = {name->words[0], name->words[3]};
    int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "tenure-%llu-%016llx",
                          (unsigned long long)name->words[1], (unsigned long long)name->words[2]);
    int asker = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(asker >= 0);
    assert_int_equal(
        connect(asker, (const struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)),
        0);
    if (is_asking)
        assert_int_equal(send(asker, &request, sizeof(request), 0), (ssize_t)sizeof(request));
    return asker;
}

static double seconds_now(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Who connects and is silent, or asks and does not take what it is sent, keeps no other waiting;
 * neither does it keep the process from its end. */
static void silent_ones_keep_nobody(void **state)
{
    (void)state;
    enum { SILENT = 16 };
    int askers[SILENT];
    uint64_t there;
    unit_start("chunk_max_mb:2", "MEMORY=2G", NULL); /* more messages than a socket takes */
    worker other = worker_start();
    void *block = unit_malloc(700 * MIB, NULL), *small = unit_malloc(512, NULL);
    tnr_export_name name, wanted;
    assert_ok(tnr_export_offer(&name, block));
    assert_ok(tnr_export_offer(&wanted, small));
    for (int i = 0; i < SILENT; i++)
        askers[i] = asker_make(&name, i % 2);
    assert_ok(there_open(&other, &wanted, &there)); /* it gives up after the time of one of them */
    (void)worker_must(&other, 'z', there);
    for (int i = 0; i < SILENT; i++)
        (void)close(askers[i]);
    assert_ok(tnr_free(small));
    assert_ok(tnr_free(block));
    all_is_free_at_last();
    assert_true(worker_end(&other, 0));
}

/* Ends with a block that is offered and, unless `data` is null, one that asks for it in silence. */
static void end_now(void)
{
    _exit(0);
}

static void end_with_a_silent_one(void *data)
{
    tnr_export_name name;
    (void)atexit(end_now); /* after what the library does at the end, before leaks are looked for */
    unit_start(NULL, NULL, NULL);
    assert_ok(tnr_export_offer(&name, unit_malloc(MIB, NULL)));
    if (data != NULL) {
        (void)asker_make(&name, 0);
        while (worker_descriptors(getpid()) < 3) /* the listener, and both ends of this */
            (void)usleep(1000);
    }
    exit(0);
}

/* The same end without it is the measure, so that a slow machine does not matter: to wait for one
 * would take 10 s. A machine may be held up for as long once, and not each time. */
static void the_end_waits_for_nobody(void **state)
{
    (void)state;
    int asks = 1, is_at_once = 0;
    for (int tries = 0; tries < 5 && !is_at_once; tries++) {
        double began = seconds_now();
        assert_int_equal(unit_in_child(end_with_a_silent_one, NULL, 0), 0);
        double without = seconds_now() - began;
        began = seconds_now();
        assert_int_equal(unit_in_child(end_with_a_silent_one, &asks, 0), 0);
        is_at_once = seconds_now() - began < 4 * without + 8;
    }
    assert_true(is_at_once);
}

static void a_child_of_who_offers_lives(void **state)
{
    (void)state;
    unit_start(NULL, NULL, NULL);
    tnr_import_info info;
    worker other = worker_start();
    (void)worker_must(&other, 'a', 9 * MIB);
    tnr_export_name name = there_offered(&other);
    assert_int_equal(worker_descriptors(other.process), 3); /* the two, and the one that listens */
    pid_t child = (pid_t)worker_must(&other, 'F', 0);
    await_true(worker_descriptors(child) == 2);
    (void)worker_end(&other, 1);
    assert_int_equal(open_name(&name, &info), TNR_ERR_TRANSPORT); /* the child does not answer */
    assert_int_equal(kill(child, SIGKILL), 0);
}

static void who_opens_dies(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=64M", NULL);
    int dies = 1;
    for (unsigned nth = 1; dies; nth++) {
        answer said = {0, -1, {{0}}};
        worker other = worker_start();
        void *block = unit_malloc(40 * MIB, NULL);
        assert_ok(tnr_export_offer(&said.name, block));
        (void)worker_must(&other, 'k', nth);
        dies = !(worker_ask(&other, 'p', 0, &said) && worker_ask(&other, 'z', said.value, &said));
        assert_int_equal(worker_end(&other, 0), !dies);
        assert_ok(tnr_free(block));
        all_is_free_at_last();
    }
}

/* Every call of who opens fails, and leaves nothing. */
static void opening_fails(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=64M", NULL);
    worker other = worker_start();
    void *block = unit_malloc(40 * MIB, NULL);
    answer said = {0, -1, {{0}}};
    tnr_export_name name;
    assert_ok(tnr_export_offer(&name, block));
    int fails = 1;
    for (unsigned nth = 1; fails; nth++) {
        (void)worker_must(&other, 'e', nth);
        said.name = name;
        assert_true(worker_ask(&other, 'p', 0, &said));
        fails = said.status != TNR_OK;
        if (fails)
            assert_int_equal(said.status, TNR_ERR_TRANSPORT);
        (void)worker_must(&other, 'e', 0);
        assert_int_equal(worker_descriptors(other.process), fails ? 2 : 3);
    }
    (void)worker_must(&other, 'z', said.value);
    assert_ok(tnr_free(block));
    all_is_free_at_last();
    assert_true(worker_end(&other, 0));
}

/* Every call of who begins to offer fails, and the next try is as if it had never been. */
static void offering_fails(void **state)
{
    (void)state;
    unit_start(NULL, NULL, NULL);
    worker other = worker_start();
    (void)worker_must(&other, 'a', 9 * MIB);
    answer said = {0, -1, {{0}}};
    int fails = 1;
    unsigned nth = 1;
    for (; fails; nth++) {
        (void)worker_must(&other, 'e', nth);
        assert_true(worker_ask(&other, 'o', 0, &said));
        fails = said.status != TNR_OK;
        if (fails)
            assert_int_equal(said.status, TNR_ERR_TRANSPORT);
        (void)worker_must(&other, 'e', 0);
        assert_int_equal(worker_descriptors(other.process), fails ? 2 : 3);
    }
    assert_true(nth > 5); /* a number, a socket, a name, a queue */
    tnr_import_info info;
    assert_ok(open_name(&said.name, &info));
    assert_int_equal(marked(info.ptr), 77);
    assert_ok(tnr_import_close(info.ptr));
    (void)worker_must(&other, 'd', 0);
    assert_int_equal(open_name(&said.name, &info), TNR_ERR_TRANSPORT);
    assert_true(worker_end(&other, 0));
}

enum { OPENERS = 6, ROUNDS = 20 };

static pthread_barrier_t together;

/* Nobody has it open at the beginning of a round, so all ask. */
static void *opener_run(void *given)
{
    uintptr_t wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
        tnr_import_info info;
        (void)pthread_barrier_wait(&together);
        tnr_status status = open_name(given, &info);
        wrong += status != TNR_OK || marked(info.ptr) != 77;
        (void)pthread_barrier_wait(&together);
        wrong += status == TNR_OK && tnr_import_close(info.ptr) != TNR_OK;
    }
    return (void *)wrong;
}

static void many_open_at_once(void **state)
{
    (void)state;
    unit_start(NULL, NULL, NULL);
    pthread_t threads[OPENERS];
    worker other = worker_start();
    (void)worker_must(&other, 'a', 9 * MIB);
    tnr_export_name name = there_offered(&other);
    assert_int_equal(pthread_barrier_init(&together, NULL, OPENERS), 0);
    for (int i = 0; i < OPENERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, opener_run, &name), 0);
    for (int i = 0; i < OPENERS; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    assert_int_equal(pthread_barrier_destroy(&together), 0);
    simcuda_live live;
    assert_int_equal(simcuda_live_get(-1, &live), 0);
    assert_int_equal(live.mappings, 0);
    assert_int_equal(live.handles, 0);
    assert_true(worker_end(&other, 0));
}

/* A device is put out of use while its block is being sent, or about to be. */
static void a_device_ends_under_a_request(void **state)
{
    (void)state;
    enum { ROUNDS_OF_ENDS = 60 };
    unit_start(NULL, NULL, NULL);
    worker other = worker_start();
    for (unsigned i = 0; i < ROUNDS_OF_ENDS; i++) {
        order wanted = {'p', 0, {{0}}};
        answer said;
        void *block = unit_malloc(40 * MIB, NULL);
        assert_ok(tnr_export_offer(&wanted.name, block));
        assert_int_equal(send(other.control, &wanted, sizeof(wanted), 0), sizeof(wanted));
        (void)usleep(i * 50);
        assert_ok(tnr_device_end(0, 1));
        assert_int_equal(read(other.control, &said, sizeof(said)), sizeof(said));
        if (said.status == TNR_OK)
            (void)worker_must(&other, 'z', said.value);
        else
            assert_int_equal(said.status, TNR_ERR_TRANSPORT);
    }
    assert_true(worker_end(&other, 0));
}

/* Signals of the process are for the program's own threads. */
static void signals_are_the_programs(void **state)
{
    (void)state;
    unit_start(NULL, NULL, NULL);
    tnr_export_name name;
    sigset_t wanted, before;
    void *block = unit_malloc(MIB, NULL);
    assert_ok(tnr_export_offer(&name, block));
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGUSR1);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &wanted, &before), 0);
    assert_int_equal(kill(getpid(), SIGUSR1), 0); /* ends a process that lets it through */
    struct timespec most = {.tv_sec = 10};
    assert_int_equal(sigtimedwait(&wanted, NULL, &most), SIGUSR1);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    assert_ok(tnr_free(block));
}

#define CASE(test) cmocka_unit_test_teardown(test, unit_stop)

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "worker") == 0)
        return worker_work();
    const struct CMUnitTest tests[] = {
        CASE(the_end_waits_for_nobody), /* first: before the library has started here */
        CASE(a_name_there_and_back),
        CASE(a_name_ends_with_its_block),
        CASE(names_that_are_none),
        CASE(another_user_is_refused),
        CASE(who_offers_dies),
        CASE(silent_ones_keep_nobody),
        CASE(a_child_of_who_offers_lives),
        CASE(who_opens_dies),
        CASE(opening_fails),
        CASE(offering_fails),
        CASE(many_open_at_once),
        CASE(a_device_ends_under_a_request),
        CASE(signals_are_the_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
