/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carrying a trace out with each allocator: see predict.h. PyTorch's are played (torch_model.h).
 * Tenure itself runs, on the simulated device; that device reads its size once, so each run has a
 * process of its own.
 */
#include "predict.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tenure/alloc.h>

#include "late.h"
#include "session.h"

/* What the process that runs Tenure tells. */
typedef struct answer {
    torch_outcome outcome;
    exit_code code;
    char error[2048]; /* why code is not 0 */
} answer;

/* ---- the peak ------------------------------------------------------------------------------- */

/* Fills `ends`: see predict_peak. `allocs`, of the same size, is room to work in. */
static void ends_find(const trace *source, size_t *ends, size_t *allocs, size_t *slots)
{
    size_t next = 0;
    for (size_t i = 0; i <= source->ops_count; i++) {
        for (; next < source->completions_count && source->completions[next].before_op <= i; next++)
            if (ends[allocs[source->completions[next].free_op]] > i)
                ends[allocs[source->completions[next].free_op]] = i;
        if (i == source->ops_count)
            break;
        const trace_op *op = &source->ops[i];
        ends[i] = source->ops_count;
        if (op->is_alloc) {
            slots[op->slot] = i;
            continue;
        }
        allocs[i] = slots[op->slot];
        if (!op->is_late)
            ends[allocs[i]] = i;
    }
}

uint64_t predict_live_before(const trace *source, const predict_peak *peak, size_t op)
{
    uint64_t live = 0;
    for (size_t i = 0; i < op; i++)
        live += source->ops[i].is_alloc && peak->ends[i] > op ? source->ops[i].bytes : 0;
    return live;
}

/* The index of the operation after which the most is held. */
static size_t peak_find(const trace *source, predict_peak *peak, uint64_t *less)
{
    uint64_t live = 0;
    size_t found = 0;
    memset(less, 0, source->ops_count * sizeof(*less));
    for (size_t i = 0; i < source->ops_count; i++)
        if (source->ops[i].is_alloc && peak->ends[i] < source->ops_count)
            less[peak->ends[i]] += source->ops[i].bytes;
    for (size_t i = 0; i < source->ops_count; i++) {
        live = live - less[i] + (source->ops[i].is_alloc ? source->ops[i].bytes : 0);
        if (live > peak->live_bytes) {
            peak->live_bytes = live;
            found = i;
        }
    }
    return found;
}

int predict_peak_of(const trace *source, predict_peak *peak)
{
    size_t count = source->ops_count;
    *peak = (predict_peak){.ends = calloc(count, sizeof(size_t))};
    uint64_t *room = calloc(count, sizeof(uint64_t));
    size_t *slots = calloc(source->slots_count, sizeof(size_t));
    int status = peak->ends && room && slots ? 0 : -1;
    if (status == 0) {
        ends_find(source, peak->ends, room, slots);
        size_t at = peak_find(source, peak, room);
        for (size_t i = 0; i <= at; i++)
            if (source->ops[i].is_alloc && peak->ends[i] > at && (peak->ends[i] - i) * 2 < count)
                peak->passing_bytes += source->ops[i].bytes;
    }
    free(slots);
    free(room);
    return status;
}

double predict_growth(const predict_peak *peak, uint64_t reserved_bytes, uint64_t usable_bytes)
{
    if (peak->passing_bytes == 0)
        return -1;
    double ratio = (double)reserved_bytes / (double)peak->live_bytes;
    double stays = (double)(peak->live_bytes - peak->passing_bytes);
    double growth = ((double)usable_bytes / ratio - stays) / (double)peak->passing_bytes;
    return growth > 0 ? growth : 0;
}

/* ---- Tenure --------------------------------------------------------------------------------- */

/* Allocates; where there is no room, what waits for other streams is waited for. */
static tnr_status block_take(const session *active, const trace_op *op, const CUstream *streams,
                             void **block, late_list *late)
{
    for (;;) {
        tnr_status status = tnr_malloc(block, op->bytes, active->device, streams[op->stream]);
        void *waiting = status == TNR_ERR_OUT_OF_MEMORY ? late_take_any(late) : NULL;
        if (!waiting)
            return status;
        for (; waiting; waiting = late_take_any(late))
            if ((status = tnr_free(waiting)) != TNR_OK)
                return status;
    }
}

