/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When queued work runs.
 *
 * A stream's head is ready unless it waits for a point of another stream, for a value in memory, or
 * for the legacy stream's rules. The schedule decides which ready head runs when:
 *   lazy     only what a synchronising call needs, as late as possible
 *   random   seeded choices at submissions, queries and waits
 *   eager    everything as soon as it is ready
 *   threads  free-running workers
 * The first three run work inside the caller's cu* calls and are a function of seed and calls. With
 * TENURE_SIM_IDLE_MS they also go on where a program with host functions calls nothing for so long.
 *
 * If a head waits for another stream, it waits for a lower ticket than its own. So following such
 * waits always ends: at a ready head, at a value wait, or at a head that runs right now.
 */
#include "graph.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum {
    LAZY_DESTRUCTORS = 8 /* questions before it runs a destructor, once nothing is queued */
};
#define GATE_POLL_NS 100000L

static pthread_t workers[64];
static uint64_t worker_count;
static int workers_stop;  /* guarded by the lock */
static pthread_t watcher; /* runs what is queued where the host waits without a call */
static int has_watcher;   /* guarded by the lock */

/* ---- the generator -------------------------------------------------------------------------- */

/* SplitMix64: state is a counter, so a schedule is its seed and its length. */
static uint64_t draw(uint64_t below)
{
    sim.random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = sim.random;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (uint64_t)((__extension__(unsigned __int128) z * below) >> 64);
}

/* ---- readiness ------------------------------------------------------------------------------ */

int sim_point_done(struct sim_point point)
{
    const struct sim_stream *stream = point.stream;
    return stream->head == stream->tail || sim_stream_head(stream)->ticket > point.ticket;
}

enum readiness { READY, BEHIND, GATED, RUNNING };

/* The stream that the legacy rules make this one wait for, or null. */
static struct sim_stream *legacy_blocker(const struct sim_stream *stream, uint64_t ticket)
{
    if (stream->is_blocking) {
        struct sim_stream *legacy = stream->context->legacy;
        return sim_point_done((struct sim_point){legacy, ticket, NULL}) ? NULL : legacy;
    }
    for (size_t i = 0; stream->kind == SIM_LEGACY && i < sim.busy_count; i++) {
        struct sim_stream *other = sim.busy[i];
        if (other->is_blocking && other->context == stream->context &&
            sim_stream_head(other)->ticket < ticket)
            return other;
    }
    return NULL;
}

/* A value wait whose memory has gone is let through: running it reports that. */
static int gate_open(const struct sim_stream *stream, const struct sim_op *op)
{
    CUdeviceptr where = 0;
    return sim_reach(stream->context, op->access[0].address, op->access[0].bytes, 0, &where) !=
               SIM_REACH_OK ||
           sim_value_reached(op);
}

/* What keeps the head of a busy stream from running; *behind is the stream it is BEHIND. */
static enum readiness readiness(const struct sim_stream *stream, struct sim_stream **behind)
{
    const struct sim_op *op = sim_stream_head(stream);
    if (stream->is_running)
        return RUNNING;
    *behind = legacy_blocker(stream, op->ticket);
    if (*behind != NULL)
        return BEHIND;
    if (op->kind == SIM_OP_WAIT && op->wait.stream != stream && !sim_point_done(op->wait)) {
        *behind = op->wait.stream;
        return BEHIND;
    }
    if (op->kind == SIM_OP_WAIT_VALUE && stream->context->error == CUDA_SUCCESS &&
        !gate_open(stream, op))
        return GATED;
    return READY;
}

/* ---- running -------------------------------------------------------------------------------- */

/* Runs the head of a stream that is READY. The lock may be given up meanwhile. */
static void run_head(struct sim_stream *stream)
{
    struct sim_op op = *sim_stream_head(stream);
    sim_stream_hold(stream);
    stream->is_running = 1;
    sim_execute(stream, &op);
    stream->is_running = 0;
    sim_stream_pop(stream);
    sim_op_dispose(&op);
    sim_stream_drop(stream);
    sim.idle_queries = 0;
    pthread_cond_broadcast(&sim.done);
    if (worker_count != 0)
        pthread_cond_broadcast(&sim.work);
}

/* For others that need chances; what is drawn is part of the schedule. */
uint64_t sim_schedule_draw(uint64_t below)
{
    return draw(below);
}

