/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exports and imports between two processes: this one and a worker, which is the same program
 * started anew and does what it is told. Each of them is killed at every call of the system that an
 * export takes, at rest, and with a forked child that lives on; and each time the memory is free
 * afterwards.
 *
 * Lines of the library changed to see it fail:
 *   importer_is_over: tnri_descriptor_has_ended replaced by 0: importer_dies_at_each_call and
 *     _at_rest; the hang-up taken for nothing: importer_dies_at_each_call, importer_has_not_begun
 *   greet without tnri_descriptor_of_process: hung_up_is_not_dead
 *   child_close that closes nothing: a_child_of_the_exporter_lives
 */
#include "calls.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>
#include <tenure/tenure.h>

enum { CONTROL = 3, SHARED = 4 }; /* the worker's descriptors */

typedef struct order {
    uint64_t what, value;
} order;

typedef struct answer {
    uint64_t value;
    int64_t status;
} answer;

/* ---- the worker ----------------------------------------------------------------------------- */

static tnr_status import_here(uint64_t same_address, uint64_t *value)
{
    tnr_import_info info = {.struct_bytes = sizeof(info)};
    tnr_import_options options = TNR_IMPORT_OPTIONS_INIT;
    options.same_address = (int)same_address;
    tnr_status status = tnr_import_receive(&info, SHARED, 0, &options);
    *value = (uint64_t)(uintptr_t)info.ptr;
    return status;
}

static tnr_status carry_out(order wanted, uint64_t *value)
{
    static void *block, *import;
    static tnr_export exported;
    tnr_status status = TNR_OK;
    *value = 0;
    switch (wanted.what) {
    case 'k':
        calls_kill_at((unsigned)wanted.value);
        break;
    case 'n':
        *value = calls_count();
        break;
    case 'm':
        status = tnr_malloc(&block, wanted.value, 0, NULL);
        if (status == TNR_OK)
            mark(block, 77);
        if (status == TNR_OK)
            status = tnr_export_create(&exported, block);
        *value = (uint64_t)(uintptr_t)block;
        break;
    case 's':
        status = tnr_export_send(exported, SHARED);
        break;
    case 'f':
        status = tnr_export_close(exported);
        if (status == TNR_OK)
            status = tnr_free(block);
        break;
    case 'i':
        status = import_here(wanted.value, value);
        import = (void *)(uintptr_t)*value;
        break;
    case 'r':
        *value = marked(import);
        break;
    case 'w':
        mark(import, (unsigned)wanted.value);
        break;
    case 'c':
        status = tnr_import_close(import);
        break;
    case 'x': /* the socket to the exporter, as a process loses it that is being taken apart */
        for (int file = SHARED + 1; file < 64; file++) {
            struct stat what;
            if (fstat(file, &what) == 0 && S_ISSOCK(what.st_mode))
                (void)close(file);
        }
        break;
    case 'F':
        *value = (uint64_t)fork();
        if (*value == 0) {
            (void)alarm(60); /* should nobody end it */
            for (;;)
                pause();
        }
        break;
    default:
        _exit(9);
    }
    return status;
}

static int work(void)
{
    order wanted;
    setenv("TENURE_DRIVER", "sim", 1);
    while (read(CONTROL, &wanted, sizeof(wanted)) == (ssize_t)sizeof(wanted)) {
        answer said = {0, 0};
        said.status = carry_out(wanted, &said.value);
        if (said.status != TNR_OK)
            fprintf(stderr, "worker: %s\n", tnr_last_error());
        if (write(CONTROL, &said, sizeof(said)) != (ssize_t)sizeof(said))
            return 1;
    }
    return tnr_shutdown(1) == TNR_OK ? 0 : 2;
}

/* ---- this side ------------------------------------------------------------------------------ */

typedef struct worker {
    pid_t process;
    int control, shared;
} worker;

static worker worker_start(void)
{
    int control[2], shared[2];
    assert_int_equal(syscall(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control),
                     0);
    assert_int_equal(syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, shared), 0);
    fflush(NULL);
    pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        char program[] = "/proc/self/exe", role[] = "worker";
        char *arguments[] = {program, role, NULL};
        int there[2] = {fcntl(control[1], F_DUPFD, 10), fcntl(shared[1], F_DUPFD, 10)};
        (void)dup2(there[0], CONTROL);
        (void)dup2(there[1], SHARED);
        (void)close(there[0]);
        (void)close(there[1]);
        (void)execv(program, arguments);
        _exit(127);
    }
    (void)close(control[1]);
    (void)close(shared[1]);
    return (worker){process, control[0], shared[0]};
}

