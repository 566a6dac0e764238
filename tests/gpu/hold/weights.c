/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Published weights between processes of one device: what attaching costs, in time and in memory;
 * that a graph of the reader's replays on them when publisher and holder have been killed; and that
 * new generations are taken over while it replays. Runs on a GPU (hold.sh), and on the simulated
 * device as a test of itself.
 *
 *   weights [--driver FILE] [--device N] [--mib N] [--limit-ms N]
 *
 * --driver is what the program itself calls; the library's is TENURE_DRIVER. --mib is the size of
 * the weights; --limit-ms what attaching them may take (default 200; 0: it is not judged). All work
 * is done by other processes, the same program started anew; this one makes no context.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
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

enum { CONTROL = 10, PARTS = 16 };

static struct {
    PFN_cuInit_v2000 init;
    PFN_cuDevicePrimaryCtxRetain_v7000 retain;
    PFN_cuCtxSetCurrent_v4000 set_current;
    PFN_cuCtxSynchronize_v2000 synchronize;
    PFN_cuMemsetD32Async_v3020 fill;
    PFN_cuMemcpyDtoH_v3020 copy;
    PFN_cuMemcpyDtoDAsync_v3020 copy_inside;
    PFN_cuMemGetInfo_v3020 memory;
    PFN_cuStreamCreate_v2000 stream_create;
    PFN_cuStreamSynchronize_v2000 stream_finish;
    PFN_cuStreamBeginCapture_v10010 capture_begin;
    PFN_cuStreamEndCapture_v10000 capture_end;
    PFN_cuGraphInstantiateWithFlags_v11040 instantiate;
    PFN_cuGraphLaunch_v10000 launch;
} cu;

static const char *driver_file = "libcuda.so.1";
static int device;
static size_t weights_bytes = (size_t)1 << 30;
static long limit_ms = 200;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, tnr_last_error());  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void symbol(void *to, void *library, const char *name)
{
    *(void **)to = dlsym(library, name);
    CHECK(*(void **)to != NULL);
}

static CUcontext context;

