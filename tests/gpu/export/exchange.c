/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exports and imports between two processes of a device, or of two: contents there and back, the
 * same address, what attaching costs, and either side killed, with work under way and with a forked
 * child that lives on. Runs on a GPU (export.sh), and on the simulated device as a test of itself.
 *
 *   exchange [--driver FILE] [--device N] [--importer N] [--mib N]
 *
 * --driver is what the program itself calls; the library's is TENURE_DRIVER. The other process is
 * the same program, started anew.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>
#include <cudaTypedefs.h>
#include <tenure/tenure.h>

enum { CONTROL = 10, SHARED = 11, FILLS = 64 };

static struct {
    PFN_cuInit_v2000 init;
    PFN_cuDevicePrimaryCtxRetain_v7000 retain;
    PFN_cuCtxSetCurrent_v4000 set_current;
    PFN_cuCtxSynchronize_v2000 synchronize;
    PFN_cuMemsetD32Async_v3020 fill;
    PFN_cuMemcpyDtoH_v3020 copy;
} cu;

static const char *driver_file = "libcuda.so.1";
static int device, importer_device;
static size_t block_bytes = (size_t)1 << 30;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, tnr_last_error());  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    CHECK(found != NULL);
    return found;
}

static void driver_start(int on)
{
    CUcontext context;
    void *library = dlopen(driver_file, RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    *(void **)&cu.init = symbol(library, "cuInit");
    *(void **)&cu.retain = symbol(library, "cuDevicePrimaryCtxRetain");
    *(void **)&cu.set_current = symbol(library, "cuCtxSetCurrent");
    *(void **)&cu.synchronize = symbol(library, "cuCtxSynchronize");
    *(void **)&cu.fill = symbol(library, "cuMemsetD32Async");
    *(void **)&cu.copy = symbol(library, "cuMemcpyDtoH_v2");
    CHECK(cu.init(0) == CUDA_SUCCESS);
    CHECK(cu.retain(&context, on) == CUDA_SUCCESS && cu.set_current(context) == CUDA_SUCCESS);
}

static void fill(void *ptr, size_t bytes, unsigned value)
{
    CHECK(cu.fill((CUdeviceptr)(uintptr_t)ptr, value, bytes / 4, NULL) == CUDA_SUCCESS);
}

/* The words at the start, in the middle and at the end; the same one, or 0. */
static unsigned look(const void *ptr, size_t bytes)
{
    unsigned words[3];
    const size_t at[3] = {0, bytes / 8 * 4, bytes - 4};
    CHECK(cu.synchronize() == CUDA_SUCCESS);
    for (int i = 0; i < 3; i++)
        CHECK(cu.copy(&words[i], (CUdeviceptr)((uintptr_t)ptr + at[i]), 4) == CUDA_SUCCESS);
    return words[0] == words[1] && words[1] == words[2] ? words[0] : 0;
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* ---- the other process ---------------------------------------------------------------------- */

typedef struct order {
    uint64_t what, value;
} order;

static uint64_t carry_out(order wanted)
{
    static tnr_import_info info;
    static void *block;
    static tnr_export exported;
    tnr_import_options options = TNR_IMPORT_OPTIONS_INIT;
    pid_t child;
    switch (wanted.what) {
    case 'i':
        info.struct_bytes = sizeof(info);
        options.same_address = (int)wanted.value;
        CHECK(tnr_import_receive(&info, SHARED, importer_device, &options) == TNR_OK);
        return (uint64_t)(uintptr_t)info.ptr;
    case 'r':
        return look(info.ptr, info.bytes);
    case 'w': /* work for a while: it is told of as soon as it is queued */
        for (int i = 0; i < FILLS; i++)
            fill(info.ptr, info.bytes, (unsigned)wanted.value);
        return 0;
    case 'c':
        CHECK(tnr_import_close(info.ptr) == TNR_OK);
        return 0;
    case 'e':
        CHECK(tnr_malloc(&block, block_bytes, importer_device, NULL) == TNR_OK);
        fill(block, block_bytes, (unsigned)wanted.value);
        CHECK(cu.synchronize() == CUDA_SUCCESS);
        CHECK(tnr_export_create(&exported, block) == TNR_OK);
        CHECK(tnr_export_send(exported, SHARED) == TNR_OK);
        return 0;
    default: /* 'F' */
        child = fork();
        if (child == 0) {
            (void)alarm(120);
            for (;;)
                pause();
        }
        return (uint64_t)child;
    }
}

static int work(void)
{
    order wanted;
    driver_start(importer_device);
    while (read(CONTROL, &wanted, sizeof(wanted)) == (ssize_t)sizeof(wanted)) {
        uint64_t said = carry_out(wanted);
        CHECK(write(CONTROL, &said, sizeof(said)) == (ssize_t)sizeof(said));
    }
    return 0;
}

typedef struct worker {
    pid_t process;
    int control, shared;
} worker;

static char **arguments;
static int arguments_count;

static worker worker_start(void)
{
    int control[2], shared[2];
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, shared) == 0);
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0) {
        char program[] = "/proc/self/exe", role[] = "--worker", *list[16] = {program, role};
        int there[2] = {fcntl(control[1], F_DUPFD, 20), fcntl(shared[1], F_DUPFD, 20)};
        for (int i = 1; i < arguments_count && i < 14; i++)
            list[i + 1] = arguments[i];
        (void)dup2(there[0], CONTROL);
        (void)dup2(there[1], SHARED);
        (void)close(there[0]);
        (void)close(there[1]);
        (void)execv(program, list);
        _exit(127);
    }
    (void)close(control[1]);
    (void)close(shared[1]);
    return (worker){process, control[0], shared[0]};
}

