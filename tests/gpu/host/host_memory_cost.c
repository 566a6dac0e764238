/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What pinned host memory costs and is, beside cuMemHostAlloc: the setting `host` (TENURE_CONF)
 * says of which kind. host.sh runs it for both kinds.
 *
 *   first        a second for each GiB? growing by a block that nothing serves, and filling it
 *   pair         a cached allocation with its free
 *   block        3 MiB where memory is free; beside cuMemHostAlloc with cuMemFreeHost
 *   copy         both directions, in GB/s, beside memory of cuMemHostAlloc
 *   offload      blocks of many sizes, kept for a while, freed by copies that end later: reserved
 *                at its peak over what was live, and over what was live or waited for its copy
 *   layers       eight threads pin the weights of a model's layers, copy them in, free them with
 *                the copies, and once more: reserved over what was asked for, first and last
 *   attributes   what the driver answers for the pointer
 *   accounted    what memory.current or MemAvailable lost when so much was pinned, by quarters
 *   pieces       the same of the driver's own memory in pieces that are no whole pages of 2 MiB,
 *                beside one piece, how long that takes, and how many begin at such a page: what
 *                slabs of any size would cost
 *
 * Options: --mib N, the memory of first, copy and offload; --turns N, the blocks of offload. Exit
 * codes: those of program.h; 1 also if bytes were wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tenure/host.h>

#include "program.h"

enum { KEPT = 64, PAIRS = 200000, COPIES = 8 };
#define MIB ((size_t)1 << 20)

typedef struct cost {
    program *self;
    CUstream stream;
    size_t bytes;
    int turns;
    CUdeviceptr on_device;
    CUcontext context;
    int is_wrong;
} cost;

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *host_malloc(const cost *run, size_t bytes)
{
    void *ptr = NULL;
    must(run->self, tnr_host_malloc(&ptr, bytes), "tnr_host_malloc");
    return ptr;
}

static void fill(void *ptr, size_t bytes, unsigned seed)
{
    unsigned char *at = ptr;
    for (size_t i = 0; i < bytes; i += 4096)
        at[i] = (unsigned char)(i / 4096 + seed);
}

static int matches(const void *ptr, size_t bytes, unsigned seed)
{
    const unsigned char *at = ptr;
    for (size_t i = 0; i < bytes; i += 4096)
        if (at[i] != (unsigned char)(i / 4096 + seed))
            return 0;
    return 1;
}

/* ---- what it is ----------------------------------------------------------------------------- */

/* One number of a file: of a field of /proc/meminfo, or the whole of a group's. */
static double file_number(const char *path, const char *field)
{
    char line[256];
    double number = -1;
    FILE *file = fopen(path, "r");
    while (file && number < 0 && fgets(line, sizeof(line), file))
        if (strncmp(line, field, strlen(field)) == 0)
            number = atof(line + strlen(field));
    if (file)
        (void)fclose(file);
    return number;
}

/* Whether the kernel takes the pages for memory: network cards and direct reads of files need that,
 * and a child of a fork has them or not. */
static void kernel_print(const void *ptr)
{
    enum { BYTES = 4096 };
    char copy[BYTES], name[] = "/tmp/host_memory_cost.XXXXXX";
    struct iovec to = {copy, BYTES}, from = {(void *)(uintptr_t)ptr, BYTES};
    printf("  %-32s %s\n", "process_vm_readv",
           process_vm_readv(getpid(), &to, 1, &from, 1, 0) == BYTES ? "works" : strerror(errno));
    int file = mkstemp(name), direct = open(name, O_WRONLY | O_DIRECT);
    ssize_t written = direct < 0 ? -1 : write(direct, ptr, BYTES);
    printf("  %-32s %s\n", "a direct write of a file",
           written == BYTES ? "works" : strerror(errno));
    (void)unlink(name);
    (void)close(file);
    if (direct >= 0)
        (void)close(direct);
    int ends[2], status = 0;
    pid_t child = pipe(ends) != 0 ? -1 : fork();
    if (child == 0)
        _exit(write(ends[1], ptr, BYTES) == BYTES ? 0 : 1); /* a fault is an error of the call */
    int is_seen = child > 0 && waitpid(child, &status, 0) == child && status == 0;
    printf("  %-32s %s\n", "a forked child", is_seen ? "has it" : "does not have it");
}

