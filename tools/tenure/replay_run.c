/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replay engine: carries a trace out on a device.
 *
 * Nothing waits for the device between two operations, so the host runs as far ahead as the driver
 * lets it. Memory is handed out again while the old owner's work is still queued, and only stream
 * order keeps the two apart. The patterns exist to check this case.
 *
 * Times are taken around each tnr_malloc and tnr_free with the monotonic clock. The clock's own
 * time, measured beforehand, is subtracted from each. Launches of pattern kernels are not included.
 * But they do push the allocator's data out of the processor's caches, as real programs do.
 */
#include "replay.h"

#include <tenure/history.h>

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "modelled.h"
#include "pace.h"
#include "progress.h"
#include "samples.h"

enum { PROGRESS_EVERY = 1024, SELF_TEST_BYTES = (4 << 20) + 1019 };
/* Room in the history: an allocation that needs memory has a few records besides its own. */
enum { RECORDS_PER_OP = 2, RECORDS_EXTRA = 100000 };

/* One live block. */
typedef struct replay_block {
    void *address; /* null: no block in this slot */
    uint64_t bytes;
    uint64_t seed;
    uint16_t stream;
} replay_block;

typedef struct replay {
    session *active;
    const trace *source;
    const replay_settings *settings;
    replay_result *result;
    replay_block *blocks; /* slots_count of the trace */
    CUstream *streams;    /* streams_count of the trace */
    size_t streams_made;
    pattern checks;
    histogram times;
    uint64_t clock_ns; /* what reading the clock twice costs */
    uint64_t seed;     /* of the latest allocation; counts up over all loops */
    uint64_t allocs_done;
    tnr_stats midpoint;
    modelled_time modelled;
    uint64_t modelled_midpoint_ns;
    pace clock; /* started if settings->speed > 0 */
    progress bar;
} replay;

/* Records the first thing that went wrong; later ones are mostly its consequences. */
__attribute__((format(printf, 3, 4))) static int fail(replay *run, exit_code code,
                                                      const char *format, ...)
{
    if (run->result->code != EXIT_CODE_OK)
        return -1;
    run->result->code = code;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(run->result->error, sizeof(run->result->error), format, arguments);
    va_end(arguments);
    return -1;
}

static int fail_library(replay *run, const char *what, tnr_status status)
{
    return fail(run, exit_code_of(status), "%s: %s: %s", what, tnr_status_name(status),
                tnr_last_error());
}

static int fail_driver(replay *run, const char *what, CUresult status)
{
    char text[256];
    return fail(run, EXIT_CODE_CHECK_FAILED, "%s: %s", what,
                gpu_error_text(&run->active->gpu, status, text, sizeof(text)));
}

static void time_add(replay *run, uint64_t before, uint64_t after)
{
    uint64_t ns = after - before;
    ns = ns > run->clock_ns ? ns - run->clock_ns : 0;
    histogram_add(&run->times, ns);
    run->result->ns_total += ns;
}

static int stats_read(replay *run, tnr_stats *stats)
{
    memset(stats, 0, sizeof(*stats));
    stats->struct_bytes = sizeof(*stats);
    tnr_status status = tnr_stats_get(stats, NULL, run->active->device);
    return status == TNR_OK ? 0 : fail_library(run, "tnr_stats_get", status);
}

/* Allocations that needed the driver or other arenas' memory: everything from LENT on. */
static uint64_t served_by_driver(const tnr_stats *stats)
{
    return stats->served[TNR_SERVED_LENT] + stats->served[TNR_SERVED_MOVED] +
           stats->served[TNR_SERVED_SHARED] + stats->served[TNR_SERVED_GROWN] +
           stats->served[TNR_SERVED_RECLAIMED];
}

static uint64_t driver_ns_sum(const tnr_stats *stats)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < TNR_DRIVER_KIND_COUNT; i++)
        sum += stats->driver_ns[i];
    return sum;
}

