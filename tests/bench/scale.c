/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_scale: what grows, and how, from a thousand blocks on 16 streams to a million on 1,024,
 * on eight simulated GPUs with a terabyte of addresses in use.
 *
 *   bench_scale [--blocks N] [--streams N] [--operations N] [--csv FILE]
 *
 * Without --blocks and --streams, rows from 1,000 to a million blocks on 16 to 1,024 streams. Each
 * row is a fresh library: blocks of 512 B to 2 MiB, uniform, dealt to the streams in turn, the
 * streams to the devices. Then, with all of them live:
 *   cached     a random block is freed and one of its size allocated on its stream: the cached path
 *   mix        the same with another random size: what is not cached is looked for, and moved
 *   stats, snapshot   of one device; of all, written to a file in memory
 *   destroy    one stream with its share of the blocks
 *   trim       with every second block freed: what giving back all idle memory takes
 * Times are the thread's on its processor; ns are medians of batches. What calls the driver holds
 * the simulation's own time for it, so those times show how a cost grows and not what it is on a
 * GPU. Counts and bytes are exact. Instructions are counted by tests/bench/scale.py, under
 * callgrind, from the functions named measured_. Chunks are of 32 MiB unless TENURE_CONF says
 * otherwise: Linux allows a process 65,530 mappings, and a terabyte of 2 MiB chunks is more.
 *
 * Exit codes: 0 done; 1 a call failed; 2 bad arguments.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tenure/alloc.h>
#include <tenure/history.h>
#include <tenure/lifetime.h>
#include <tenure/simcuda.h>
#include <tenure_commit.h>

enum {
    DEVICES = 8,
    BATCH = 256,
    SIZE_LOW = 512,
    SIZE_HIGH = 2 << 20,
    REPEATS = 5,
    BLOCKS_MAX = 1000000,
    STREAMS_MAX = 1024
};

typedef struct options {
    size_t blocks, streams, operations; /* blocks or streams 0: all rows */
    const char *csv;
} options;

typedef struct block {
    void *ptr;
    uint32_t stream, bytes;
} block;

typedef struct scale_row {
    size_t blocks, streams, operations;
    double fill_ns, cached_ns, mix_ns, mix_mean_ns, mix_driver_ns;
    double stats_us, snapshot_ms, trim_ms, destroy_us, metadata_bytes_per_block;
    double trim_us_per_gib;
    uint64_t mix_driver; /* operations of the mix that reached the driver */
    uint64_t live_bytes, reserved_bytes, trimmed_bytes;
} scale_row;

typedef struct scale_run {
    block *blocks;
    CUstream *streams;
    CUcontext contexts[DEVICES];
    uint64_t random;
    scale_row row;
} scale_run;

static void tenure_check(tnr_status status)
{
    if (status == TNR_OK)
        return;
    fprintf(stderr, "bench_scale: %s\n", tnr_last_error());
    exit(1);
}

static void driver_check(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "bench_scale: %s: error %d\n", what, (int)result);
    exit(1);
}

/* Of this thread on a processor: other programs on the machine do not count. */
static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static size_t random_below(scale_run *run, size_t limit)
{
    run->random ^= run->random >> 12;
    run->random ^= run->random << 25;
    run->random ^= run->random >> 27;
    return (size_t)((((run->random * UINT64_C(0x2545F4914F6CDD1D)) >> 32) * limit) >> 32);
}

static int double_compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), double_compare);
    return values[count / 2];
}

/* ---- the library and its streams ------------------------------------------------------------ */

static int stream_device(size_t stream)
{
    return (int)(stream % DEVICES);
}

/* A context ends with its last reference, and its streams with it, so each run holds one. */
static void context_enter(scale_run *run, int device)
{
    if (run->contexts[device] == NULL)
        driver_check(cuDevicePrimaryCtxRetain(&run->contexts[device], device),
                     "cuDevicePrimaryCtxRetain");
    driver_check(cuCtxPushCurrent(run->contexts[device]), "cuCtxPushCurrent");
}

static void context_leave(void)
{
    CUcontext context;
    driver_check(cuCtxPopCurrent(&context), "cuCtxPopCurrent");
}