/* Runs one ready head, searching from a drawn place; 0 if none is ready. */
static int run_head_any(void)
{
    if (sim.busy_count == 0)
        return 0;
    size_t first = (size_t)draw(sim.busy_count);
    for (size_t i = 0; i < sim.busy_count; i++) {
        struct sim_stream *behind = NULL;
        size_t at = first + i < sim.busy_count ? first + i : first + i - sim.busy_count;
        struct sim_stream *stream = sim.busy[at];
        if (readiness(stream, &behind) == READY) {
            run_head(stream);
            return 1;
        }
    }
    return 0;
}

/* The same, or a destructor that is due; those have no stream to be late in. */
static int run_any(void)
{
    if (sim.due != 0 && (sim.busy_count == 0 || draw(4) == 0))
        return sim_user_object_run();
    return run_head_any() || sim_user_object_run();
}

/* Follows waits from the stream to what holds everything up; that stream, and why. */
static struct sim_stream *root_of(struct sim_stream *stream, enum readiness *why)
{
    struct sim_stream *behind = NULL;
    while ((*why = readiness(stream, &behind)) == BEHIND)
        stream = behind;
    return stream;
}

static int run_towards(struct sim_stream *stream)
{
    enum readiness why = READY;
    struct sim_stream *root = root_of(stream, &why);
    if (why != READY)
        return 0;
    run_head(root);
    return 1;
}

uint64_t sim_schedule_run(uint64_t limit)
{
    uint64_t ran = 0;
    while (ran < limit && run_any())
        ran++;
    return ran;
}

uint64_t sim_schedule_run_stream(struct sim_stream *stream, uint64_t limit)
{
    uint64_t ran = 0;
    struct sim_stream *behind = NULL;
    while (ran < limit && stream->head != stream->tail && readiness(stream, &behind) == READY) {
        run_head(stream);
        ran++;
    }
    return ran;
}

/* ---- where the schedule has its say --------------------------------------------------------- */

/* After a submission. The random schedule's bursts follow the backlog, so it stays bounded. */
void sim_schedule_submitted(void)
{
    switch (sim.settings.schedule) {
    case SIM_LAZY:
        break;
    case SIM_RANDOM:
        if (draw(8) == 0)
            (void)sim_schedule_run(draw(sim.pending + sim.due + 1));
        break;
    case SIM_EAGER:
        (void)sim_schedule_run(UINT64_MAX);
        break;
    case SIM_THREADS:
        pthread_cond_signal(&sim.work);
        break;
    }
}

/* After a call that may have made destructors due. */
void sim_schedule_dropped(void)
{
    if (sim.due != 0)
        sim_schedule_submitted();
}

/* Before a query answers that something is not finished. */
void sim_schedule_queried(void)
{
    switch (sim.settings.schedule) {
    case SIM_LAZY:
        if (++sim.idle_queries >= (sim.pending == 0 ? LAZY_DESTRUCTORS : sim.settings.queries)) {
            sim.idle_queries = 0;
            (void)sim_schedule_run(1);
        }
        break;
    case SIM_RANDOM:
        (void)sim_schedule_run(draw(draw(8) == 0 ? sim.pending + sim.due + 1 : 4));
        break;
    case SIM_EAGER:
        (void)sim_schedule_run(UINT64_MAX);
        break;
    case SIM_THREADS:
        break;
    }
}

/* One step of waiting for a point; 0 if nothing at all can run in this thread. */
static int wait_step(struct sim_stream *stream)
{
    switch (sim.settings.schedule) {
    case SIM_THREADS:
        return 0;
    case SIM_RANDOM:
        if (draw(4) == 0 && run_any())
            return 1;
        break;
    default:
        break;
    }
    /* Work of no concern may still open the gate: it runs when nothing else can. */
    return run_towards(stream) || run_any();
}

/* ---- waiting -------------------------------------------------------------------------------- */

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void pause_for(pthread_cond_t *condition, uint64_t nanoseconds)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    nanoseconds += (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(nanoseconds / 1000000000);
    until.tv_nsec = (long)(nanoseconds % 1000000000);
    (void)pthread_cond_timedwait(condition, &sim.lock, &until);
}

/* Gives other threads time: the host may open a gate, a worker may finish something. */
static void wait_pause(pthread_cond_t *condition)
{
    pause_for(condition, GATE_POLL_NS);
}

