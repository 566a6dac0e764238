/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_paths: the paths that cost something, each as a deterministic program on the simulated
 * device, for a tool that counts instructions (tests/bench/callgrind.py).
 *
 *   bench_paths --list           one line for each path: name, operations, what an operation is,
 *                                and if it wants libtenure_preload.so (path_under)
 *   bench_paths --describe       what decides the numbers: compiler, build, C library
 *   bench_paths NAME [LAYOUT]    runs one path and prints the checksum of its work
 *
 * Only the counted work runs inside path_measured(): the tool counts from that function's start to
 * its end, in whichever thread. The clock decides nothing here: time stands still on the simulated
 * device, and random numbers come from fixed seeds. So a path is the same sequence of calls in each
 * run, and its count is a property of the code; but for where addresses fall, which decides what
 * meets in a hash table. LAYOUT is a number, and each has other distances between the driver's
 * handles: a path whose count differs between layouts is judged by the least.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <gnu/libc-version.h>

#include <tenure/alloc.h>
#include <tenure/capture.h>
#include <tenure/lifetime.h>
#include <tenure_commit.h>

#include "paths.h"

enum {
    WAITING_BLOCKS = 1024,
    LIVE_MAX = 100000,
    EVENTS_MAX = 1 << 18,
    GRAPHS = 4000,
    HELD_MAX = 1 << 14,
    USERS = 4,
    CROWD = 512,  /* more would need more addresses than there are under callgrind */
    SPREAD = 7919 /* a prime */
};

/* ---- one run -------------------------------------------------------------------------------- */

/* Tells callgrind when to begin. Without its header it counts from the program's start. */
#if defined(__has_include)
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#endif
#endif
#ifdef CALLGRIND_START_INSTRUMENTATION
#define CAN_START 1
#else
#define CAN_START 0
#define CALLGRIND_START_INSTRUMENTATION (void)0
#endif

#ifdef __clang__
#define ONE_FUNCTION __attribute__((noinline))
#else
#define ONE_FUNCTION __attribute__((noinline, noclone))
#endif

/* Everything inside is counted, nothing outside. */
static void ONE_FUNCTION path_measured(path_run *run, path_body body)
{
    body(run);
    __asm__ volatile("" ::: "memory"); /* the call is no tail call */
}

void path_measure(path_run *run, path_body body)
{
    CALLGRIND_START_INSTRUMENTATION; /* what came before runs without it, at a third of the time */
    path_measured(run, body);
}

void driver_check(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "bench_paths: %s: error %d\n", what, (int)result);
        exit(1);
    }
}

uint64_t mixed(uint64_t sum, uint64_t value)
{
    sum = (sum ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return sum ^ (sum >> 31);
}

/* xorshift64*, by the high half of a product below `limit`. */
static size_t below_by(uint64_t *state, size_t limit)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (size_t)((((*state * UINT64_C(0x2545F4914F6CDD1D)) >> 32) * limit) >> 32);
}

static size_t random_below(path_run *run, size_t limit)
{
    return below_by(&run->random, limit);
}

static uint64_t layout; /* 0: that of a program that does nothing about it */