static void attributes_print(const cost *run, const void *ptr)
{
    static const struct {
        const char *name;
        CUpointer_attribute attribute;
    } asked[] = {{"memory type (1 host, 2 device)", CU_POINTER_ATTRIBUTE_MEMORY_TYPE},
                 {"host pointer", CU_POINTER_ATTRIBUTE_HOST_POINTER},
                 {"device pointer", CU_POINTER_ATTRIBUTE_DEVICE_POINTER},
                 {"device ordinal", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL},
                 {"managed", CU_POINTER_ATTRIBUTE_IS_MANAGED},
                 {"mapped", CU_POINTER_ATTRIBUTE_MAPPED}};
    const gpu_driver *gpu = run->self->gpu;
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]) && gpu->cuPointerGetAttribute; i++) {
        unsigned long long answer = 0;
        CUresult result =
            gpu->cuPointerGetAttribute(&answer, asked[i].attribute, (CUdeviceptr)(uintptr_t)ptr);
        printf("  %-32s %d, %#llx%s\n", asked[i].name, (int)result, answer,
               answer == (uintptr_t)ptr ? " (the pointer)" : "");
    }
    CUdeviceptr there = 0;
    if (gpu->cuMemHostGetDevicePointer) {
        CUresult result = gpu->cuMemHostGetDevicePointer(&there, (void *)(uintptr_t)ptr, 0);
        printf("  %-32s %d, %#llx%s\n", "cuMemHostGetDevicePointer", (int)result,
               (unsigned long long)there, there == (uintptr_t)ptr ? " (the pointer)" : "");
    }
    kernel_print(ptr);
}

static void first_measure(const cost *run)
{
    double available = file_number("/proc/meminfo", "MemAvailable:");
    double group = file_number("/sys/fs/cgroup/memory.current", "");
    double began = now_s();
    void *ptr = host_malloc(run, run->bytes);
    double made = now_s();
    fill(ptr, run->bytes, 1);
    double filled = now_s();
    double gib = (double)run->bytes / 1073741824.0;
    printf("first: %.3f s for each GiB, and %.3f to touch it\n", (made - began) / gib,
           (filled - made) / gib);
    printf("accounted: %.0f MiB were pinned; MemAvailable fell by %.0f MiB, memory.current rose by "
           "%.0f MiB\n",
           (double)run->bytes / (double)MIB,
           (available - file_number("/proc/meminfo", "MemAvailable:")) / 1024,
           (file_number("/sys/fs/cgroup/memory.current", "") - group) / (double)MIB);
    puts("attributes of it:");
    attributes_print(run, ptr);
    must(run->self, tnr_host_free(ptr), "tnr_host_free");
    double kept = file_number("/proc/meminfo", "MemAvailable:");
    must(run->self, tnr_trim(NULL, 0, TNR_HOST(0)), "tnr_trim");
    printf("given back: MemAvailable rose by %.0f MiB\n",
           (file_number("/proc/meminfo", "MemAvailable:") - kept) / 1024);
}

/* By quarters: what is taken once does not look like what each byte takes. */
static void accounted_measure(const cost *run)
{
    enum { PARTS = 4 };
    void *parts[PARTS];
    printf("accounted, each time that %zu MiB more are pinned: MemAvailable falls by",
           run->bytes / PARTS / MIB);
    for (int i = 0; i < PARTS; i++) {
        double available = file_number("/proc/meminfo", "MemAvailable:");
        parts[i] = host_malloc(run, run->bytes / PARTS);
        fill(parts[i], run->bytes / PARTS, 1);
        printf(" %.0f", (available - file_number("/proc/meminfo", "MemAvailable:")) / 1024);
    }
    puts(" MiB");
    for (int i = 0; i < PARTS; i++)
        must(run->self, tnr_host_free(parts[i]), "tnr_host_free");
    must(run->self, tnr_trim(NULL, 0, TNR_HOST(0)), "tnr_trim");
}