/* Runs the operations until one is refused. Returns the status that ended them. */
static tnr_status course_run(const session *active, const trace *source, const CUstream *streams,
                             void **blocks, torch_outcome *outcome)
{
    late_list late = {.count = 0};
    size_t next = 0;
    tnr_status status = TNR_OK;
    outcome->refused_op = source->ops_count;
    for (size_t i = 0; i < source->ops_count && status == TNR_OK; i++) {
        const trace_op *op = &source->ops[i];
        for (; next < source->completions_count && source->completions[next].before_op <= i;
             next++) {
            void *over = late_take(&late, source->completions[next].free_op);
            if (over && status == TNR_OK)
                status = tnr_free(over);
        }
        if (status == TNR_OK && op->is_alloc)
            status = block_take(active, op, streams, &blocks[op->slot], &late);
        else if (status == TNR_OK && op->is_late)
            status = late_add(&late, i, blocks[op->slot]) == 0 ? TNR_OK : TNR_ERR_HOST_MEMORY;
        else if (status == TNR_OK)
            status = tnr_free(blocks[op->slot]);
        if (status == TNR_ERR_OUT_OF_MEMORY || status == TNR_ERR_LIMIT)
            outcome->refused_op = i;
    }
    late_release(&late);
    return outcome->refused_op < source->ops_count ? TNR_OK : status;
}

static void tenure_run(const trace *source, const char *settings, answer *result)
{
    session active;
    session_options options = {.driver = "sim", .settings = settings};
    result->code = session_open(&active, &options, 0, result->error, sizeof(result->error));
    if (result->code != EXIT_CODE_OK)
        return;
    void **blocks = calloc(source->slots_count, sizeof(void *));
    CUstream *streams = calloc(source->streams_count, sizeof(CUstream));
    if (!blocks || !streams) {
        result->code = EXIT_CODE_NO_MEMORY;
        snprintf(result->error, sizeof(result->error), "no host memory for the trace's blocks");
    } else {
        result->code = session_streams_create(&active, streams, source->streams_count,
                                              result->error, sizeof(result->error));
    }
    if (result->code == EXIT_CODE_OK) {
        tnr_stats stats = TNR_STATS_INIT;
        tnr_status status = course_run(&active, source, streams, blocks, &result->outcome);
        if (status == TNR_OK)
            status = tnr_stats_get(&stats, NULL, active.device);
        if (status != TNR_OK) {
            result->code = exit_code_of(status);
            snprintf(result->error, sizeof(result->error), "%s: %s", tnr_status_name(status),
                     tnr_last_error());
        }
        result->outcome.peak_reserved_bytes = stats.reserved_bytes.peak;
    }
    /* The process ends: nothing need be given back. */
}

static int whole_write(int file, const void *bytes, size_t count)
{
    for (const char *at = bytes; count > 0;) {
        ssize_t done = write(file, at, count);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return -1;
        at += done;
        count -= (size_t)done;
    }
    return 0;
}

static size_t whole_read(int file, void *bytes, size_t count)
{
    size_t have = 0;
    while (have < count) {
        ssize_t done = read(file, (char *)bytes + have, count - have);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            break;
        have += (size_t)done;
    }
    return have;
}

/* The other process's end, after the answer has been read. */
static int child_wait(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

static exit_code tenure_apart(const trace *source, const char *settings, uint64_t usable_bytes,
                              torch_outcome *outcome, char *error, size_t error_bytes)
{
    int ends[2];
    answer result = {.code = EXIT_CODE_CHECK_FAILED};
    if (pipe(ends) != 0) {
        snprintf(error, error_bytes, "a pipe cannot be made: %s", strerror(errno));
        return EXIT_CODE_CHECK_FAILED;
    }
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        char text[32];
        close(ends[0]);
        snprintf(text, sizeof(text), "%" PRIu64, usable_bytes);
        setenv("TENURE_SIM_MEMORY", text, 1);
        tenure_run(source, settings, &result);
        _exit(whole_write(ends[1], &result, sizeof(result)) != 0);
    }
    close(ends[1]);
    size_t have = child > 0 ? whole_read(ends[0], &result, sizeof(result)) : 0;
    close(ends[0]);
    int status = child > 0 ? child_wait(child) : 0;
    if (child < 0) {
        snprintf(error, error_bytes, "a process for the simulated device cannot be made: %s",
                 strerror(errno));
    } else if (have != sizeof(result)) {
        result.code = EXIT_CODE_CHECK_FAILED;
        snprintf(error, error_bytes,
                 "the run of Tenure on the simulated device ended early (%s %d)",
                 WIFSIGNALED(status) ? "signal" : "exit code",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    } else {
        *outcome = result.outcome;
        snprintf(error, error_bytes, "%s", result.error);
    }
    return result.code;
}

exit_code predict_run(const trace *source, predict_allocator allocator, const char *settings,
                      uint64_t usable_bytes, torch_outcome *outcome, char *error,
                      size_t error_bytes)
{
    if (allocator == PREDICT_TENURE)
        return tenure_apart(source, settings, usable_bytes, outcome, error, error_bytes);
    if (torch_model_run(source, allocator == PREDICT_EXPANDABLE, usable_bytes, outcome) == 0)
        return EXIT_CODE_OK;
    snprintf(error, error_bytes, "no host memory to play PyTorch's allocator");
    return EXIT_CODE_NO_MEMORY;
}