/* Gives an order. 0: the worker has ended. */
static int ask(const worker *to, uint64_t what, uint64_t value, answer *said)
{
    order wanted = {what, value};
    return send(to->control, &wanted, sizeof(wanted), MSG_NOSIGNAL) == (ssize_t)sizeof(wanted) &&
           read(to->control, said, sizeof(*said)) == (ssize_t)sizeof(*said);
}

static uint64_t must(const worker *to, uint64_t what, uint64_t value)
{
    answer said = {0, -1};
    assert_true(ask(to, what, value, &said));
    assert_int_equal(said.status, TNR_OK);
    return said.value;
}

/* Ends it, if it has not been. Returns 1 if it went of itself, with everything in order. */
static int worker_end(worker *gone, int by_force)
{
    int status = 0;
    if (by_force)
        (void)kill(gone->process, SIGKILL);
    (void)close(gone->control);
    (void)close(gone->shared);
    assert_int_equal(waitpid(gone->process, &status, 0), gone->process);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static tnr_export block_export(void **block)
{
    tnr_export exported;
    *block = unit_malloc(40 * MIB, NULL);
    mark(*block, 5);
    assert_ok(tnr_export_create(&exported, *block));
    return exported;
}

static int can_have_it_all(void)
{
    void *ptr;
    if (tnr_malloc(&ptr, 40 * MIB, 0, NULL) != TNR_OK)
        return 0;
    assert_ok(tnr_free(ptr));
    return 1;
}

/* Nobody needs the device's memory any more: all of it goes back. */
static void all_is_free(void)
{
    assert_true(can_have_it_all());
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
    simcuda_live live;
    assert_int_equal(simcuda_live_get(-1, &live), 0);
    assert_int_equal(live.handles, 0);
    assert_int_equal(live.mappings, 0);
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void there_and_back(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=64M", NULL);
    worker other = worker_start();
    void *block;
    for (uint64_t same = 0; same < 2; same++) {
        tnr_export exported = block_export(&block);
        assert_ok(tnr_export_send(exported, other.shared));
        uint64_t there = must(&other, 'i', same);
        if (same)
            assert_int_equal(there, (uintptr_t)block);
        assert_int_equal(must(&other, 'r', 0), 5);
        (void)must(&other, 'w', 6);
        assert_int_equal(marked(block), 6);
        assert_ok(tnr_export_close(exported));
        assert_ok(tnr_free(block));
        assert_false(can_have_it_all());
        (void)must(&other, 'c', 0);
        all_is_free();
    }
    assert_true(worker_end(&other, 0));
}

/* What the worker has allocated is not taken from it. */
static void the_same_address_twice(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=256M", NULL);
    worker other = worker_start();
    void *block;
    answer said;
    (void)must(&other, 'm', 4 * MIB);
    tnr_export exported = block_export(&block);
    assert_ok(tnr_export_send(exported, other.shared));
    assert_true(ask(&other, 'i', 1, &said));
    assert_int_equal(said.status, TNR_ERR_ADDRESS_SPACE);
    tnr_export_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_export_get(&info, exported));
    assert_int_equal(info.importers, 0);
    assert_ok(tnr_export_close(exported));
    assert_ok(tnr_free(block));
    all_is_free();
    (void)must(&other, 'f', 0);
    assert_true(worker_end(&other, 0));
}

static void importer_dies_at_each_call(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=64M", NULL);
    int dies = 1;
    for (unsigned nth = 1; dies; nth++) {
        void *block;
        answer said;
        worker other = worker_start();
        (void)must(&other, 'k', nth);
        tnr_export exported = block_export(&block);
        assert_ok(tnr_export_send(exported, other.shared));
        dies = !(ask(&other, 'i', 0, &said) && ask(&other, 'c', 0, &said));
        assert_int_equal(worker_end(&other, 0), !dies);
        assert_ok(tnr_free(block));
        assert_ok(tnr_export_close(exported));
        all_is_free();
    }
}

static void importer_dies_at_rest(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=64M", NULL);
    for (int with_child = 0; with_child < 2; with_child++) {
        void *block;
        worker other = worker_start();
        tnr_export exported = block_export(&block);
        assert_ok(tnr_export_send(exported, other.shared));
        (void)must(&other, 'i', 0);
        pid_t child = with_child ? (pid_t)must(&other, 'F', 0) : 0;
        assert_ok(tnr_free(block));
        assert_ok(tnr_export_close(exported));
        assert_false(can_have_it_all());
        (void)worker_end(&other, 1);
        all_is_free();
        if (child != 0)
            assert_int_equal(kill(child, SIGKILL), 0);
    }
}

/* Its work on the device may go on for longer than its descriptors are open. */
static void hung_up_is_not_dead(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=64M", NULL);
    void *block;
    worker other = worker_start();
    tnr_export exported = block_export(&block);
    assert_ok(tnr_export_send(exported, other.shared));
    (void)must(&other, 'i', 0);
    (void)must(&other, 'x', 0);
    assert_ok(tnr_free(block));
    assert_ok(tnr_export_close(exported));
    assert_false(can_have_it_all());
    (void)worker_end(&other, 1);
    all_is_free();
}

static void importer_has_not_begun(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=64M", NULL);
    void *block;
    worker other = worker_start();
    tnr_export exported = block_export(&block);
    assert_ok(tnr_export_send(exported, other.shared));
    assert_ok(tnr_free(block));
    assert_ok(tnr_export_close(exported));
    assert_false(can_have_it_all()); /* it may still begin */
    (void)worker_end(&other, 1);
    all_is_free();
}

static void exporter_dies_at_each_call(void **state)
{
    (void)state;
    unit_start(NULL, NULL, NULL);
    int dies = 1;
    for (unsigned nth = 1; dies; nth++) {
        answer said;
        tnr_import_info info = {.struct_bytes = sizeof(info)};
        worker other = worker_start();
        (void)must(&other, 'm', 9 * MIB);
        (void)must(&other, 'k', nth);
        dies = !ask(&other, 's', 0, &said);
        if (dies) /* and what it was sending with it */
            (void)worker_end(&other, 1);
        else
            (void)shutdown(other.shared, SHUT_WR);
        tnr_status status = TNR_ERR_TRANSPORT;
        if (!dies)
            status = tnr_import_receive(&info, other.shared, 0, NULL);
        if (status == TNR_OK) {
            assert_int_equal(marked(info.ptr), 77);
            (void)worker_end(&other, 1);
            assert_int_equal(marked(info.ptr), 77); /* it stays */
            assert_ok(tnr_import_close(info.ptr));
        }
        assert_ok(tnr_validate(-1));
    }
    simcuda_live live;
    assert_int_equal(simcuda_live_get(-1, &live), 0);
    assert_int_equal(live.handles, 0);
}

/* Descriptors of a process that are sockets or of processes. */
static unsigned others_descriptors(pid_t process)
{
    unsigned count = 0;
    for (int file = 0; file < 256; file++) {
        char path[64], target[64] = "";
        snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)process, file);
        if (readlink(path, target, sizeof(target) - 1) > 0)
            count += strncmp(target, "socket:", 7) == 0 || strstr(target, "pidfd") != NULL;
    }
    return count;
}