static void report_deadlock(struct sim_stream *waited, const char *call)
{
    enum readiness why = READY;
    const struct sim_stream *root = root_of(waited, &why);
    const struct sim_op *op = sim_stream_head(root);
    unsigned long long address = (unsigned long long)op->access[0].address;
    sim_note("%s waits for stream %llu, and nothing has moved for %llu ms: %s (number %llu of "
             "stream %llu) waits for a value at 0x%llx (wanted %llu, condition %u) that is "
             "never written. TENURE_SIM_DEADLOCK_MS sets how long to wait",
             call, (unsigned long long)waited->id, (unsigned long long)sim.settings.deadlock_ms,
             sim_op_name(op->kind), (unsigned long long)root->head, (unsigned long long)root->id,
             address, (unsigned long long)op->value.value, op->value.flags & 3u);
}

/* Whether what holds the stream up is a value wait; if a running head does, it will move on. */
static int wait_gated(struct sim_stream *stream)
{
    enum readiness why = READY;
    (void)root_of(stream, &why);
    return why == GATED;
}

/* Runs or awaits work until the point is done; then the context's error if it has one. A wait that
 * no one can end becomes CUDA_ERROR_LAUNCH_TIMEOUT after a report, instead of a silent hang. */
CUresult sim_wait(struct sim_point point, const char *call)
{
    struct sim_stream *stream = point.stream;
    CUresult result = CUDA_SUCCESS;
    uint64_t stuck_since = 0;
    uint64_t completed = sim.completed;
    sim_stream_hold(stream);
    while (!sim_point_done(point)) {
        if (wait_step(stream)) {
            stuck_since = 0;
            continue;
        }
        wait_pause(&sim.done);
        if (completed != sim.completed || stuck_since == 0) {
            completed = sim.completed;
            stuck_since = now_ms();
        } else if (!sim_point_done(point) && wait_gated(stream) &&
                   now_ms() - stuck_since >= sim.settings.deadlock_ms) {
            report_deadlock(stream, call);
            result = CUDA_ERROR_LAUNCH_TIMEOUT;
            break;
        }
    }
    if (result == CUDA_SUCCESS) {
        result = stream->context->error;
        sim_race_waited(point);
    }
    sim_stream_drop(stream);
    return result;
}

/* Waits for what is queued now in all streams of a context, or of all contexts of a device. */
static CUresult wait_all(const struct sim_context *context, const struct sim_device *device,
                         const char *call)
{
    uint64_t ticket = sim.ticket;
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < sim.busy_count && result == CUDA_SUCCESS;) {
        struct sim_stream *stream = sim.busy[i];
        int wanted =
            context != NULL ? stream->context == context : stream->context->device == device;
        if (wanted && !sim_point_done((struct sim_point){stream, ticket, NULL})) {
            result = sim_wait((struct sim_point){stream, ticket, NULL}, call);
            i = 0; /* the list has changed */
        } else {
            i++;
        }
    }
    if (result == CUDA_SUCCESS)
        sim_race_waited_all(context, device, ticket);
    return result;
}

CUresult sim_wait_context(const struct sim_context *context, const char *call)
{
    CUresult result = wait_all(context, NULL, call);
    return result != CUDA_SUCCESS ? result : context->error;
}

CUresult sim_wait_device(const struct sim_device *device, const char *call)
{
    return wait_all(NULL, device, call);
}

/* ---- workers -------------------------------------------------------------------------------- */

/* Without the lock. */
void sim_schedule_lag(void)
{
    struct timespec lag = {.tv_sec = (time_t)(sim.settings.lag_us / 1000000),
                           .tv_nsec = (long)(sim.settings.lag_us % 1000000) * 1000};
    if (sim.settings.lag_us != 0)
        (void)nanosleep(&lag, NULL);
}

static void *worker_main(void *unused)
{
    (void)unused;
    sim_lock();
    while (!workers_stop) {
        if (sim.settings.lag_us != 0 && sim.busy_count != 0) {
            sim_unlock();
            sim_schedule_lag();
            sim_lock();
        }
        if (run_any())
            continue;
        if (sim.busy_count == 0 && sim.due == 0)
            pthread_cond_wait(&sim.work, &sim.lock);
        else
            wait_pause(&sim.work); /* gates open without a word */
    }
    sim_unlock();
    return NULL;
}

/* ---- a host that waits by itself ------------------------------------------------------------ */