static int block_alloc(replay *run, const trace_op *op)
{
    replay_block *block = &run->blocks[op->slot];
    CUstream stream = run->streams[op->stream];
    void *address = NULL;
    uint64_t before = clock_now_ns();
    tnr_status status = tnr_malloc(&address, op->bytes, run->active->device, stream);
    time_add(run, before, clock_now_ns());
    if (status != TNR_OK) {
        char what[128];
        snprintf(what, sizeof(what), "allocation %" PRIu64 " of the trace, %" PRIu64 " bytes",
                 run->allocs_done + 1, op->bytes);
        return fail_library(run, what, status);
    }
    *block = (replay_block){address, op->bytes, ++run->seed, op->stream};
    CUresult result =
        pattern_fill(&run->checks, (CUdeviceptr)(uintptr_t)address, op->bytes, block->seed, stream);
    if (result != CUDA_SUCCESS)
        return fail_driver(run, "writing a pattern", result);
    if (++run->allocs_done == run->source->allocs_count * (uint64_t)run->settings->loops / 2) {
        run->modelled_midpoint_ns = modelled_ns(&run->modelled);
        return stats_read(run, &run->midpoint);
    }
    return 0;
}

static int block_free(replay *run, replay_block *block)
{
    CUresult result =
        pattern_check(&run->checks, (CUdeviceptr)(uintptr_t)block->address, block->bytes,
                      block->seed, run->streams[block->stream], block->stream);
    if (result != CUDA_SUCCESS)
        return fail_driver(run, "checking a pattern", result);
    uint64_t before = clock_now_ns();
    tnr_status status = tnr_free(block->address);
    time_add(run, before, clock_now_ns());
    block->address = NULL;
    return status == TNR_OK ? 0 : fail_library(run, "tnr_free", status);
}

static int is_looked_at(const replay_settings *settings)
{
    return settings->snapshot != NULL || settings->reports != NULL;
}

/* Writes the snapshot that was asked for. */
static int snapshot_write(replay *run)
{
    char path[PATH_MAX];
    const char *wanted = run->settings->snapshot;
    const char *name = wanted ? strstr(wanted, "%s") : NULL;
    int length = run->settings->reports ? snprintf(path, sizeof(path), "%s/%s.json.gz",
                                                   run->settings->reports, run->source->name)
                 : name ? snprintf(path, sizeof(path), "%.*s%s%s", (int)(name - wanted), wanted,
                                   run->source->name, name + 2)
                        : snprintf(path, sizeof(path), "%s", wanted);
    if (length < 0 || (size_t)length >= sizeof(path))
        return fail(run, EXIT_CODE_BAD_INPUT, "the path of the snapshot is too long");
    tnr_status status = tnr_snapshot_write(path, TNR_SNAPSHOT_AUTO);
    return status == TNR_OK ? 0 : fail_library(run, "tnr_snapshot_write", status);
}

/* Notes what the library has done since its start; the reports subtract. */
static int pass_note(replay *run)
{
    tnr_stats stats;
    if (stats_read(run, &stats) != 0)
        return -1;
    replay_pass *pass = &run->result->passes[run->result->passes_count++];
    pass->reserved_bytes = stats.reserved_bytes.current;
    pass->peak_reserved_bytes = stats.reserved_bytes.peak;
    memcpy(pass->calls, stats.driver_calls, sizeof(pass->calls));
    memcpy(pass->served, stats.served, sizeof(pass->served));
    pass->chunks_created = stats.chunks_created;
    pass->chunks_moved = stats.chunks_moved;
    pass->modelled_ns = modelled_ns(&run->modelled);
    return 0;
}

/* Carries out all operations once, and frees what the trace leaves live. */
static int loop_run(replay *run, long loop)
{
    const trace *source = run->source;
    size_t done_before = (size_t)loop * source->ops_count;
    int has_snapshot = is_looked_at(run->settings) && loop + 1 == run->settings->loops;
    size_t last = source->ops_count - 1,
           wanted = run->settings->is_at_peak ? source->peak_op : last;
    for (size_t i = 0; i < source->ops_count; i++) {
        const trace_op *op = &source->ops[i];
        if (run->settings->speed > 0)
            pace_to(&run->clock, loop, op->us);
        int status = op->is_alloc ? block_alloc(run, op) : block_free(run, &run->blocks[op->slot]);
        if (status != 0)
            return -1;
        if (has_snapshot && i == wanted && snapshot_write(run) != 0)
            return -1;
        if (i % PROGRESS_EVERY == 0)
            progress_update(&run->bar, done_before + i);
    }
    for (size_t slot = 0; slot < source->slots_count; slot++)
        if (run->blocks[slot].address && block_free(run, &run->blocks[slot]) != 0)
            return -1;
    return pass_note(run);
}

