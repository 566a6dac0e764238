/* SPDX-License-Identifier: Apache-2.0 */
/* See worker.h. */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"

enum { CONTROL = 3, SHARED = 4 }; /* the worker's descriptors */

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

static tnr_status open_here(const tnr_export_name *name, uint64_t *value)
{
    tnr_import_info info = {.struct_bytes = sizeof(info)};
    tnr_status status = tnr_import_open(&info, name, 0, NULL);
    *value = (uint64_t)(uintptr_t)info.ptr;
    return status;
}

/* What is told of the way that needs no export of the program's. */
static tnr_status carry_out_by_name(order wanted, void **block, uint64_t *value,
                                    tnr_export_name *name)
{
    switch (wanted.what) {
    case 'a':
        return tnr_malloc(block, wanted.value, 0, NULL);
    case 'o':
        mark(*block, 77);
        return tnr_export_offer(name, *block);
    case 'd':
        return tnr_free(*block);
    case 'p':
        return open_here(&wanted.name, value);
    case 'q':
        *value = marked((void *)(uintptr_t)wanted.value);
        return TNR_OK;
    case 'z':
        return tnr_import_close((void *)(uintptr_t)wanted.value);
    case 'e':
        calls_fail_at((unsigned)wanted.value, ENOBUFS);
        return TNR_OK;
    case 'u':
        return seteuid((uid_t)wanted.value) == 0 ? TNR_OK : TNR_ERR_BUSY;
    default:
        _exit(9);
    }
}

/* Publishes a marked block of 9 MiB, and frees it. */
static tnr_status publish_here(const char *name, unsigned word, int replace, uint64_t *value)
{
    static tnr_pool pool;
    void *ptr = NULL;
    tnr_pool_options shared = TNR_POOL_OPTIONS_INIT;
    tnr_publish_options options = TNR_PUBLISH_OPTIONS_INIT;
    tnr_status status = TNR_OK;
    shared.is_shared = 1;
    options.replace = replace;
    if (pool == NULL)
        status = tnr_pool_create(&pool, 0, &shared);
    if (status == TNR_OK)
        status = tnr_pool_malloc(&ptr, pool, 9 * MIB, 0, NULL);
    if (status != TNR_OK)
        return status;
    mark(ptr, word);
    status = tnr_publish(NULL, name, ptr, &options);
    *value = (uint64_t)(uintptr_t)ptr;
    tnr_status freed = tnr_free(ptr);
    return status == TNR_OK ? freed : status;
}

static tnr_status attach_here(const char *name, uint64_t same_address, uint64_t *value)
{
    tnr_import_info info = {.struct_bytes = sizeof(info)};
    tnr_import_options options = TNR_IMPORT_OPTIONS_INIT;
    options.same_address = (int)same_address;
    tnr_status status = tnr_attach(&info, name, 0, &options);
    *value = (uint64_t)(uintptr_t)info.ptr;
    return status;
}

/* Leaves the process room for so many more descriptors; all there was before: -1. */
static tnr_status descriptors_limit(int more)
{
    static rlim_t before;
    struct rlimit limit;
    int files[64], count = 0;
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    before = before == 0 ? limit.rlim_cur : before;
    while (count <= more && count < 64)
        files[count++] = dup(CONTROL);
    limit.rlim_cur = more < 0 ? before : (rlim_t)files[count - 1];
    while (count > 0)
        (void)close(files[--count]);
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? TNR_OK : TNR_ERR_BUSY;
}

/* What is told of names that are published. */
static tnr_status carry_out_published(order wanted, uint64_t *value)
{
    const char *name = (const char *)&wanted.name;
    tnr_published_info info = {.struct_bytes = sizeof(info)};
    tnr_status status = TNR_OK;
    switch (wanted.what) {
    case 'P':
        return publish_here(name, (unsigned)wanted.value, 0, value);
    case 'Q':
        return publish_here(name, (unsigned)wanted.value, 1, value);
    case 'R': /* one generation after the other, with their numbers as marks */
        for (unsigned i = 1; i <= wanted.value && status == TNR_OK; i++) {
            status = publish_here(name, i, 0, value);
            if (status == TNR_ERR_BUSY) { /* readers are slower: once more */
                status = TNR_OK;
                i--;
            }
        }
        return status;
    case 'U':
        return tnr_unpublish(name);
    case 'H':
        return tnr_hold(value, name, NULL);
    case 'A':
        return attach_here(name, wanted.value, value);
    case 'G':
        status = tnr_published_get(&info, name);
        *value = info.generation;
        return status;
    case 'L':
        return descriptors_limit((int)wanted.value);
    default:
        _exit(9);
    }
}

static tnr_status carry_out(order wanted, uint64_t *value, tnr_export_name *name)
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
            (void)alarm(1200); /* should nobody end it */
            for (;;)
                pause();
        }
        break;
    default:
        return strchr("PQRUHAGL", (int)wanted.what) != NULL
                   ? carry_out_published(wanted, value)
                   : carry_out_by_name(wanted, &block, value, name);
    }
    return status;
}

int worker_work(void)
{
    order wanted;
    setenv("TENURE_DRIVER", "sim", 1);
    while (read(CONTROL, &wanted, sizeof(wanted)) == (ssize_t)sizeof(wanted)) {
        answer said;
        memset(&said, 0, sizeof(said));
        said.status = carry_out(wanted, &said.value, &said.name);
        if (said.status != TNR_OK)
            fprintf(stderr, "worker: %s\n", tnr_last_error());
        if (write(CONTROL, &said, sizeof(said)) != (ssize_t)sizeof(said))
            return 1;
    }
    return tnr_shutdown(1) == TNR_OK ? 0 : 2;
}

/* ---- this side ------------------------------------------------------------------------------ */

worker worker_start(void)
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
int worker_ask(const worker *to, uint64_t what, uint64_t value, answer *said)
{
    order wanted = {what, value, said->name};
    return send(to->control, &wanted, sizeof(wanted), MSG_NOSIGNAL) == (ssize_t)sizeof(wanted) &&
           read(to->control, said, sizeof(*said)) == (ssize_t)sizeof(*said);
}

uint64_t worker_must(const worker *to, uint64_t what, uint64_t value)
{
    answer said = {0, -1, {{0}}};
    assert_true(worker_ask(to, what, value, &said));
    assert_int_equal(said.status, TNR_OK);
    return said.value;
}

/* Ends it, if it has not been. Returns 1 if it went of itself, with everything in order. */
int worker_end(worker *gone, int by_force)
{
    int status = 0;
    if (by_force)
        (void)kill(gone->process, SIGKILL);
    (void)close(gone->control);
    (void)close(gone->shared);
    assert_int_equal(waitpid(gone->process, &status, 0), gone->process);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Descriptors of a process that are sockets or of processes. */
unsigned worker_descriptors(pid_t process)
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

/* ---- the device ----------------------------------------------------------------------------- */

int worker_can_have_it_all(void)
{
    void *ptr;
    if (tnr_malloc(&ptr, 40 * MIB, 0, NULL) != TNR_OK)
        return 0;
    assert_ok(tnr_free(ptr));
    return 1;
}

/* Nobody needs the device's memory any more: all of it goes back. */
void worker_all_is_free(void)
{
    assert_true(worker_can_have_it_all());
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
    simcuda_live live;
    assert_int_equal(simcuda_live_get(-1, &live), 0);
    assert_int_equal(live.handles, 0);
    assert_int_equal(live.mappings, 0);
}