static uint64_t calls_made(void)
{
    uint64_t count = 0;
    for (size_t i = 0; i < sizeof(sim.calls) / sizeof(sim.calls[0]); i++)
        count += sim.calls[i];
    return count;
}

static void *watcher_main(void *unused)
{
    (void)unused;
    sim_lock();
    uint64_t before = calls_made(), since = now_ms();
    while (!workers_stop && !sim.is_shut_down) {
        pause_for(&sim.work, sim.settings.idle_ms * 1000000);
        uint64_t calls = calls_made();
        if (calls == before && now_ms() - since < sim.settings.idle_ms)
            continue; /* woken early */
        if (calls == before && !workers_stop && !sim.is_shut_down)
            (void)sim_schedule_run(UINT64_MAX);
        before = calls_made();
        since = now_ms();
    }
    sim_unlock();
    return NULL;
}

/* A host function was queued: the host may wait for what it does, and call nothing meanwhile. The
 * thread takes no signals of the program's. */
void sim_schedule_watch(void)
{
    sigset_t all, before;
    if (sim.settings.idle_ms == 0 || has_watcher || sim.settings.schedule == SIM_THREADS)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    has_watcher = pthread_create(&watcher, NULL, watcher_main, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void sim_schedule_start(void)
{
    sim.random = sim.settings.seed;
    workers_stop = 0;
    uint64_t wanted = sim.settings.schedule == SIM_THREADS ? sim.settings.threads : 0;
    while (worker_count < wanted &&
           pthread_create(&workers[worker_count], NULL, worker_main, NULL) == 0)
        worker_count++;
    if (worker_count < wanted)
        sim_note("only %llu of %llu worker threads could be started",
                 (unsigned long long)worker_count, (unsigned long long)wanted);
    if (wanted != 0 && worker_count == 0)
        sim.settings.schedule = SIM_EAGER;
}

/* Without the lock: workers need it to finish what they run. */
void sim_schedule_stop(void)
{
    sim_lock();
    workers_stop = 1;
    pthread_cond_broadcast(&sim.work);
    uint64_t count = worker_count;
    int was_watched = has_watcher;
    worker_count = 0;
    has_watcher = 0;
    sim_unlock();
    if (was_watched)
        pthread_join(watcher, NULL);
    for (uint64_t i = 0; i < count; i++)
        pthread_join(workers[i], NULL);
}

/* A child has none of its parent's threads. */
void sim_schedule_forked(void)
{
    worker_count = 0;
    has_watcher = 0;
}

/* ---- control -------------------------------------------------------------------------------- */

/* Waits until workers have run all that can run: nothing runs and no head is ready. */
static void settle(void)
{
    for (;;) {
        int moving = sim.due != 0 || sim.destructors != 0;
        for (size_t i = 0; i < sim.busy_count; i++) {
            struct sim_stream *behind = NULL;
            enum readiness state = readiness(sim.busy[i], &behind);
            moving = moving || state == READY || state == RUNNING;
        }
        if (!moving)
            return;
        wait_pause(&sim.done);
    }
}

/* 1 if another thread is inside a kernel or a host function. */
static int others_run(void)
{
    for (size_t i = 0; i < sim.busy_count && !sim_thread()->is_in_callback; i++)
        if (sim.busy[i]->is_running)
            return 1;
    return 0;
}

uint64_t simcuda_run(uint64_t max_ops)
{
    uint64_t ran = 0;
    sim_lock();
    if (worker_count != 0)
        settle();
    else
        ran = sim_schedule_run(max_ops);
    while (worker_count == 0 && max_ops == UINT64_MAX && others_run()) {
        wait_pause(&sim.done);
        ran += sim_schedule_run(max_ops);
    }
    sim_unlock();
    return ran;
}

uint64_t simcuda_run_stream(CUstream stream, uint64_t max_ops)
{
    uint64_t ran = 0;
    CUresult error = CUDA_SUCCESS;
    sim_lock();
    struct sim_stream *found = sim.is_initialised ? sim_stream_get(stream, &error) : NULL;
    if (worker_count != 0) {
        settle();
    } else if (found != NULL) {
        sim_stream_hold(found);
        ran = sim_schedule_run_stream(found, max_ops);
        sim_stream_drop(found);
    }
    sim_unlock();
    return ran;
}

uint64_t simcuda_pending(void)
{
    sim_lock();
    uint64_t pending = sim.pending;
    sim_unlock();
    return pending;
}