static int streams_wait(replay *run)
{
    for (size_t i = 0; i < run->streams_made; i++) {
        CUresult result = run->active->gpu.cuStreamSynchronize(run->streams[i]);
        if (result != CUDA_SUCCESS)
            return fail_driver(run, "waiting for a stream", result);
    }
    return 0;
}

/* After everything was freed: patterns, invariants, leaks, and the accounting equation. */
static int outcome_check(replay *run)
{
    replay_result *result = run->result;
    CUresult read = pattern_read(&run->checks, &result->patterns);
    if (read != CUDA_SUCCESS)
        return fail_driver(run, "reading the pattern counters", read);
    tnr_status status = tnr_validate(run->active->device);
    if (status != TNR_OK)
        return fail_library(run, "tnr_validate", status);
    if (stats_read(run, &result->stats) != 0)
        return -1;
    const tnr_stats *stats = &result->stats;
    if (stats->allocation[TNR_WORLD_ALL].current != 0 ||
        stats->allocated_bytes[TNR_WORLD_ALL].current != 0)
        return fail(run, EXIT_CODE_CHECK_FAILED,
                    "everything was freed, but %" PRIu64 " blocks with %" PRIu64
                    " bytes are still counted as live",
                    stats->allocation[TNR_WORLD_ALL].current,
                    stats->allocated_bytes[TNR_WORLD_ALL].current);
    uint64_t accounted = stats->bytes_live + stats->bytes_slack + stats->bytes_binned +
                         stats->bytes_free + stats->bytes_retired;
    if (accounted != stats->reserved_bytes.current)
        return fail(run, EXIT_CODE_CHECK_FAILED,
                    "%" PRIu64 " bytes are mapped, but %" PRIu64 " are accounted for",
                    stats->reserved_bytes.current, accounted);
    if (result->patterns.errors)
        return fail(run, EXIT_CODE_CHECK_FAILED,
                    "%" PRIu64 " words were not what had been written there; one of them in the "
                    "block of allocation %" PRIu64 ", at offset %" PRIu64,
                    result->patterns.errors, result->patterns.first_seed,
                    result->patterns.first_offset);
    return 0;
}

/* Makes what a run needs. What was made is released by replay_clean_up whatever the outcome. */
static int replay_set_up(replay *run)
{
    char text[512];
    const trace *source = run->source;
    size_t records = source->ops_count * (size_t)run->settings->loops * RECORDS_PER_OP;
    tnr_status status = is_looked_at(run->settings)
                            ? tnr_history_set(records + RECORDS_EXTRA, TNR_HISTORY_LIGHT)
                            : TNR_OK;
    if (status != TNR_OK)
        return fail_library(run, "tnr_history_set", status);
    run->blocks = calloc(source->slots_count, sizeof(*run->blocks));
    run->streams = calloc(source->streams_count, sizeof(CUstream));
    run->result->passes = calloc((size_t)run->settings->loops, sizeof(*run->result->passes));
    if (!run->blocks || !run->streams || !run->result->passes)
        return fail(run, EXIT_CODE_NO_MEMORY, "no host memory for the blocks of this trace");
    exit_code code = session_streams_create(run->active, run->streams, source->streams_count, text,
                                            sizeof(text));
    if (code != EXIT_CODE_OK)
        return fail(run, code, "%s", text);
    run->streams_made = source->streams_count;
    if (pattern_open(&run->checks, &run->active->gpu, run->active->cu_device, run->settings->extent,
                     source->streams_count, text, sizeof(text)) != 0)
        return fail(run, EXIT_CODE_CHECK_FAILED, "%s", text);
    run->clock_ns = clock_overhead_ns();
    if (run->settings->speed > 0)
        pace_start(&run->clock, run->active, source, (uint64_t)run->settings->speed);
    return 0;
}