/* The weights of a layer, of two bytes each: queries with keys and values, their output, both
 * halves of the feed-forward part, and two norms. None is a power of two. */
static size_t matrix_bytes(int which)
{
    enum { HIDDEN = 1152, INNER = 3100, MATRICES = 6 };
    static const size_t sizes[MATRICES] = {(size_t)HIDDEN * HIDDEN * 3,
                                           (size_t)HIDDEN * HIDDEN * 2,
                                           (size_t)HIDDEN * INNER * 4,
                                           (size_t)HIDDEN * INNER * 2,
                                           HIDDEN * 2,
                                           HIDDEN * 2};
    return sizes[which % MATRICES];
}

/* The driver's own memory, `bytes` in pieces of `piece`. */
static void piece_measure(const cost *run, size_t bytes, size_t piece)
{
    const gpu_driver *gpu = run->self->gpu;
    size_t count = bytes / piece, at_pages = 0;
    void **pieces = calloc(count, sizeof(*pieces));
    if (!pieces)
        program_fail(run->self, "no memory");
    double available = file_number("/proc/meminfo", "MemAvailable:"), began = now_s();
    for (size_t i = 0; i < count; i++) {
        must_cu(run->self, gpu->cuMemHostAlloc(&pieces[i], piece, 0), "cuMemHostAlloc");
        at_pages += (uintptr_t)pieces[i] % (2 * MIB) == 0;
    }
    double made = now_s(), asked = (double)(count * piece);
    for (size_t i = 0; i < count; i++)
        fill(pieces[i], piece, (unsigned)i);
    available -= file_number("/proc/meminfo", "MemAvailable:");
    printf("pieces: %zu of %.3f MiB by cuMemHostAlloc: %.3f s for each GiB, MemAvailable fell by "
           "%.3f of them, %zu begin at 2 MiB",
           count, (double)piece / (double)MIB, (made - began) * 1073741824.0 / asked,
           available * 1024 / asked, at_pages);
    began = now_s();
    for (size_t i = 0; i < count; i++)
        must_cu(run->self, gpu->cuMemFreeHost(pieces[i]), "cuMemFreeHost");
    printf("; %.3f s to free\n", (now_s() - began) * 1073741824.0 / asked);
    free(pieces);
}

/* All at once, and in the sizes of the layers' weights. */
static void pieces_measure(const cost *run)
{
    piece_measure(run, run->bytes / 2, run->bytes / 2);
    for (int i = 0; i < 4; i++)
        if (run->bytes / 2 >= matrix_bytes(i))
            piece_measure(run, run->bytes / 2, matrix_bytes(i));
}

/* ---- time ----------------------------------------------------------------------------------- */

static void pairs_measure(const cost *run)
{
    void *first = host_malloc(run, 4096);
    must(run->self, tnr_host_free(first), "tnr_host_free");
    double began = now_s();
    for (int i = 0; i < PAIRS; i++) {
        void *ptr = NULL;
        if (tnr_host_malloc(&ptr, 4096) != TNR_OK || tnr_free(ptr) != TNR_OK)
            program_fail(run->self, "a cached pair failed: %s", tnr_last_error());
    }
    printf("pair: %.1f ns\n", (now_s() - began) * 1e9 / PAIRS);
    began = now_s();
    for (int i = 0; i < PAIRS / 100; i++)
        must(run->self, tnr_host_free(host_malloc(run, 3 * MIB)), "tnr_host_free");
    double ours = (now_s() - began) * 1e6 / (PAIRS / 100);
    began = now_s();
    for (int i = 0; i < 20; i++) {
        void *ptr = NULL;
        must_cu(run->self, run->self->gpu->cuMemHostAlloc(&ptr, 3 * MIB, 0), "cuMemHostAlloc");
        must_cu(run->self, run->self->gpu->cuMemFreeHost(ptr), "cuMemFreeHost");
    }
    printf("block: 3 MiB and its free %.2f us; cuMemHostAlloc and cuMemFreeHost %.1f us\n", ours,
           (now_s() - began) * 1e6 / 20);
}