static void run_start(scale_run *run)
{
    driver_check(cuInit(0), "cuInit");
    tenure_check(tnr_init());
    for (size_t i = 0; i < run->row.streams; i++) {
        context_enter(run, stream_device(i));
        driver_check(cuStreamCreate(&run->streams[i], CU_STREAM_NON_BLOCKING), "cuStreamCreate");
        context_leave();
    }
}

static tnr_stats stats_of(int device)
{
    tnr_stats stats;
    memset(&stats, 0, sizeof(stats));
    stats.struct_bytes = sizeof(stats);
    tenure_check(tnr_stats_get(&stats, NULL, device));
    return stats;
}

/* Operations that reached the driver, and the nanoseconds in it, of all devices until now. */
static uint64_t reached_driver(uint64_t *ns)
{
    uint64_t sum = 0;
    *ns = 0;
    for (int device = 0; device < DEVICES; device++) {
        tnr_stats stats = stats_of(device);
        sum += stats.served[TNR_SERVED_LENT] + stats.served[TNR_SERVED_MOVED] +
               stats.served[TNR_SERVED_SHARED] + stats.served[TNR_SERVED_GROWN] +
               stats.served[TNR_SERVED_RECLAIMED];
        for (int kind = 0; kind < TNR_DRIVER_KIND_COUNT; kind++)
            *ns += stats.driver_ns[kind];
    }
    return sum;
}

static void block_malloc(scale_run *run, block *one, size_t bytes)
{
    one->bytes = (uint32_t)bytes;
    tenure_check(
        tnr_malloc(&one->ptr, bytes, stream_device(one->stream), run->streams[one->stream]));
}

static size_t random_bytes(scale_run *run)
{
    return SIZE_LOW + random_below(run, SIZE_HIGH - SIZE_LOW + 1);
}

/* ---- what is measured ----------------------------------------------------------------------- */

static void measure_fill(scale_run *run)
{
    scale_row *row = &run->row;
    for (size_t i = 0; i < row->streams && i < DEVICES; i++) { /* devices come into use */
        block first = {.stream = (uint32_t)i};
        block_malloc(run, &first, random_bytes(run));
        tenure_check(tnr_free(first.ptr));
    }
    uint64_t metadata = stats_of(0).metadata_bytes;
    uint64_t began = now_ns();
    for (size_t i = 0; i < row->blocks; i++) {
        run->blocks[i].stream = (uint32_t)(i % row->streams);
        block_malloc(run, &run->blocks[i], random_bytes(run));
    }
    row->fill_ns = (double)(now_ns() - began) / (double)row->blocks;
    for (int device = 0; device < DEVICES; device++) {
        tnr_stats stats = stats_of(device);
        row->live_bytes += stats.bytes_live;
        row->reserved_bytes += stats.reserved_bytes.current;
    }
    row->metadata_bytes_per_block =
        (double)(stats_of(0).metadata_bytes - metadata) / (double)row->blocks;
}

#ifdef __clang__
#define ONE_FUNCTION __attribute__((noinline))
#else
#define ONE_FUNCTION __attribute__((noinline, noclone))
#endif

static void ONE_FUNCTION measured_cached(scale_run *run)
{
    for (int i = 0; i < BATCH; i++) {
        block *one = &run->blocks[random_below(run, run->row.blocks)];
        tenure_check(tnr_free(one->ptr));
        block_malloc(run, one, one->bytes);
    }
    __asm__ volatile("" ::: "memory"); /* what comes last is no tail call */
}

static void ONE_FUNCTION measured_mix(scale_run *run)
{
    for (int i = 0; i < BATCH; i++) {
        block *one = &run->blocks[random_below(run, run->row.blocks)];
        tenure_check(tnr_free(one->ptr));
        block_malloc(run, one, random_bytes(run));
    }
    __asm__ volatile("" ::: "memory");
}