/* Tenure knows the streams until it is shut down, so they are destroyed after that. */
static void replay_clean_up(replay *run)
{
    pattern_close(&run->checks);
    tnr_status status = tnr_shutdown(run->result->code != EXIT_CODE_OK);
    if (status != TNR_OK) {
        fail_library(run, "tnr_shutdown", status);
        if (tnr_shutdown(1) != TNR_OK)
            fprintf(stderr, "tenure: a forced shutdown failed too: %s\n", tnr_last_error());
    }
    if (run->streams)
        session_streams_destroy(run->active, run->streams, run->streams_made);
    free(run->streams);
    free(run->blocks);
}

void replay_run(session *active, const trace *source, const replay_settings *settings,
                replay_result *result)
{
    memset(result, 0, sizeof(*result));
    result->source = source;
    result->simulated = active->simulated;
    result->loops = settings->loops;
    result->speed = settings->speed;
    result->ops_count = (source->ops_count + source->live_at_end) * (uint64_t)settings->loops;
    result->peak_live_bytes = source->peak_live_bytes;
    replay *run = calloc(1, sizeof(*run));
    if (!run) {
        result->code = EXIT_CODE_NO_MEMORY;
        snprintf(result->error, sizeof(result->error), "no host memory for the replay");
        return;
    }
    run->active = active;
    run->source = source;
    run->settings = settings;
    run->result = result;
    uint64_t started = clock_now_ns();
    progress_start(&run->bar, source->name, source->ops_count * (size_t)settings->loops,
                   settings->progress_lines);
    modelled_start(&run->modelled, active->gpu.library);
    int status = replay_set_up(run);
    for (long loop = 0; loop < settings->loops && status == 0; loop++)
        status = loop_run(run, loop);
    /* Work in flight is waited for after a failure too, before its memory goes away. */
    if (streams_wait(run) == 0 && status == 0 && outcome_check(run) == 0) {
        result->driver_second_half =
            served_by_driver(&result->stats) - served_by_driver(&run->midpoint);
        result->driver_ns_second_half =
            driver_ns_sum(&result->stats) - driver_ns_sum(&run->midpoint);
    }
    result->modelled_ns = modelled_ns(&run->modelled);
    result->modelled_ns_second_half = result->modelled_ns - run->modelled_midpoint_ns;
    result->wall_ns = clock_now_ns() - started;
    progress_end(&run->bar);
    result->ns_median = histogram_quantile(&run->times, 0.5);
    result->ns_p99 = histogram_quantile(&run->times, 0.99);
    replay_clean_up(run);
    free(run);
}

void replay_release(replay_result *result)
{
    free(result->passes);
    memset(result, 0, sizeof(*result));
}

exit_code replay_self_test(session *active, const replay_settings *settings, char *error,
                           size_t error_bytes)
{
    pattern checks;
    CUstream stream;
    void *block = NULL;
    if (settings->extent == PATTERN_NONE)
        return EXIT_CODE_OK;
    exit_code code = session_streams_create(active, &stream, 1, error, error_bytes);
    if (code != EXIT_CODE_OK)
        return code;
    tnr_status status = tnr_malloc(&block, SELF_TEST_BYTES, active->device, stream);
    if (status != TNR_OK) {
        snprintf(error, error_bytes, "%s: %s", tnr_status_name(status), tnr_last_error());
        code = exit_code_of(status);
    } else if (pattern_open(&checks, &active->gpu, active->cu_device, settings->extent, 1, error,
                            error_bytes) != 0) {
        code = EXIT_CODE_CHECK_FAILED;
    } else {
        if (pattern_self_test(&checks, (CUdeviceptr)(uintptr_t)block, SELF_TEST_BYTES, stream,
                              error, error_bytes) != 0)
            code = EXIT_CODE_CHECK_FAILED;
        pattern_close(&checks);
    }
    status = tnr_shutdown(1);
    if (status != TNR_OK && code == EXIT_CODE_OK) {
        snprintf(error, error_bytes, "%s: %s", tnr_status_name(status), tnr_last_error());
        code = exit_code_of(status);
    }
    session_streams_destroy(active, &stream, 1);
    return code;
}