static void driver_start(void)
{
    void *library = dlopen(driver_file, RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    symbol(&cu.init, library, "cuInit");
    symbol(&cu.retain, library, "cuDevicePrimaryCtxRetain");
    symbol(&cu.set_current, library, "cuCtxSetCurrent");
    symbol(&cu.synchronize, library, "cuCtxSynchronize");
    symbol(&cu.fill, library, "cuMemsetD32Async");
    symbol(&cu.copy, library, "cuMemcpyDtoH_v2");
    symbol(&cu.copy_inside, library, "cuMemcpyDtoDAsync_v2");
    symbol(&cu.memory, library, "cuMemGetInfo_v2");
    symbol(&cu.stream_create, library, "cuStreamCreate");
    symbol(&cu.stream_finish, library, "cuStreamSynchronize");
    symbol(&cu.capture_begin, library, "cuStreamBeginCapture_v2");
    symbol(&cu.capture_end, library, "cuStreamEndCapture");
    symbol(&cu.instantiate, library, "cuGraphInstantiateWithFlags");
    symbol(&cu.launch, library, "cuGraphLaunch");
    CHECK(cu.init(0) == CUDA_SUCCESS);
    CHECK(cu.retain(&context, device) == CUDA_SUCCESS && cu.set_current(context) == CUDA_SUCCESS);
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* ---- a worker ------------------------------------------------------------------------------- */

typedef struct order {
    uint64_t what, value;
} order;

static CUstream stream, capture_stream;
static CUgraphExec graph;
static void *results; /* where a launch copies the first word of each part to */
static tnr_import_info attached, former;

static CUdeviceptr part(const void *ptr, size_t bytes, int index)
{
    return (CUdeviceptr)(uintptr_t)ptr + bytes / PARTS / 4 * 4 * (size_t)index;
}

/* Publishes weights whose parts are filled with word, word + 1... */
static uint64_t publish(size_t bytes, unsigned word)
{
    static tnr_pool pool;
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    void *ptr;
    options.is_shared = 1;
    CHECK(pool != NULL || tnr_pool_create(&pool, device, &options) == TNR_OK);
    CHECK(tnr_pool_malloc(&ptr, pool, bytes, device, NULL) == TNR_OK);
    for (int i = 0; i < PARTS; i++)
        CHECK(cu.fill(part(ptr, bytes, i), word + (unsigned)i, bytes / PARTS / 4, NULL) ==
              CUDA_SUCCESS);
    CHECK(cu.synchronize() == CUDA_SUCCESS);
    CHECK(tnr_publish(NULL, "weights", ptr, NULL) == TNR_OK);
    CHECK(tnr_free(ptr) == TNR_OK);
    return (uint64_t)(uintptr_t)ptr;
}

/* Attaches the latest generation. Returns the nanoseconds that it took. */
static uint64_t attach(int same_address)
{
    tnr_import_options options = TNR_IMPORT_OPTIONS_INIT;
    options.same_address = same_address;
    former = attached;
    attached = (tnr_import_info){.struct_bytes = sizeof(attached)};
    double began = now_ms();
    CHECK(tnr_attach(&attached, "weights", device, &options) == TNR_OK);
    return (uint64_t)((now_ms() - began) * 1e6);
}

/* A graph that reads the first word of each part. It is captured beside the stream that launches
 * run on. */
static CUgraphExec graph_make(void)
{
    CUgraph captured;
    CUgraphExec made;
    CHECK(stream != NULL ||
          (cu.stream_create(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
           cu.stream_create(&capture_stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS));
    CHECK(results != NULL || tnr_malloc(&results, PARTS * 4, device, stream) == TNR_OK);
    CHECK(cu.capture_begin(capture_stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
    for (int i = 0; i < PARTS; i++)
        CHECK(cu.copy_inside((CUdeviceptr)(uintptr_t)results + 4 * (size_t)i,
                             part(attached.ptr, attached.bytes, i), 4,
                             capture_stream) == CUDA_SUCCESS);
    CHECK(cu.capture_end(capture_stream, &captured) == CUDA_SUCCESS);
    CHECK(cu.instantiate(&made, captured, 0) == CUDA_SUCCESS);
    return made;
}

/* 1 if a launch reads what was published with that word. */
static uint64_t replay(unsigned word)
{
    unsigned words[PARTS] = {0};
    CHECK(cu.fill((CUdeviceptr)(uintptr_t)results, 0, PARTS, stream) == CUDA_SUCCESS);
    CHECK(cu.launch(graph, stream) == CUDA_SUCCESS && cu.stream_finish(stream) == CUDA_SUCCESS);
    CHECK(cu.copy(words, (CUdeviceptr)(uintptr_t)results, sizeof(words)) == CUDA_SUCCESS);
    for (int i = 0; i < PARTS; i++)
        if (words[i] != word + (unsigned)i)
            return 0;
    return 1;
}

/* ---- load: a thread that replays for ever -------------------------------------------------- */

static struct {
    pthread_t thread;
    pthread_mutex_t lock; /* kept during a launch, and to give it another graph */
    unsigned word;        /* what that graph reads. Under the lock, as is `graph` */
    _Atomic uint64_t launches;
    _Atomic int is_ending;
} load = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *load_run(void *unused)
{
    (void)unused;
    CHECK(cu.set_current(context) == CUDA_SUCCESS);
    while (!atomic_load(&load.is_ending)) {
        CHECK(pthread_mutex_lock(&load.lock) == 0);
        CHECK(replay(load.word));
        CHECK(pthread_mutex_unlock(&load.lock) == 0);
        atomic_fetch_add(&load.launches, 1);
        (void)usleep(100); /* or nobody else would have the lock */
    }
    return NULL;
}

/* From now on what is attached last is replayed, which reads that word. */
static void load_take_over(unsigned word)
{
    CUgraphExec made = graph_make();
    CHECK(pthread_mutex_lock(&load.lock) == 0);
    graph = made;
    load.word = word;
    CHECK(pthread_mutex_unlock(&load.lock) == 0);
}

static void load_begin(unsigned word)
{
    load_take_over(word);
    CHECK(pthread_create(&load.thread, NULL, load_run, NULL) == 0);
}

/* Waits for a launch that begins from now on. */
static void load_goes_on(void)
{
    uint64_t before = atomic_load(&load.launches);
    while (atomic_load(&load.launches) < before + 2)
        (void)usleep(100);
}

static uint64_t load_end(void)
{
    atomic_store(&load.is_ending, 1);
    CHECK(pthread_join(load.thread, NULL) == 0);
    return atomic_load(&load.launches);
}

static uint64_t carry_out(order wanted)
{
    size_t free_bytes, all_bytes;
    uint64_t value = 0;
    void *ptr;
    switch (wanted.what) {
    case 'i': /* what a process does once, and is no part of attaching */
        driver_start();
        CHECK(tnr_malloc(&ptr, 1 << 20, device, NULL) == TNR_OK && tnr_free(ptr) == TNR_OK);
        return 0;
    case 'p':
        return publish(weights_bytes, (unsigned)wanted.value);
    case 'P': /* a smaller one, which has room beside the first */
        return publish(weights_bytes / 8, (unsigned)wanted.value);
    case 'h':
        CHECK(tnr_hold(&value, "weights", NULL) == TNR_OK);
        return value;
    case 'a':
        return attach((int)wanted.value);
    case 'A':
        return (uint64_t)(uintptr_t)attached.ptr;
    case 'o':
        return (uint64_t)attached.is_read_only;
    case 'm':
        CHECK(cu.memory(&free_bytes, &all_bytes) == CUDA_SUCCESS);
        return free_bytes;
    case 'g':
        graph = graph_make();
        return 0;
    case 'l':
        load_begin((unsigned)wanted.value);
        return 0;
    case 't':
        load_take_over((unsigned)wanted.value);
        return 0;
    case 'n':
        load_goes_on();
        return 0;
    case 'L':
        return load_end();
    case 'r':
        return replay((unsigned)wanted.value);
    default: /* 'c' */
        CHECK(tnr_import_close(former.ptr) == TNR_OK);
        return 0;
    }
}

static int work(void)
{
    order wanted;
    while (read(CONTROL, &wanted, sizeof(wanted)) == (ssize_t)sizeof(wanted)) {
        uint64_t said = carry_out(wanted);
        CHECK(write(CONTROL, &said, sizeof(said)) == (ssize_t)sizeof(said));
    }
    return 0;
}

typedef struct worker {
    pid_t process;
    int control;
} worker;

static char **arguments;
static int arguments_count;

static worker worker_start(void)
{
    int control[2];
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) == 0);
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0) {
        char program[] = "/proc/self/exe", role[] = "--worker", *list[16] = {program, role};
        for (int i = 1; i < arguments_count && i < 14; i++)
            list[i + 1] = arguments[i];
        (void)dup2(control[1], CONTROL);
        (void)execv(program, list);
        _exit(127);
    }
    (void)close(control[1]);
    return (worker){process, control[0]};
}

static uint64_t ask(const worker *to, uint64_t what, uint64_t value)
{
    order wanted = {what, value};
    uint64_t said = 0;
    CHECK(write(to->control, &wanted, sizeof(wanted)) == (ssize_t)sizeof(wanted));
    CHECK(read(to->control, &said, sizeof(said)) == (ssize_t)sizeof(said));
    return said;
}

static void worker_kill(const worker *gone)
{
    int status;
    CHECK(kill(gone->process, SIGKILL) == 0);
    (void)close(gone->control);
    CHECK(waitpid(gone->process, &status, 0) == gone->process);
}

/* ---- what is tried -------------------------------------------------------------------------- */

static int judge(const char *what, double ms)
{
    int is_good = limit_ms == 0 || ms <= (double)limit_ms;
    printf("%s: %.2f ms%s\n", what, ms, is_good ? "" : ": TOO LONG");
    return is_good;
}

static int attached_by_others(void)
{
    worker publisher = worker_start(), holder = worker_start(), reader = worker_start();
    (void)ask(&publisher, 'i', 0);
    (void)ask(&reader, 'i', 0);
    uint64_t there = ask(&publisher, 'p', 100);
    uint64_t before = ask(&reader, 'm', 0);
    int is_good = judge("attached at the same address", (double)ask(&reader, 'a', 1) / 1e6);
    uint64_t after = ask(&reader, 'm', 0);
    CHECK(ask(&reader, 'A', 0) == there);
    uint64_t taken = before > after ? before - after : 0;
    printf("memory of the device that it took: %.1f MiB of %.0f; mapped for reading alone: %s\n",
           (double)taken / (1 << 20), (double)weights_bytes / (1 << 20),
           ask(&reader, 'o', 0) ? "yes" : "no");
    if (limit_ms != 0)
        CHECK(taken <= weights_bytes / 64); /* tables of pages, no copy */
    (void)ask(&reader, 'g', 0);
    CHECK(ask(&reader, 'r', 100));
    double began = now_ms();
    CHECK(ask(&holder, 'h', 0) == 1);
    printf("taken over by a holder without a context: %.2f ms\n", now_ms() - began);
    worker_kill(&publisher);
    CHECK(ask(&reader, 'r', 100));
    worker late = worker_start();
    (void)ask(&late, 'i', 0);
    is_good &=
        judge("attached from the holder, the publisher killed", (double)ask(&late, 'a', 1) / 1e6);
    worker_kill(&holder);
    (void)ask(&late, 'g', 0);
    CHECK(ask(&late, 'r', 100) && ask(&reader, 'r', 100));
    worker_kill(&late);
    CHECK(ask(&reader, 'r', 100));
    worker_kill(&reader);
    printf("graph replayed, with all who held it killed: ok\n");
    return is_good;
}

/* The reader replays all the time, from a thread: while the next generation is written and
 * published, while it is attached, and while the former one is closed. */
static int taken_over_under_load(void)
{
    worker publisher = worker_start(), reader = worker_start();
    (void)ask(&publisher, 'i', 0);
    (void)ask(&reader, 'i', 0);
    (void)ask(&publisher, 'P', 1000);
    int is_good = 1;
    (void)ask(&reader, 'a', 1);
    (void)ask(&reader, 'l', 1000);
    for (unsigned i = 2; i < 6; i++) {
        (void)ask(&reader, 'n', 0);
        (void)ask(&publisher, 'P', 1000 * i);
        (void)ask(&reader, 'n', 0); /* it has the former one as long as it likes */
        is_good &= judge("the next generation attached, the former one in use",
                         (double)ask(&reader, 'a', 1) / 1e6);
        (void)ask(&reader, 't', 1000 * i);
        (void)ask(&reader, 'c', 0);
    }
    (void)ask(&reader, 'n', 0);
    worker_kill(&publisher);
    (void)ask(&reader, 'n', 0);
    printf("graph replayed meanwhile, and with the publisher killed: %llu times, all right\n",
           (unsigned long long)ask(&reader, 'L', 0));
    worker_kill(&reader);
    return is_good;
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
        } else if (strcmp(list[i], "--mib") == 0) {
            weights_bytes = (size_t)strtoul(value, NULL, 10) << 20;
        } else if (strcmp(list[i], "--limit-ms") == 0) {
            limit_ms = strtol(value, NULL, 10);
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
    char folder[] = "/tmp/tenure-hold-XXXXXX", conf[64], file[96];
    arguments = argv;
    arguments_count = argc;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (options_read(argc, argv))
        return work();
    CHECK(mkdtemp(folder) != NULL);
    (void)snprintf(conf, sizeof(conf), "control_dir:%s", folder);
    (void)setenv("TENURE_CONF", conf, 1);
    int is_good = attached_by_others();
    is_good &= taken_over_under_load();
    (void)snprintf(file, sizeof(file), "%s/weights.published", folder);
    (void)unlink(file);
    (void)rmdir(folder);
    return is_good ? 0 : 1;
}