/* Runs batches; returns the median ns of an operation, and the mean in *mean. */
static double batches_run(scale_run *run, void (*body)(scale_run *run), double *mean)
{
    size_t batches = (run->row.operations + BATCH - 1) / BATCH;
    double *batch_ns = calloc(batches, sizeof(*batch_ns));
    if (batch_ns == NULL)
        exit(1);
    uint64_t began = now_ns();
    for (size_t i = 0; i < batches; i++) {
        uint64_t batch_began = now_ns();
        body(run);
        batch_ns[i] = (double)(now_ns() - batch_began) / BATCH;
    }
    *mean = (double)(now_ns() - began) / (double)(batches * BATCH);
    double result = median(batch_ns, batches);
    free(batch_ns);
    return result;
}

static void measure_operations(scale_run *run)
{
    scale_row *row = &run->row;
    double mean;
    row->cached_ns = batches_run(run, measured_cached, &mean);
    uint64_t before_ns, after_ns;
    uint64_t driver = reached_driver(&before_ns);
    row->mix_ns = batches_run(run, measured_mix, &row->mix_mean_ns);
    row->mix_driver = reached_driver(&after_ns) - driver;
    row->mix_driver_ns = (double)(after_ns - before_ns) / (double)row->operations;
}

static void measure_pictures(scale_run *run)
{
    double times[REPEATS];
    char path[64];
    for (int i = 0; i < REPEATS; i++) {
        uint64_t began = now_ns();
        (void)stats_of(0);
        times[i] = (double)(now_ns() - began) / 1e3;
    }
    run->row.stats_us = median(times, REPEATS);
    snprintf(path, sizeof(path), "/dev/shm/bench_scale.%d.json", (int)getpid());
    for (int i = 0; i < 3; i++) {
        uint64_t began = now_ns();
        tenure_check(tnr_snapshot_write(path, TNR_SNAPSHOT_JSON));
        times[i] = (double)(now_ns() - began) / 1e6;
    }
    run->row.snapshot_ms = median(times, 3);
    unlink(path);
}

/* Destroys up to ten streams that hold blocks, and puts new ones in their places. */
static void measure_destroy(scale_run *run)
{
    double times[10];
    size_t count = run->row.streams < 10 ? run->row.streams : 10;
    for (size_t i = 0; i < count; i++) {
        int device = stream_device(i);
        uint64_t began = now_ns();
        tenure_check(tnr_stream_destroying(device, run->streams[i]));
        times[i] = (double)(now_ns() - began) / 1e3;
        context_enter(run, device);
        driver_check(cuStreamDestroy(run->streams[i]), "cuStreamDestroy");
        driver_check(cuStreamCreate(&run->streams[i], CU_STREAM_NON_BLOCKING), "cuStreamCreate");
        context_leave();
    }
    run->row.destroy_us = median(times, count);
}

static void measure_trim(scale_run *run)
{
    scale_row *row = &run->row;
    for (size_t i = 0; i < row->blocks; i += 2)
        tenure_check(tnr_free(run->blocks[i].ptr));
    uint64_t began = now_ns();
    for (int device = 0; device < DEVICES; device++) {
        size_t released = 0;
        tenure_check(tnr_trim(&released, 0, device));
        row->trimmed_bytes += released;
    }
    row->trim_ms = (double)(now_ns() - began) / 1e6;
    double gib = (double)row->trimmed_bytes / (double)(1 << 30);
    row->trim_us_per_gib = gib > 0 ? row->trim_ms * 1e3 / gib : 0;
}

static void run_row(scale_run *run)
{
    run->random = UINT64_C(0x9E3779B97F4A7C15);
    run_start(run);
    measure_fill(run);
    measure_operations(run);
    measure_pictures(run);
    measure_destroy(run);
    measure_trim(run);
    for (int device = 0; device < DEVICES; device++)
        tenure_check(tnr_validate(device));
    for (size_t i = 1; i < run->row.blocks; i += 2)
        tenure_check(tnr_free(run->blocks[i].ptr));
    tenure_check(tnr_shutdown(1));
    memset(run->contexts, 0, sizeof(run->contexts));
    simcuda_reset();
}

/* ---- the command ---------------------------------------------------------------------------- */