static void a_child_of_the_exporter_lives(void **state)
{
    (void)state;
    unit_start(NULL, NULL, NULL);
    tnr_import_info info = {.struct_bytes = sizeof(info)};
    worker other = worker_start();
    (void)must(&other, 'm', 9 * MIB);
    (void)must(&other, 's', 0);
    assert_ok(tnr_import_receive(&info, other.shared, 0, NULL));
    pid_t child = (pid_t)must(&other, 'F', 0);
    /* It has the two that this program gave its parent, and none of the library's: as soon as it
     * runs. */
    for (int i = 0; i < 1000 && others_descriptors(child) != 2; i++)
        (void)usleep(10000);
    assert_int_equal(others_descriptors(child), 2);
    assert_int_equal(others_descriptors(other.process), 3);
    (void)worker_end(&other, 1);
    assert_int_equal(marked(info.ptr), 77);
    assert_ok(tnr_import_close(info.ptr));
    assert_int_equal(kill(child, SIGKILL), 0);
}

#define CASE(test) cmocka_unit_test_teardown(test, unit_stop)

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "worker") == 0)
        return work();
    const struct CMUnitTest tests[] = {
        CASE(there_and_back),
        CASE(the_same_address_twice),
        CASE(importer_dies_at_each_call),
        CASE(importer_dies_at_rest),
        CASE(hung_up_is_not_dead),
        CASE(importer_has_not_begun),
        CASE(exporter_dies_at_each_call),
        CASE(a_child_of_the_exporter_lives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