static double copies_measure(const cost *run, void *ptr, size_t bytes, int is_in)
{
    const gpu_driver *gpu = run->self->gpu;
    must_cu(run->self, gpu->cuStreamSynchronize(run->stream), "cuStreamSynchronize");
    double began = now_s();
    for (int i = 0; i < COPIES; i++)
        must_cu(run->self,
                is_in ? gpu->cuMemcpyHtoDAsync(run->on_device, ptr, bytes, run->stream)
                      : gpu->cuMemcpyDtoHAsync(ptr, run->on_device, bytes, run->stream),
                "a copy");
    must_cu(run->self, gpu->cuStreamSynchronize(run->stream), "cuStreamSynchronize");
    return (double)bytes * COPIES / (now_s() - began) / 1e9;
}

static void link_measure(cost *run)
{
    size_t bytes = run->bytes / 4;
    void *ours = host_malloc(run, bytes), *theirs = NULL;
    must_cu(run->self, run->self->gpu->cuMemHostAlloc(&theirs, bytes, 0), "cuMemHostAlloc");
    fill(ours, bytes, 5);
    fill(theirs, bytes, 6);
    double in = copies_measure(run, ours, bytes, 1),
           in_theirs = copies_measure(run, theirs, bytes, 1);
    in = copies_measure(run, ours, bytes, 1); /* its bytes are there now */
    memset(ours, 0, bytes);
    double out = copies_measure(run, ours, bytes, 0);
    if (!matches(ours, bytes, 5)) {
        puts("what came back is not what was copied");
        run->is_wrong = 1;
    }
    double out_theirs = copies_measure(run, theirs, bytes, 0);
    printf("copy: in %.1f GB/s beside %.1f, out %.1f GB/s beside %.1f\n", in, in_theirs, out,
           out_theirs);
    must(run->self, tnr_host_free(ours), "tnr_host_free");
    must_cu(run->self, run->self->gpu->cuMemFreeHost(theirs), "cuMemFreeHost");
}

/* ---- memory --------------------------------------------------------------------------------- */

static uint64_t random_below(uint64_t *state, uint64_t bound)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*state >> 33) % bound;
}