static void row_print(const scale_row *row, FILE *out)
{
    fprintf(out, "%zu,%zu,%d,%" PRIu64 ",%" PRIu64 ",", row->blocks, row->streams, DEVICES,
            row->live_bytes, row->reserved_bytes);
    fprintf(out, "%.0f,%.1f,%.1f,%.0f,%.0f,%.5f,%.0f,", row->fill_ns, row->cached_ns, row->mix_ns,
            row->mix_mean_ns, row->mix_driver_ns, (double)row->mix_driver / (double)row->operations,
            row->metadata_bytes_per_block);
    fprintf(out, "%.2f,%.2f,%.3f,%" PRIu64 ",%.1f,%.1f\n", row->stats_us, row->snapshot_ms,
            row->trim_ms, row->trimmed_bytes, row->trim_us_per_gib, row->destroy_us);
    fflush(out);
}

static int options_read(options *wanted, int count, char **arguments)
{
    for (int i = 1; i < count; i++) {
        size_t *number = strcmp(arguments[i], "--blocks") == 0       ? &wanted->blocks
                         : strcmp(arguments[i], "--streams") == 0    ? &wanted->streams
                         : strcmp(arguments[i], "--operations") == 0 ? &wanted->operations
                                                                     : NULL;
        char *end = NULL;
        if (i + 1 < count && number != NULL) {
            *number = strtoul(arguments[++i], &end, 10);
            if (*end == '\0' && *number >= 10)
                continue;
        } else if (i + 1 < count && strcmp(arguments[i], "--csv") == 0) {
            wanted->csv = arguments[++i];
            continue;
        }
        fprintf(stderr,
                "bench_scale: bad argument '%s'.\nUsage: bench_scale [--blocks N] [--streams N] "
                "[--operations N] [--csv FILE], each N at least 10\n",
                arguments[i]);
        return 0;
    }
    return 1;
}

static void rows_run(scale_run *run, const options *wanted, FILE *out)
{
    for (size_t streams = 16; streams <= STREAMS_MAX; streams *= 8)
        for (size_t blocks = 1000; blocks <= BLOCKS_MAX; blocks *= 10) {
            run->row = (scale_row){.blocks = wanted->blocks > 0 ? wanted->blocks : blocks,
                                   .streams = wanted->streams > 0 ? wanted->streams : streams,
                                   .operations = wanted->operations};
            run_row(run);
            row_print(&run->row, out);
            if (wanted->blocks > 0 && wanted->streams > 0)
                return;
        }
}

int main(int count, char **arguments)
{
    options wanted = {.operations = 100000};
    if (!options_read(&wanted, count, arguments))
        return 2;
    setenv("TENURE_DRIVER", "sim", 0);
    setenv("TENURE_CONF", "chunk_mb:32,chunk_exact_mb:32,address_space_gb:512", 0);
    setenv("TENURE_SIM_RESERVE", "100T", 0); /* under Valgrind too */
    setenv("TENURE_SIM_DEVICES", "8", 1);
    setenv("TENURE_SIM_MEMORY", "192G", 1);
    setenv("TENURE_SIM_SCHEDULE", "eager", 1);
    FILE *out = wanted.csv == NULL ? stdout : fopen(wanted.csv, "w");
    scale_run run = {0};
    run.blocks = calloc(wanted.blocks > 0 ? wanted.blocks : BLOCKS_MAX, sizeof(*run.blocks));
    run.streams = calloc(wanted.streams > 0 ? wanted.streams : STREAMS_MAX, sizeof(CUstream));
    if (out == NULL || run.blocks == NULL || run.streams == NULL) {
        perror("bench_scale");
        return 1;
    }
    fprintf(out,
            "# command='bench_scale --operations %zu' commit=%s gpu='simulated: 8 devices' "
            "driver_cuda=13.0 cpus=%ld\n",
            wanted.operations, TNR_COMMIT, sysconf(_SC_NPROCESSORS_ONLN));
    fputs("blocks,streams,devices,live_bytes,reserved_bytes,fill_ns,cached_ns,mix_ns,mix_mean_ns,"
          "mix_driver_ns,mix_driver_share,metadata_bytes_per_block,stats_us,snapshot_ms,trim_ms,"
          "trimmed_bytes,"
          "trim_us_per_gib,destroy_us\n",
          out);
    rows_run(&run, &wanted, out);
    free(run.blocks);
    free(run.streams);
    return out == stdout || fclose(out) == 0 ? 0 : 1;
}