void path_apart(void)
{
    CUevent between;
    for (size_t left = layout == 0 ? 0 : below_by(&layout, 8); left > 0; left--)
        driver_check(cuEventCreate(&between, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
}

static size_t random_bytes(path_run *run)
{
    return run->what->bytes_min +
           random_below(run, run->what->bytes_max - run->what->bytes_min + 1);
}

/* ---- cached pairs --------------------------------------------------------------------------- */

void pairs(path_run *run)
{
    void *ptr;
    for (uint64_t i = 0; i < run->operations; i++) {
        tenure_check(tnr_malloc(&ptr, run->what->bytes_min, run->device, run->streams[0]));
        tenure_check(tnr_free(ptr));
    }
}

/* The same on another device than the one that was put into use first. */
static void second_device_prepare(path_run *run)
{
    CUcontext context;
    tenure_check(tnr_malloc(&run->block, run->what->bytes_min, 0, run->streams[0]));
    driver_check(cuDevicePrimaryCtxRetain(&context, 1), "cuDevicePrimaryCtxRetain");
    driver_check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    driver_check(cuStreamCreate(&run->streams[0], CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    run->device = 1;
}

/* A block on each stream, so that none of them has an idle chunk that another might take. */
static void streams_prepare(path_run *run)
{
    for (int i = 0; i < STREAMS; i++)
        tenure_check(tnr_malloc(&run->blocks[i], run->what->bytes_min, 0, run->streams[i]));
}

static void pairs_of_streams(path_run *run)
{
    void *ptr;
    for (uint64_t i = 0; i < run->operations; i++) {
        tenure_check(tnr_malloc(&ptr, run->what->bytes_min, 0, run->streams[i % STREAMS]));
        tenure_check(tnr_free(ptr));
    }
}

void path_counted(path_run *run, path_body body)
{
    run->operations = 256; /* so that everything is cached */
    body(run);
    run->operations = run->what->operations;
    path_measure(run, body);
    run->checksum = mixed(run->checksum, run->operations * run->what->bytes_min);
}

void run_pairs(path_run *run)
{
    path_counted(run, pairs);
}

static void run_streams(path_run *run)
{
    path_counted(run, pairs_of_streams);
}

/* ---- random mixes --------------------------------------------------------------------------- */

static void mix(path_run *run)
{
    for (uint64_t i = 0; i < run->operations; i++) {
        size_t place = random_below(run, run->what->live);
        size_t bytes = random_bytes(run);
        tenure_check(tnr_free(run->blocks[place]));
        tenure_check(tnr_malloc(&run->blocks[place], bytes, 0, run->streams[0]));
        run->checksum = mixed(run->checksum, (uint64_t)place << 32 | bytes);
    }
}

/* Fills the table and works on it until the arena has its shape. */
static void mix_prepare(path_run *run)
{
    for (size_t i = 0; i < run->what->live; i++)
        tenure_check(tnr_malloc(&run->blocks[i], random_bytes(run), 0, run->streams[0]));
    run->operations = run->what->live <= 2000 ? 20 * run->what->live : run->what->live;
    mix(run);
    run->checksum = 0;
}

static void run_mix(path_run *run)
{
    run->operations = run->what->operations;
    path_measure(run, mix);
}

/* ---- growth --------------------------------------------------------------------------------- */

/* So many blocks of the size. */
static void grow_prepare(path_run *run)
{
    void *ptr;
    for (size_t i = 0; i < run->what->live; i++)
        tenure_check(tnr_malloc(&ptr, run->what->bytes_min, 0, run->streams[0]));
}

static void grow(path_run *run)
{
    void *ptr;
    for (uint64_t i = 0; i < run->operations; i++) {
        tenure_check(tnr_malloc(&ptr, run->what->bytes_min, 0, run->streams[0]));
        run->checksum = mixed(run->checksum, i);
    }
}

static void run_grow(path_run *run)
{
    run->operations = run->what->operations;
    path_measure(run, grow);
}

/* ---- streams in turn ------------------------------------------------------------------------ */

enum {
    TURN_STREAMS = 8,
    TURN_BYTES = 512 << 20,
    TURN_STAYS = 16,    /* one of so many blocks stays, */
    TURN_STAY_MAX = 64, /* and at most so many of a stream */
    TURN_WARM_UP = 120
};

/* Fills TURN_BYTES with blocks of the stream's own size. Some stay until the stream's next turn, so
 * the next stream moves what lies between, and no window fits twice. */
static void turn(path_run *run, uint64_t number)
{
    size_t at = (size_t)(number % TURN_STREAMS);
    size_t bytes = (at + 1) * run->what->bytes_min;
    size_t count = TURN_BYTES / bytes;
    void **stay = &run->blocks[at * TURN_STAY_MAX];
    void **blocks = &run->blocks[TURN_STREAMS * TURN_STAY_MAX];
    for (size_t i = 0; i < count; i++) {
        tenure_check(tnr_malloc(&blocks[i], bytes, 0, run->streams[at]));
        run->checksum = mixed(run->checksum, (uintptr_t)blocks[i]);
    }
    for (size_t i = 0; i < count; i++) {
        void *gone = blocks[i];
        if (i % TURN_STAYS == 0) {
            gone = stay[i / TURN_STAYS];
            stay[i / TURN_STAYS] = blocks[i];
        }
        tenure_check(tnr_free(gone));
    }
}

static void turns(path_run *run)
{
    for (uint64_t i = 0; i < run->operations; i++)
        turn(run, TURN_WARM_UP + i);
}

static void turns_prepare(path_run *run)
{
    for (uint64_t i = 0; i < TURN_WARM_UP; i++)
        turn(run, i);
}

static void run_turns(path_run *run)
{
    run->operations = run->what->operations;
    path_measure(run, turns);
}

/* ---- streams that come ---------------------------------------------------------------------- */

static CUstream stream_make(void)
{
    CUstream stream = NULL;
    path_apart();
    driver_check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    return stream;
}

/* So many streams, each of which keeps a block and has no chunk that is free. */
static void crowd_prepare(path_run *run)
{
    void *ptr;
    for (size_t i = 0; i < run->what->live; i++)
        tenure_check(tnr_malloc(&ptr, run->what->bytes_min, 0, stream_make()));
}

static void first_blocks(path_run *run)
{
    for (uint64_t i = 0; i < run->operations; i++)
        tenure_check(tnr_malloc(&run->block, run->what->bytes_min, 0, run->streams[i]));
}

/* The first blocks of STREAMS streams. */
static void run_first_blocks(path_run *run)
{
    run->operations = run->what->operations;
    path_measure(run, first_blocks);
    run->checksum = mixed(run->checksum, run->operations * run->what->bytes_min);
}

/* ---- uses of other streams ------------------------------------------------------------------ */

static void uses_prepare(path_run *run)
{
    tenure_check(tnr_malloc(&run->block, run->what->bytes_min, 0, run->streams[0]));
}

static void record_uses(path_run *run)
{
    for (uint64_t i = 0; i < run->operations; i++)
        tenure_check(tnr_record_use(run->block, run->streams[1]));
}

static void record_streams(path_run *run)
{
    for (uint64_t i = 0; i < BATCH; i++) {
        tenure_check(tnr_record_stream(run->blocks[i], run->streams[1]));
        tenure_check(tnr_free(run->blocks[i]));
    }
}

static void alloc_use_free(path_run *run)
{
    void *ptr;
    for (uint64_t i = 0; i < run->operations; i++) {
        tenure_check(tnr_malloc(&ptr, run->what->bytes_min, 0, run->streams[0]));
        tenure_check(tnr_record_use(ptr, run->streams[1]));
        tenure_check(tnr_free(ptr));
    }
}

/* The same with several streams. */
static void alloc_uses_free(path_run *run)
{
    void *ptr;
    for (uint64_t i = 0; i < run->operations; i++) {
        tenure_check(tnr_malloc(&ptr, run->what->bytes_min, 0, run->streams[0]));
        for (int k = 1; k <= USERS; k++)
            tenure_check(tnr_record_use(ptr, run->streams[k]));
        tenure_check(tnr_free(ptr));
    }
}

static void run_record_use(path_run *run)
{
    path_counted(run, record_uses);
}

static void run_alloc_use_free(path_run *run)
{
    path_counted(run, alloc_use_free);
}

static void run_alloc_uses_free(path_run *run)
{
    path_counted(run, alloc_uses_free);
}

/* The allocations are not counted, so this goes batch by batch. The first ones warm up. */
static void run_record_stream(path_run *run)
{
    uint64_t batches = run->what->operations / BATCH;
    for (uint64_t batch = 0; batch < batches + 4; batch++) {
        for (uint64_t i = 0; i < BATCH; i++)
            tenure_check(tnr_malloc(&run->blocks[i], run->what->bytes_min, 0, run->streams[0]));
        if (batch < 4)
            record_streams(run);
        else
            path_measure(run, record_streams);
    }
    run->checksum = mixed(run->checksum, run->what->operations * run->what->bytes_min);
}

/* Freed blocks that wait for a stream that is held back, and one that does not: the cached one. */
static void waiting_prepare(path_run *run)
{
    void *blocks[WAITING_BLOCKS + 1];
    void *word = NULL;
    CUstream held = run->streams[STREAMS - 1];
    driver_check(cuMemHostAlloc(&word, 4096, CU_MEMHOSTALLOC_DEVICEMAP), "cuMemHostAlloc");
    run->gate = word;
    *run->gate = 0;
    driver_check(
        cuStreamWaitValue32(held, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ),
        "cuStreamWaitValue32");
    for (int i = 0; i <= WAITING_BLOCKS; i++) {
        tenure_check(tnr_malloc(&blocks[i], run->what->bytes_min, 0, run->streams[0]));
        if (i < WAITING_BLOCKS)
            tenure_check(tnr_record_use(blocks[i], held));
    }
    for (int i = WAITING_BLOCKS; i >= 0; i--)
        tenure_check(tnr_free(blocks[i]));
}

static void run_waiting(path_run *run)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    run_pairs(run);
    tenure_check(tnr_stats_get(&stats, NULL, 0));
    if (stats.blocks_retired != WAITING_BLOCKS) {
        fprintf(stderr, "bench_paths: %llu blocks waited at the end, not %d\n",
                (unsigned long long)stats.blocks_retired, WAITING_BLOCKS);
        exit(1);
    }
    __atomic_store_n(run->gate, 1, __ATOMIC_SEQ_CST);
    driver_check(cuStreamSynchronize(run->streams[STREAMS - 1]), "cuStreamSynchronize");
}

/* ---- events and graphs ---------------------------------------------------------------------- */

static void event_announce(path_run *run, CUevent event)
{
    tnr_moment before = tnr_moment_now();
    driver_check(cuEventRecord(event, run->streams[0]), "cuEventRecord");
    tenure_check(tnr_event_recorded(event, 0, run->streams[0], before));
}

/* Events of all ages in turn. */
static void announce(path_run *run)
{
    for (uint64_t i = 0; i < run->operations; i++)
        event_announce(run, run->events[i * SPREAD % run->what->live]);
}

static void events_prepare(path_run *run)
{
    run->events = calloc(run->what->live, sizeof(*run->events));
    if (!run->events)
        exit(1);
    for (size_t i = 0; i < run->what->live; i++) {
        path_apart();
        driver_check(cuEventCreate(&run->events[i], CU_EVENT_DISABLE_TIMING), "cuEventCreate");
        event_announce(run, run->events[i]);
    }
}

static void run_announce(path_run *run)
{
    path_counted(run, announce);
    free(run->events);
}

/* What a collective library's own streams do: an event is recorded again, and waited for by another
 * stream. Neither stream has memory. */
static void follow(path_run *run)
{
    for (uint64_t i = 0; i < run->operations; i++) {
        CUevent event = run->events[i % run->what->live];
        tnr_moment before = tnr_moment_now();
        tnr_event_destroyed(event);
        driver_check(cuEventRecord(event, run->streams[1]), "cuEventRecord");
        tenure_check(tnr_event_recorded(event, 0, run->streams[1], before));
        before = tnr_moment_now();
        driver_check(cuStreamWaitEvent(run->streams[2], event, 0), "cuStreamWaitEvent");
        tenure_check(tnr_stream_waited(event, 0, run->streams[2], before));
    }
}

static void run_follow(path_run *run)
{
    path_counted(run, follow);
    free(run->events);
}

/* ---- graphs --------------------------------------------------------------------------------- */

static void launches(path_run *run)
{
    for (uint64_t i = 0; i < run->operations; i++)
        tenure_check(tnr_graph_launch(run->graph, (tnr_cuda_graph_exec)run->exec, run->streams[0]));
}

/* Captures what->live graphs into one pool; the first or the last of them is to be launched. */
static void graphs_prepare(path_run *run, size_t launched)
{
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    tenure_check(tnr_graph_pool_create(&options.pool, 0, NULL));
    for (size_t i = 0; i < run->what->live; i++) {
        void *block = NULL;
        tnr_cuda_graph cuda = NULL;
        tnr_graph number = 0;
        path_apart();
        tenure_check(tnr_capture_begin(0, run->streams[0], &options));
        tenure_check(tnr_malloc(&block, run->what->bytes_min, 0, run->streams[0]));
        driver_check(cuMemsetD8Async((CUdeviceptr)(uintptr_t)block, 1, run->what->bytes_min,
                                     run->streams[0]),
                     "cuMemsetD8Async");
        tenure_check(tnr_free(block));
        tenure_check(tnr_capture_end(&cuda, &number, 0, run->streams[0]));
        if (i != launched)
            continue;
        run->graph = number;
        driver_check(cuGraphInstantiateWithFlags(&run->exec, (CUgraph)cuda, 0),
                     "cuGraphInstantiateWithFlags");
    }
}

static void oldest_prepare(path_run *run)
{
    graphs_prepare(run, 0);
}

static void newest_prepare(path_run *run)
{
    graphs_prepare(run, run->what->live - 1);
}

static void run_launch(path_run *run)
{
    path_counted(run, launches);
}

/* Blocks of all ages in turn, each of which the graph under construction keeps already. */
static void holds(path_run *run)
{
    for (uint64_t i = 0; i < run->operations; i++)
        tenure_check(tnr_record_use(run->blocks[i * SPREAD % run->what->live], run->streams[1]));
}

static void holds_prepare(path_run *run)
{
    for (size_t i = 0; i < run->what->live; i++)
        tenure_check(tnr_malloc(&run->blocks[i], run->what->bytes_min, 0, run->streams[0]));
    tenure_check(tnr_capture_begin(0, run->streams[1], NULL));
    run->operations = run->what->live;
    holds(run);
}

static void run_holds(path_run *run)
{
    path_counted(run, holds);
    tenure_check(tnr_capture_abort(0, run->streams[1]));
}

/* ---- the table ------------------------------------------------------------------------------ */

#define SMALL_LIVE 512, 256 << 10
#define ALL_LARGE 8 << 10, 256 << 10

static const path paths[] = {
    {"pair_512", 16384, NULL, run_pairs, 512, 0, 0, "", "cached allocation and free of 512 B", 0},
    {"pair_1m", 16384, NULL, run_pairs, 1 << 20, 0, 0, "", "cached allocation and free of 1 MiB",
     0},
    {"pair_16m", 16384, NULL, run_pairs, 16 << 20, 0, 0, "", "cached allocation and free of 16 MiB",
     0},
    {"pair_device_1", 16384, second_device_prepare, run_pairs, 512, 0, 0, "",
     "cached allocation and free of 512 B on the second device", 0},
    {"pair_16_streams", 16384, streams_prepare, run_streams, 4096, 0, STREAMS, "",
     "cached pair of 4 KiB, each on the next of 16 streams", 0},
    {"pair_shared", 16384, NULL, run_shared, 4096, 0, 0, "",
     "cached pair of 4 KiB on a stream that another thread has used too", 0},
    {"pair_waiting", 16384, waiting_prepare, run_waiting, 4096, 0, 0, "",
     "cached pair of 4 KiB while 1,024 blocks wait for another stream", 0},
    {"pair_history", 16384, NULL, run_pairs, 4096, 0, 0, "history:light",
     "cached pair of 4 KiB with history:light", 0},
    {"handover", 16384, NULL, run_handover, 4096, 0, BATCH, "",
     "4 KiB: allocation by one thread, free by another", 0},
    {"mix_2000", 16384, mix_prepare, run_mix, 512, 8 << 20, 2000, "",
     "free and allocation of 512 B to 8 MiB, 2,000 live blocks", 0},
    {"mix_small_1000", 16384, mix_prepare, run_mix, SMALL_LIVE, 1000, "",
     "free and allocation of 512 B to 256 KiB, 1,000 live blocks", 0},
    {"mix_small_100000", 16384, mix_prepare, run_mix, SMALL_LIVE, LIVE_MAX, "",
     "the same with 100,000 live blocks", 0},
    {"mix_large_1000", 16384, mix_prepare, run_mix, ALL_LARGE, 1000, "small_limit_kb:4",
     "free and allocation of 8 to 256 KiB, all of them large blocks (small_limit_kb:4), 1,000 "
     "live",
     0},
    {"mix_large_100000", 16384, mix_prepare, run_mix, ALL_LARGE, LIVE_MAX, "small_limit_kb:4",
     "the same with 100,000 live blocks", 0},
    {"record_use", 8192, uses_prepare, run_record_use, 4096, 0, 0, "",
     "tnr_record_use of a live block", 0},
    {"record_stream", 8192, NULL, run_record_stream, 4096, 0, BATCH, "",
     "tnr_record_stream and free", 0},
    {"alloc_use_free", 8192, NULL, run_alloc_use_free, 4096, 0, 0, "",
     "allocation, tnr_record_use, free", 0},
    {"alloc_4_uses_free", 4096, NULL, run_alloc_uses_free, 4096, 0, 0, "",
     "the same with uses of four streams", 0},
    {"announce", 4096, events_prepare, run_announce, 1, 0, 64, "",
     "tnr_event_recorded, 64 events in turn", 0},
    {"announce_many", 4096, events_prepare, run_announce, 1, 0, EVENTS_MAX, "",
     "the same, 262,144 events", 0},
    {"follow", 4096, events_prepare, run_follow, 1, 0, 4, "",
     "tnr_event_destroyed, _recorded, tnr_stream_waited, of streams without memory", 0},
    {"hold", 4096, holds_prepare, run_holds, 512, 0, 64, "",
     "tnr_record_use in a capture of one of 64 blocks outside", 0},
    {"hold_many", 4096, holds_prepare, run_holds, 512, 0, HELD_MAX, "", "the same, one of 16,384",
     0},
    {"grow", 256, grow_prepare, run_grow, (1 << 20) + 512, 0, 100, "",
     "a block of 1 MiB and 512 B for which the pool grows, beside 100", 0},
    {"grow_many", 256, grow_prepare, run_grow, (1 << 20) + 512, 0, 10000, "",
     "the same beside 10,000", 0},
    {"turns", 16, turns_prepare, run_turns, 700 << 10, 0, 2048, "move_burst_ms:100000",
     "the turn of one of eight streams that take memory from each other: 512 MiB of blocks", 0},
    {"first_block", STREAMS, crowd_prepare, run_first_blocks, 64 << 10, 0, 64, "",
     "first block of a stream, beside 64 streams with a block each", 0},
    {"first_block_many", STREAMS, crowd_prepare, run_first_blocks, 64 << 10, 0, CROWD, "",
     "the same beside 512", 0},
    {"launch_newest", 1024, newest_prepare, run_launch, 4096, 0, GRAPHS, "",
     "tnr_graph_launch of the newest of 4,000 graphs", 0},
    {"launch_oldest", 1024, oldest_prepare, run_launch, 4096, 0, GRAPHS, "",
     "the same of the oldest", 0},
    {"launch_history", 1024, newest_prepare, run_launch, 4096, 0, GRAPHS, "history:light",
     "tnr_graph_launch with history:light", 0},
    {"run_record", 4096, preloaded_prepare, run_records, 1, 0, 4, "",
     "cuEventRecord under tenure run, on a stream without memory; two devices are served", 1},
    {"run_record_default", 4096, preloaded_prepare, run_records_default, 1, 0, 4, "",
     "the same on the default stream", 1},
    {"run_wait", 4096, preloaded_prepare, run_waits, 1, 0, 4, "",
     "cuStreamWaitEvent under tenure run, of streams without memory", 1},
    {"run_record_owner", 4096, preloaded_prepare, run_records_asked, 1, 0, 4, "",
     "cuEventRecord under tenure run, on a stream that has memory", 1},
    {"run_wait_owner", 4096, preloaded_prepare, run_waits_asked, 1, 0, 4, "",
     "cuStreamWaitEvent under tenure run, for a stream that has memory", 1},
    {"run_ring", 4096, preloaded_prepare, run_ring, 1, 0, 4, "",
     "cuEventRecord and cuStreamWaitEvent under tenure run, back and forth between a stream that "
     "has memory and one that has not",
     1},
    {"run_kernel", 4096, preloaded_prepare, run_kernels, 1, 0, 4, "",
     "cuLaunchKernel under tenure run", 1},
    {"check_launch", 4096, checked_prepare, run_checked, 0, 0, 64, "",
     "cuLaunchKernel under --check from 17 frames, 3 of 16 parameters are addresses", UNDER_CHECK},
    {"check_script", 4096, script_prepare, run_checked, 0, 0, 64, "",
     "the same from a script, at one of 600 lines each time", UNDER_CHECK},
    {"check_structure", 4096, checked_prepare, run_checked, 4096, 0, 64, "",
     "the same with the addresses in a structure of 4 KiB", UNDER_CHECK},
    {"seen_launch", 4096, checked_prepare, run_checked, 0, 0, 64, "",
     "cuLaunchKernel with auto_record:seen from 17 frames", UNDER_RECORD},
    {"seen_structure", 4096, checked_prepare, run_checked, 4096, 0, 64, "",
     "the same with the addresses in a structure of 4 KiB", UNDER_RECORD},
    {"check_list", 1024, checked_prepare, run_checked, 4096, 200, 1000, "",
     "cuLaunchKernel under --check with 200 addresses in a structure of 4 KiB", UNDER_CHECK},
    {"seen_list", 1024, checked_prepare, run_checked, 4096, 200, 1000, "",
     "the same with auto_record:seen", UNDER_RECORD},
    {"check_stale", 1024, stale_prepare, run_checked, 4096, 200, 1000, "",
     "the same under --check, each second address of a block that was freed", UNDER_CHECK},
    {"seen_stale", 1024, stale_prepare, run_checked, 4096, 200, 1000, "",
     "the same with auto_record:seen", UNDER_RECORD},
    {"check_fresh", 256, stale_prepare, run_fresh, 4096, 200, 1000, "",
     "the same under --check, where these 100 blocks were allocated and freed before each launch",
     UNDER_CHECK},
    {"run_replace", 8192, replaced_prepare, run_replaced, 512, 8 << 20, 1000, "",
     "tnr_free and tnr_malloc under tenure run of 512 B to 8 MiB, 1,000 live blocks", UNDER_RUN},
    {"seen_replace", 8192, replaced_prepare, run_replaced, 512, 8 << 20, 1000, "",
     "the same with auto_record:seen, from 17 frames", UNDER_RECORD},
    {"check_replace", 8192, replaced_prepare, run_replaced, 512, 8 << 20, 1000, "",
     "the same under --check", UNDER_CHECK},
    {"seen_sole_replace", 8192, sole_replaced_prepare, run_replaced, 512, 8 << 20, 1000, "",
     "the same with auto_record:seen, if that stream alone has memory", UNDER_RECORD},
    {"seen_sole", 4096, sole_prepare, run_checked, 0, 0, 64, "",
     "cuLaunchKernel with auto_record:seen on a stream that alone has memory", UNDER_RECORD},
    {"seen_ring", 4096, preloaded_prepare, run_ring, 1, 0, 4, "",
     "cuEventRecord and cuStreamWaitEvent with auto_record:seen, as in run_ring", UNDER_RECORD},
    {"check_ring", 4096, preloaded_prepare, run_ring, 1, 0, 4, "", "the same under --check",
     UNDER_CHECK},
    {"check_fork", 4096, forks_prepare, run_forks, 0, 0, 64, "",
     "cuMemsetD8Async, cuEventRecord and cuStreamWaitEvent under --check, by one of 64 streams",
     UNDER_CHECK},
    {"check_fork_many", 4096, forks_prepare, run_forks, 0, 0, 8192, "", "the same, one of 8,192",
     UNDER_CHECK},
};
enum { PATHS = sizeof(paths) / sizeof(paths[0]) };

static const path *path_find(const char *name)
{
    for (size_t i = 0; i < PATHS; i++)
        if (strcmp(paths[i].name, name) == 0)
            return &paths[i];
    return NULL;
}

static int path_go(const path *what)
{
    static path_run run;
    char settings[256];
    CUcontext context;
    snprintf(settings, sizeof(settings), "address_space_gb:40%s%s", *what->settings ? "," : "",
             what->settings);
    /* What the environment says otherwise must not change the counts. */
    setenv("TENURE_CONF", settings, 1);
    if (!what->under)
        setenv("TENURE_DRIVER", "sim", 1);
    setenv("TENURE_SIM_SCHEDULE", "eager", 1);
    setenv("TENURE_SIM_MEMORY", "139G", 1);
    setenv("TENURE_SIM_DEVICES", "2", 1);
    run.what = what;
    run.random = UINT64_C(0x9E3779B97F4A7C15);
    if (!what->under)
        tenure_check(tnr_init());
    driver_check(cuInit(0), "cuInit");
    driver_check(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    driver_check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    for (int i = 0; i < STREAMS; i++)
        run.streams[i] = stream_make();
    run.blocks = calloc(what->live + 1, sizeof(*run.blocks));
    if (!run.blocks)
        return 1;
    if (what->prepare)
        what->prepare(&run);
    what->run(&run);
    if (!what->under)
        tenure_check(tnr_shutdown(1));
    printf("%s %llu checksum %016llx\n", what->name, (unsigned long long)what->operations,
           (unsigned long long)run.checksum);
    free(run.blocks);
    return 0;
}

/* What the counts depend on beside the source. */
static void describe(void)
{
#ifdef __clang__
    const char *compiler = "clang " __clang_version__;
#else
    const char *compiler = "gcc " __VERSION__;
#endif
    printf("commit=%s compiler=\"%.*s\" build=\"%s\" glibc=%s starts=%d\n", TNR_COMMIT,
           (int)strcspn(compiler + 6, " ") + 6, compiler, TNR_BENCH_BUILD, gnu_get_libc_version(),
           CAN_START);
}

int main(int argc, char **argv)
{
    const path *what = argc == 2 || argc == 3 ? path_find(argv[1]) : NULL;
    layout = argc == 3 ? strtoull(argv[2], NULL, 10) * UINT64_C(0x9E3779B97F4A7C15) : 0;
    if (what)
        return path_go(what);
    if (argc == 2 && strcmp(argv[1], "--describe") == 0) {
        describe();
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < PATHS; i++)
            printf("%s\t%llu\t%s\t%d\n", paths[i].name, (unsigned long long)paths[i].operations,
                   paths[i].text, paths[i].under);
        return 0;
    }
    fputs("usage: bench_paths --list | --describe | NAME [LAYOUT]\n", stderr);
    return 2;
}