static void tell(const worker *to, uint64_t what, uint64_t value)
{
    order wanted = {what, value};
    CHECK(write(to->control, &wanted, sizeof(wanted)) == (ssize_t)sizeof(wanted));
}

static uint64_t answer(const worker *to)
{
    uint64_t said = 0;
    CHECK(read(to->control, &said, sizeof(said)) == (ssize_t)sizeof(said));
    return said;
}

static uint64_t ask(const worker *to, uint64_t what, uint64_t value)
{
    tell(to, what, value);
    return answer(to);
}

static void worker_kill(const worker *gone)
{
    int status;
    CHECK(kill(gone->process, SIGKILL) == 0);
    (void)close(gone->control);
    (void)close(gone->shared);
    CHECK(waitpid(gone->process, &status, 0) == gone->process);
}

/* ---- what is tried -------------------------------------------------------------------------- */

/* 1 if the memory of a block that was freed is handed out again; there is no room for another. */
static int comes_back(void)
{
    void *ptr;
    tnr_status status = tnr_malloc(&ptr, block_bytes, device, NULL);
    CHECK(status == TNR_OK || status == TNR_ERR_LIMIT);
    CHECK(status != TNR_OK || tnr_free(ptr) == TNR_OK);
    return status == TNR_OK;
}

/* A new block, which the worker has imported; where, goes to `there`. It is told first: a socket
 * holds some hundred chunks, and then the sender waits for the receiver. */
static void *block_send(uint64_t *there, const worker *to, unsigned value, tnr_export *exported,
                        uint64_t same_address)
{
    void *block;
    CHECK(tnr_malloc(&block, block_bytes, device, NULL) == TNR_OK);
    fill(block, block_bytes, value);
    CHECK(cu.synchronize() == CUDA_SUCCESS);
    CHECK(tnr_export_create(exported, block) == TNR_OK);
    tell(to, 'i', same_address);
    CHECK(tnr_export_send(*exported, to->shared) == TNR_OK);
    *there = answer(to);
    return block;
}

static void there_and_back(uint64_t same_address)
{
    worker other = worker_start();
    tnr_export exported;
    uint64_t there;
    void *block = block_send(&there, &other, 11, &exported, same_address);
    CHECK(!same_address || there == (uintptr_t)block);
    CHECK(ask(&other, 'r', 0) == 11);
    (void)ask(&other, 'w', 12);
    CHECK(ask(&other, 'r', 0) == 12 && look(block, block_bytes) == 12);
    CHECK(tnr_free(block) == TNR_OK && tnr_export_close(exported) == TNR_OK);
    CHECK(!comes_back());
    (void)ask(&other, 'c', 0);
    CHECK(comes_back());
    worker_kill(&other);
    printf("%s: ok\n", same_address ? "the same address" : "there and back");
}

/* The importer is killed while the device works for it: nothing of that may be seen once the memory
 * has been handed out again. With a forked child that lives on it is killed at rest: the driver has
 * work go on while the child has the driver's descriptors (<tenure/export.h>). */