/* Sizes of layers, caches and batches; each block is copied in once and freed with the copy. */
static void offload_measure(cost *run)
{
    struct {
        void *ptr;
        size_t bytes;
        unsigned seed;
    } kept[KEPT] = {{NULL, 0, 0}};
    uint64_t random = 7;
    size_t live = 0, live_peak = 0;
    uint64_t reserved[11] = {0};
    must(run->self, tnr_trim(NULL, 0, TNR_HOST(0)), "tnr_trim");
    must(run->self, tnr_stats_reset_peaks(TNR_HOST(0)), "tnr_stats_reset_peaks");
    tnr_stats stats = TNR_STATS_INIT;
    for (int turn = 0; turn < run->turns; turn++) {
        size_t slot = random_below(&random, KEPT);
        if (kept[slot].ptr) {
            if (!matches(kept[slot].ptr, kept[slot].bytes, kept[slot].seed))
                run->is_wrong = 1;
            must_cu(run->self,
                    run->self->gpu->cuMemcpyHtoDAsync(run->on_device, kept[slot].ptr,
                                                      kept[slot].bytes, run->stream),
                    "a copy");
            must(run->self, tnr_free_on(kept[slot].ptr, run->stream), "tnr_free_on");
            live -= kept[slot].bytes;
        }
        size_t most = run->bytes / KEPT / 2;
        kept[slot].bytes =
            4096 + random_below(&random, most) / 100 * (1 + random_below(&random, 100));
        kept[slot].ptr = host_malloc(run, kept[slot].bytes);
        kept[slot].seed = (unsigned)turn;
        fill(kept[slot].ptr, kept[slot].bytes, kept[slot].seed);
        live += kept[slot].bytes;
        if (live > live_peak)
            live_peak = live;
        if (turn % 16 == 0)
            must_cu(run->self, run->self->gpu->cuStreamSynchronize(run->stream), "waiting");
        if (turn % (run->turns / 10) == run->turns / 10 - 1) {
            must(run->self, tnr_stats_get(&stats, NULL, TNR_HOST(0)), "tnr_stats_get");
            reserved[turn / (run->turns / 10)] = stats.reserved_bytes.peak;
        }
    }
    double ratio = (double)reserved[9] / (double)live_peak;
    double active = (double)stats.active_bytes[TNR_WORLD_ALL].peak;
    printf("offload: %.3f times the %.0f MiB that were live at the most; after a tenth %.3f; %.3f "
           "times the %.0f MiB that were live or waited for a copy\n",
           ratio, (double)live_peak / (double)MIB, (double)reserved[0] / (double)live_peak,
           (double)reserved[9] / active, active / (double)MIB);
    for (size_t i = 0; i < KEPT; i++)
        if (kept[i].ptr)
            must(run->self, tnr_free_on(kept[i].ptr, run->stream), "tnr_free_on");
    if (run->is_wrong)
        puts("a buffer was changed while it was held");
}

/* ---- eight threads -------------------------------------------------------------------------- */

enum { THREADS = 8, LAYERS_MAX = 256, PASSES = 20 };

typedef struct layers_thread {
    cost *run;
    pthread_barrier_t *pass;
    CUstream stream;
    CUdeviceptr on_device; /* its part */
    size_t asked;          /* by this thread, of one pass */
    int is_wrong;
} layers_thread;

static void *layers_run(void *user)
{
    layers_thread *self = user;
    void *blocks[LAYERS_MAX];
    const gpu_driver *gpu = self->run->self->gpu;
    must_cu(self->run->self, gpu->cuCtxSetCurrent(self->run->context), "a context");
    for (int pass = 0; pass < PASSES; pass++) {
        int count = 0;
        self->asked = 0;
        while (count < LAYERS_MAX &&
               self->asked + matrix_bytes(count) <= self->run->bytes / THREADS) {
            blocks[count] = host_malloc(self->run, matrix_bytes(count));
            fill(blocks[count], matrix_bytes(count), (unsigned)count);
            self->asked += matrix_bytes(count++);
        }
        (void)pthread_barrier_wait(self->pass); /* all have allocated */
        (void)pthread_barrier_wait(self->pass); /* the sums were taken */
        while (count-- > 0) {
            self->is_wrong |= !matches(blocks[count], matrix_bytes(count), (unsigned)count);
            size_t part = self->run->bytes / 4 / THREADS, all = matrix_bytes(count);
            must_cu(self->run->self,
                    gpu->cuMemcpyHtoDAsync(self->on_device, blocks[count], all < part ? all : part,
                                           self->stream),
                    "a copy");
            must(self->run->self, tnr_free_on(blocks[count], self->stream), "tnr_free_on");
        }
        must_cu(self->run->self, gpu->cuStreamSynchronize(self->stream), "waiting");
        (void)pthread_barrier_wait(self->pass); /* all copies are over */
    }
    return NULL;
}