static void importer_killed(int with_child)
{
    worker other = worker_start();
    tnr_export exported;
    tnr_export_info info = {.struct_bytes = sizeof(info)};
    uint64_t there;
    void *block = block_send(&there, &other, 21, &exported, 0);
    pid_t child = with_child ? (pid_t)ask(&other, 'F', 0) : 0;
    if (!with_child)
        (void)ask(&other, 'w', 22);
    CHECK(kill(other.process, SIGKILL) == 0); /* and not waited for */
    double began = now_ms();
    do
        CHECK(tnr_export_get(&info, exported) == TNR_OK && now_ms() - began < 60000);
    while (info.importers > 0);
    double noticed = now_ms() - began;
    fill(block, block_bytes, 23);
    for (int i = 0; i < 20; i++) {
        CHECK(look(block, block_bytes) == 23);
        (void)usleep(20000);
    }
    CHECK(tnr_free(block) == TNR_OK && tnr_export_close(exported) == TNR_OK);
    CHECK(comes_back());
    worker_kill(&other);
    if (child != 0)
        CHECK(kill(child, SIGKILL) == 0);
    printf("importer killed%s: noticed after %.1f ms: ok\n",
           with_child ? ", its child lives" : " at work", noticed);
}

static void exporter_killed(void)
{
    worker other = worker_start();
    tnr_import_info info = {.struct_bytes = sizeof(info)};
    tell(&other, 'e', 31);
    CHECK(tnr_import_receive(&info, other.shared, device, NULL) == TNR_OK);
    (void)answer(&other);
    pid_t child = (pid_t)ask(&other, 'F', 0);
    worker_kill(&other);
    CHECK(look(info.ptr, info.bytes) == 31);
    fill(info.ptr, info.bytes, 32);
    CHECK(look(info.ptr, info.bytes) == 32);
    CHECK(tnr_import_close(info.ptr) == TNR_OK);
    CHECK(kill(child, SIGKILL) == 0);
    printf("exporter killed: ok\n");
}

/* What a chunk costs: sending here, and receiving there. */
static void costs(void)
{
    worker other = worker_start();
    tnr_export exported;
    uint64_t there;
    (void)block_send(&there, &other, 1, &exported, 0); /* once for all that a process does once */
    (void)ask(&other, 'c', 0);
    tell(&other, 'i', 0);
    double began = now_ms();
    CHECK(tnr_export_send(exported, other.shared) == TNR_OK);
    double sent = now_ms();
    (void)answer(&other);
    double received = now_ms();
    (void)ask(&other, 'c', 0);
    printf("%zu MiB: sent in %.2f ms, received %.2f ms later, closed in %.2f ms\n",
           block_bytes >> 20, sent - began, received - sent, now_ms() - received);
    tnr_export_info info = {.struct_bytes = sizeof(info)};
    CHECK(tnr_export_get(&info, exported) == TNR_OK && info.importers == 0);
    CHECK(tnr_export_close(exported) == TNR_OK && tnr_free(info.ptr) == TNR_OK);
    worker_kill(&other);
}

static int options_read(int count, char **list)
{
    int is_worker = 0;
    for (int i = 1; i < count; i++) {
        const char *value = i + 1 < count ? list[i + 1] : "";
        if (strcmp(list[i], "--worker") == 0) {
            is_worker = 1;
            continue;
        }
        if (strcmp(list[i], "--driver") == 0) {
            driver_file = value;
        } else if (strcmp(list[i], "--device") == 0) {
            device = (int)strtol(value, NULL, 10);
        } else if (strcmp(list[i], "--importer") == 0) {
            importer_device = (int)strtol(value, NULL, 10);
        } else if (strcmp(list[i], "--mib") == 0) {
            block_bytes = (size_t)strtoul(value, NULL, 10) << 20;
        } else {
            fprintf(stderr, "unknown option: %s\n", list[i]);
            exit(2);
        }
        i++;
    }
    return is_worker;
}

int main(int argc, char **argv)
{
    arguments = argv;
    arguments_count = argc;
    if (options_read(argc, argv))
        return work();
    driver_start(device);
    CHECK(tnr_limit_set(block_bytes + block_bytes / 2, device) == TNR_OK);
    there_and_back(0);
    if (device == importer_device)
        there_and_back(1);
    importer_killed(0);
    importer_killed(1);
    exporter_killed();
    costs();
    CHECK(tnr_shutdown(0) == TNR_OK);
    return 0;
}