static void layers_measure(cost *run)
{
    static layers_thread threads[THREADS];
    pthread_t handles[THREADS];
    pthread_barrier_t pass;
    tnr_stats stats = TNR_STATS_INIT;
    double ratios[PASSES];
    size_t asked = 0;
    must(run->self, tnr_trim(NULL, 0, TNR_HOST(0)), "tnr_trim");
    (void)pthread_barrier_init(&pass, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        threads[i] =
            (layers_thread){.run = run,
                            .pass = &pass,
                            .on_device = run->on_device + run->bytes / 4 / THREADS * (size_t)i};
        must_cu(run->self, run->self->gpu->cuStreamCreate(&threads[i].stream, 1), "a stream");
        if (pthread_create(&handles[i], NULL, layers_run, &threads[i]) != 0)
            program_fail(run->self, "no thread");
    }
    for (int i = 0; i < PASSES; i++) {
        (void)pthread_barrier_wait(&pass);
        asked = 0;
        for (int j = 0; j < THREADS; j++)
            asked += threads[j].asked;
        must(run->self, tnr_stats_get(&stats, NULL, TNR_HOST(0)), "tnr_stats_get");
        ratios[i] = (double)stats.reserved_bytes.current / (double)asked;
        (void)pthread_barrier_wait(&pass);
        (void)pthread_barrier_wait(&pass);
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(handles[i], NULL);
        run->is_wrong |= threads[i].is_wrong;
        must(run->self, tnr_stream_destroying(run->self->active.device, threads[i].stream),
             "ending a stream");
        must_cu(run->self, run->self->gpu->cuStreamDestroy(threads[i].stream), "cuStreamDestroy");
    }
    (void)pthread_barrier_destroy(&pass);
    printf(
        "layers: %d threads reserve %.3f times the %.0f MiB that they ask for, in pass %d %.3f\n",
        THREADS, ratios[0], (double)asked / (double)MIB, PASSES, ratios[PASSES - 1]);
}

int main(int argc, char **argv)
{
    static program self;
    cost run = {.self = &self, .bytes = 1024 * MIB, .turns = 20000};
    char text[512];
    int is_good = argc % 2 == 1;
    for (int i = 1; i + 1 < argc && is_good; i += 2) {
        long number = atol(argv[i + 1]);
        if (strcmp(argv[i], "--mib") == 0 && number >= 16)
            run.bytes = (size_t)number * MIB;
        else if (strcmp(argv[i], "--turns") == 0 && number >= 10 && number % 10 == 0)
            run.turns = (int)number;
        else
            is_good = 0;
    }
    if (!is_good) {
        fputs("usage: host_memory_cost [--mib N] [--turns N]\n", stderr);
        return PROGRAM_BAD_INPUT;
    }
    program_open(&self, "host_memory_cost", 1);
    printf("host_memory_cost on %s\n", session_describe(&self.active, text, sizeof(text)));
    must_cu(&self, self.gpu->cuStreamCreate(&run.stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must_cu(&self, self.gpu->cuCtxGetCurrent(&run.context), "cuCtxGetCurrent");
    run.on_device = program_malloc(&self, NULL, run.bytes / 4, run.stream);
    first_measure(&run);
    accounted_measure(&run);
    pieces_measure(&run);
    pairs_measure(&run);
    link_measure(&run);
    offload_measure(&run);
    layers_measure(&run);
    must_cu(&self, self.gpu->cuStreamSynchronize(run.stream), "cuStreamSynchronize");
    must(&self, tnr_free(program_pointer(run.on_device)), "tnr_free");
    must(&self, tnr_stream_destroying(self.active.device, run.stream), "ending a stream");
    must_cu(&self, self.gpu->cuStreamDestroy(run.stream), "cuStreamDestroy");
    int code = run.is_wrong ? PROGRAM_WRONG : PROGRAM_OK;
    if (self.sim_races && self.sim_races() > 0) {
        printf("the simulated device saw %llu races\n", (unsigned long long)self.sim_races());
        code = PROGRAM_WRONG;
    }
    program_close(&self);
    return code;
}
