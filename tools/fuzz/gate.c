/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placing gates and opening them: see gate.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gate_state.h"
#include "random.h"

/* How long the host waits for the operation behind a gate that it has opened: some times what the
 * device needs for nothing (it is measured), within bounds. An operation that takes longer waits
 * for another stream. The long time is for operations that must be over before the program goes on.
 */
enum { SETTLE_TIMES = 5 };
#define SETTLE_LEAST_NS UINT64_C(200000)
#define SETTLE_MOST_NS UINT64_C(20000000)
#define SETTLE_SPIN_NS UINT64_C(20000)
#define SETTLE_SURELY_NS UINT64_C(2000000000)
/* Then whatever else an open gate lets run, on streams that waited for this one, should be over too
 * before the program goes on, or the same program would go differently each time: nothing has moved
 * for as many times. */
enum { STILL_TIMES = 2 };
#define STILL_MOST_NS UINT64_C(500000)

gates gate_state;

uint64_t gate_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* ---- opening -------------------------------------------------------------------------------- */

static uint32_t line_closed(const gate_line *line)
{
    return line->placed - line->opened;
}

int gate_line_is_closed(int number)
{
    return line_closed(&gate_state.lines[number]) > 0;
}

void gate_open_next(int number)
{
    gate_line *line = &gate_state.lines[number];
    line->opened++;
    gate_state.closed--;
    __atomic_store_n(&gate_state.words[number].open, line->opened, __ATOMIC_RELEASE);
}

int gate_line_draw(uint64_t *random)
{
    uint64_t candidates = 0;
    for (int i = 0; i < GATE_LINES; i++)
        candidates += line_closed(&gate_state.lines[i]) > 0;
    if (candidates == 0)
        return -1;
    uint64_t chosen = random_below(random, candidates);
    for (int i = 0;; i++)
        if (line_closed(&gate_state.lines[i]) > 0 && chosen-- == 0)
            return i;
}

/* Waits until what is behind the line's latest open gate is over. Returns 0 if it is not in time.
 */
static int line_settle(int number, uint32_t gate, uint64_t limit_ns)
{
    uint64_t began = gate_now_ns();
    for (;;) {
        uint32_t done = __atomic_load_n(&gate_state.words[number].done, __ATOMIC_ACQUIRE);
        if ((int32_t)(done - gate) >= 0)
            return 1;
        uint64_t waited = gate_now_ns() - began;
        if (waited > limit_ns)
            return 0;
        if (waited > SETTLE_SPIN_NS)
            nanosleep(&(struct timespec){0, SETTLE_SPIN_NS}, NULL);
    }
}

/* Waits until no stream has moved for a while. */
static void lines_settle(void)
{
    uint64_t began = gate_now_ns(), moved = began, sum_before = UINT64_MAX;
    while (moved - began < SETTLE_MOST_NS) {
        uint64_t sum = 0;
        for (int i = 0; i < GATE_LINES; i++)
            sum += __atomic_load_n(&gate_state.words[i].done, __ATOMIC_ACQUIRE);
        uint64_t now = gate_now_ns();
        if (sum != sum_before)
            moved = now;
        else if (now - moved > gate_state.still_ns)
            return;
        sum_before = sum;
        if (gate_state.still_ns > SETTLE_SPIN_NS)
            nanosleep(&(struct timespec){0, SETTLE_SPIN_NS}, NULL);
    }
}

/* 1 if a gate of another line that was placed before is closed. */
static int is_overtaking(int number, uint64_t place)
{
    for (int i = 0; i < GATE_LINES; i++) {
        const gate_line *line = &gate_state.lines[i];
        if (i != number && line_closed(line) > 0 &&
            line->order[(line->opened + 1) % GATE_LINE_CLOSED] < place)
            return 1;
    }
    return 0;
}

/* Opens a gate, chosen by the program, and lets its operation run. Returns 0 if that waits for
 * something else. */
static int line_open(int number, uint64_t limit_ns)
{
    gates *self = &gate_state;
    gate_line *line = &self->lines[number];
    pthread_mutex_lock(&self->lock);
    if (line_closed(line) == 0) {
        pthread_mutex_unlock(&self->lock);
        return 1;
    }
    uint32_t gate = line->opened + 1;
    uint64_t place = line->order[gate % GATE_LINE_CLOSED];
    gate_open_next(number);
    self->counts->opened_drawn++;
    pthread_mutex_unlock(&self->lock);
    int is_over = line_settle(number, gate, limit_ns);
    lines_settle();
    pthread_mutex_lock(&self->lock);
    if (!is_over)
        self->counts->late++;
    else if (is_overtaking(number, place))
        self->counts->overtaking++;
    pthread_mutex_unlock(&self->lock);
    return is_over;
}

static int any_line(void)
{
    pthread_mutex_lock(&gate_state.lock);
    int line = gate_line_draw(&gate_state.random);
    pthread_mutex_unlock(&gate_state.lock);
    return line;
}

/* In place of the simulated device's schedule: opens so many gates, of any stream. With all of them
 * open everything that can be over is, before the program goes on. */
static uint64_t gates_run(uint64_t count)
{
    uint64_t opened = 0;
    for (int line; opened < count && (line = any_line()) >= 0; opened++)
        (void)line_open(line, gate_state.settle_ns);
    for (int i = 0; count == UINT64_MAX && i < GATE_LINES; i++)
        (void)line_settle(i, gate_state.lines[i].opened, SETTLE_SURELY_NS);
    return opened;
}

/* Opens what the end of a line's work needs: its own gates, and others until it comes. */
static void line_finish(int number)
{
    int other = number;
    while (gate_line_is_closed(number))
        (void)line_open(number, gate_state.settle_ns);
    while (other >= 0 && !line_settle(number, gate_state.lines[number].placed, 0))
        if ((other = any_line()) >= 0)
            (void)line_open(other, gate_state.settle_ns);
}

/* The same for one stream. */
static uint64_t gates_run_stream(CUstream stream, uint64_t count)
{
    int number = -1;
    uint64_t opened = 0;
    for (int i = 0; i < GATE_LINES; i++)
        if (gate_state.lines[i].is_taken && !gate_state.lines[i].is_ended &&
            gate_state.lines[i].stream == stream)
            number = i;
    if (number < 0)
        return 0;
    uint64_t limit_ns = count == UINT64_MAX ? SETTLE_SURELY_NS : gate_state.settle_ns;
    for (; opened < count && line_closed(&gate_state.lines[number]) > 0; opened++)
        if (!line_open(number, limit_ns))
            limit_ns = 0; /* it waits for another stream, and so does what follows */
    if (count == UINT64_MAX && limit_ns > 0)
        (void)line_settle(number, gate_state.lines[number].opened, limit_ns);
    return opened;
}

/* ---- placing -------------------------------------------------------------------------------- */

/* A line for a new stream: one that was never used, or whose stream is gone and has run all. -1 if
 * there is none at the moment: then the stream has no gates. */
static int line_take(CUstream stream, int device)
{
    for (int i = 0; i < GATE_LINES; i++) {
        gate_line *line = &gate_state.lines[i];
        uint32_t done = __atomic_load_n(&gate_state.words[i].done, __ATOMIC_ACQUIRE);
        if (line->is_taken && !(line->is_ended && done == line->placed))
            continue;
        line->is_taken = 1;
        line->is_ended = 0;
        line->stream = stream;
        line->before = line->placed;
        line->device = (uint8_t)device;
        return i;
    }
    return -1;
}

int gate_has_memory_operations(void)
{
    return gate_state.wait_value != NULL && gate_state.write_value != NULL &&
           !gate_state.device->spins;
}

/* The wait for the line's word, in the stream, and the mark behind the operation. */
static CUresult line_queue(int number, uint32_t gate, int is_mark)
{
    gates *self = &gate_state;
    const gate_line *line = &self->lines[number];
    CUdeviceptr word = self->words_device + (CUdeviceptr)number * sizeof(gate_words);
    CUresult result;
    if (is_mark)
        word += sizeof(uint32_t);
    if (line->device != 0)
        fuzz_device_use(self->device, line->device);
    if (gate_has_memory_operations()) {
        result = is_mark ? self->write_value(line->stream, word, gate, 0)
                         : self->wait_value(line->stream, word, gate, CU_STREAM_WAIT_VALUE_GEQ);
    } else {
        CUfunction kernel = is_mark ? self->mark[line->device] : self->hold[line->device];
        void *params[] = {&word, &gate};
        result = self->device->launch(kernel, 1, 1, 1, 1, 1, 1, 0, line->stream, params, NULL);
    }
    if (line->device != 0)
        fuzz_device_use(self->device, 0);
    return result;
}

static int line_place(fuzz_run *run, int number)
{
    gates *self = &gate_state;
    gate_line *line = &self->lines[number];
    pthread_mutex_lock(&self->lock);
    if (line_closed(line) == GATE_LINE_CLOSED) {
        gate_open_next(number);
        self->counts->opened_full++;
    } else if (self->closed == GATE_CLOSED) {
        gate_open_next(gate_line_draw(&self->random));
        self->counts->opened_full++;
    }
    uint32_t gate = ++line->placed;
    line->order[gate % GATE_LINE_CLOSED] = ++self->order_last;
    self->closed++;
    self->counts->placed++;
    pthread_mutex_unlock(&self->lock);
    gate_call_begin("placing a gate", 0, -1);
    CUresult result = line_queue(number, gate, 0);
    gate_call_end();
    if (result == CUDA_SUCCESS)
        return 0;
    run_fail(run, FUZZ_VERDICT_SAFETY, "driver", "a gate could not be placed: error %d",
             (int)result);
    return -1;
}

/* ---- around operations ---------------------------------------------------------------------- */

static int kind_is_work(int kind)
{
    return kind == FUZZ_WRITE || kind == FUZZ_READ || kind == FUZZ_COPY || kind == FUZZ_FILL ||
           kind == FUZZ_LAUNCH;
}

/* Calls that wait for the device by what they mean. Others do so only when memory is short. */
static int op_waits(const fuzz_op *op)
{
    int kind = op->kind;
    return kind == FUZZ_SYNC_EVENT || kind == FUZZ_SYNC_STREAM || kind == FUZZ_SYNC_DEVICE ||
           kind == FUZZ_SLEEP || kind == FUZZ_WAKE || kind == FUZZ_COMPACT || kind == FUZZ_TRIM ||
           kind == FUZZ_POOL_TRIM || kind == FUZZ_POOL_DESTROY || kind == FUZZ_MISS ||
           kind == FUZZ_FREE_HOST ||
           ((kind == FUZZ_ACCESS || kind == FUZZ_ACCESS_ALL) && op->n == 0);
}

/* The line of the stream that a call waits for; -1 if that is not one, or not known. */
static int wait_line(const fuzz_run *run, const fuzz_op *op)
{
    const model *m = &run->model;
    if (op->kind == FUZZ_SYNC_STREAM || op->kind == FUZZ_FREE_HOST)
        return gate_state.line_of[op->stream];
    for (int i = 0; op->kind == FUZZ_SYNC_EVENT && i < FUZZ_STREAMS; i++)
        if (m->streams[i].is_there && m->streams[i].component == m->events[op->event].component)
            return gate_state.line_of[i];
    return -1;
}

const char *gate_refuses(const fuzz_op *op)
{
    return op->kind == FUZZ_FAULT    ? "a driver's failures cannot be ordered"
           : op->kind == FUZZ_BESIDE ? "gates cannot be placed while another thread captures"
           : op->kind == FUZZ_HOST_MALLOC || op->kind == FUZZ_COMMIT_RANGE
               ? "host memory and pages of ranges are for the simulated device"
               : NULL;
}

int gate_is_harmless(const fuzz_run *run, const fuzz_op *op)
{
    const model *m = &run->model;
    if (!kind_is_work(op->kind) || m->blocks[op->block].base != 0)
        return 0;
    return model_overlap(m, run->last[op->block].base, run->last[op->block].bytes) < 0;
}

int gate_before(fuzz_run *run, const fuzz_op *op)
{
    gates *self = &gate_state;
    char text[128];
    self->placed_line = -1;
    if (op->kind == FUZZ_RUN || op->kind == FUZZ_RUN_STREAM)
        return 0; /* these open gates themselves, and wait no longer than they mean to */
    if (random_below(&self->random, 100) < (uint64_t)self->open_percent)
        (void)gates_run(1);
    int line = kind_is_work(op->kind) ? self->line_of[op->stream] : -1;
    if (line >= 0 && !run->model.capturing &&
        random_below(&self->random, 100) < (uint64_t)self->gated_percent) {
        if (line_place(run, line) != 0)
            return -1;
        self->placed_line = line;
    }
    int waits = op_waits(op), waits_for = wait_line(run, op);
    if (waits && waits_for >= 0)
        line_finish(waits_for);
    else if (waits)
        (void)gates_run(UINT64_MAX);
    gate_call_begin(fuzz_op_text(op, text, sizeof(text)), waits, waits_for);
    return 0;
}

/* What the kernels have found so far. The record is complete once its first word is there. */
static void record_look(void)
{
    volatile gate_record *record = gate_state.record;
    if (__atomic_load_n(&record->is_set, __ATOMIC_ACQUIRE) == 0)
        return;
    fuzz_mismatches =
        (fuzz_mismatch){1, record->step, record->address, record->expected, record->found};
}

void gate_after(fuzz_run *run, const fuzz_op *op, int took_place)
{
    gates *self = &gate_state;
    int placed = self->placed_line;
    if (placed >= 0 && line_queue(placed, self->lines[placed].placed, 1) != CUDA_SUCCESS)
        run_fail(run, FUZZ_VERDICT_SAFETY, "driver", "the mark behind a gate could not be queued");
    gate_call_end();
    record_look();
    /* Everything has run, and the block that was freed too early has no other owner yet: no harm
     * was done, and what gets the memory from here on is after its last use. */
    if (op->kind == FUZZ_RUN && op->n == UINT64_MAX && run->freed_base != 0 && !run->freed_again)
        run->is_harmless = 1;
    if (!took_place || (op->kind != FUZZ_STREAM_CREATE && op->kind != FUZZ_STREAM_DESTROY))
        return;
    pthread_mutex_lock(&self->lock);
    if (op->kind == FUZZ_STREAM_CREATE)
        self->line_of[op->stream] =
            (int8_t)line_take(run->streams[op->stream], run_device_of(run, op->stream));
    else if (self->line_of[op->stream] >= 0)
        self->lines[self->line_of[op->stream]].is_ended = 1;
    if (op->kind == FUZZ_STREAM_DESTROY)
        self->line_of[op->stream] = -1;
    pthread_mutex_unlock(&self->lock);
}

/* ---- measuring ------------------------------------------------------------------------------ */

enum { MEASURED = 9 };

static int is_shorter(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* How long a gate takes to open, from the host's store to the mark behind it, while another stream
 * is held. Uses the first two lines, before any stream has them. Returns 0 if it cannot be said. */
static uint64_t opening_measure(void)
{
    gates *self = &gate_state;
    uint64_t took_ns[MEASURED] = {0};
    int bad = 0;
    for (int i = 0; i < 2 && !bad; i++) {
        bad = self->device->stream_create(&self->lines[i].stream, CU_STREAM_NON_BLOCKING) !=
              CUDA_SUCCESS;
        self->lines[i].placed = 1;
        bad = bad || line_queue(i, 1, 0) != CUDA_SUCCESS || line_queue(i, 1, 1) != CUDA_SUCCESS;
    }
    for (uint32_t i = 0; i < MEASURED && !bad; i++) {
        gate_line *line = &self->lines[1];
        uint64_t began = gate_now_ns();
        line->opened = line->placed - 1;
        gate_open_next(1);
        bad = !line_settle(1, line->opened, SETTLE_SURELY_NS);
        took_ns[i] = gate_now_ns() - began;
        line->placed++;
        bad = bad || line_queue(1, line->placed, 0) != CUDA_SUCCESS ||
              line_queue(1, line->placed, 1) != CUDA_SUCCESS;
    }
    for (int i = 0; i < 2; i++) {
        gate_open_next(i);
        (void)line_settle(i, self->lines[i].placed, SETTLE_SURELY_NS);
        (void)self->device->stream_destroy(self->lines[i].stream);
    }
    self->closed = 0;
    qsort(took_ns, MEASURED, sizeof(took_ns[0]), is_shorter);
    return bad ? 0 : took_ns[MEASURED / 2];
}

/* ---- beginning and end ---------------------------------------------------------------------- */

/* What the simulated device's schedules mean here: how many operations have gates, and how soon
 * these open by themselves. */
static void schedule_set(const char *schedule)
{
    gates *self = &gate_state;
    self->gated_percent = 50;
    self->open_percent = 25;
    if (strcmp(schedule, "lazy") == 0) {
        self->gated_percent = 100;
        self->open_percent = 0;
    } else if (strcmp(schedule, "eager") == 0) {
        self->gated_percent = 12;
        self->open_percent = 50;
    }
}

void gate_environment(void)
{
    /* A simulated device: its workers run whatever they can, as a real one does, and its detector
     * must not see what contents are to show. */
    setenv("TENURE_SIM_SCHEDULE", "threads", 1);
    setenv("TENURE_SIM_RACES", "0", 1);
    if (!gate_has_memory_operations())
        setenv("TENURE_SIM_THREADS", "24", 1); /* a stream that waits by a kernel occupies one */
    /* A real one: streams must not share a queue, or a closed gate of one holds up the other. A
     * kernel that is loaded at its first launch may wait for the device then. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
}

static uint64_t memory_free(void)
{
    size_t free_bytes = 0, all_bytes = 0;
    return gate_state.memory_info(&free_bytes, &all_bytes) == CUDA_SUCCESS ? free_bytes : 0;
}

int gate_begin(fuzz_run *run)
{
    gates *self = &gate_state;
    self->run = run;
    self->counts = &run->result->gates;
    self->random = run->setup->schedule_seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    self->watcher_random = ~self->random;
    self->device->run = gates_run;
    self->device->run_stream = gates_run_stream;
    schedule_set(run->setup->schedule);
    self->counts->opening_ns = opening_measure();
    self->settle_ns = self->counts->opening_ns * SETTLE_TIMES;
    if (self->settle_ns < SETTLE_LEAST_NS)
        self->settle_ns = SETTLE_LEAST_NS;
    if (self->settle_ns > SETTLE_MOST_NS)
        self->settle_ns = SETTLE_MOST_NS;
    self->still_ns = self->counts->opening_ns * STILL_TIMES;
    if (self->still_ns > STILL_MOST_NS)
        self->still_ns = STILL_MOST_NS;
    for (int i = 0; i < FUZZ_STREAMS; i++)
        self->line_of[i] = -1;
    self->free_bytes = memory_free();
    for (int i = 0; i < 2; i++)
        self->line_of[i] = (int8_t)line_take(run->streams[i], 0);
    if (gate_watch_start() == 0)
        return 0;
    run_fail(run, FUZZ_VERDICT_SETUP, "setup", "no thread can be started to watch the gates");
    return -1;
}

void gate_note_memory(void)
{
    uint64_t now = memory_free();
    gate_state.counts->kept_bytes = gate_state.free_bytes > now ? gate_state.free_bytes - now : 0;
}

void gate_end(fuzz_run *run)
{
    gates *self = &gate_state;
    (void)run;
    pthread_mutex_lock(&self->lock);
    for (int i = 0; i < GATE_LINES; i++)
        while (line_closed(&self->lines[i]) > 0)
            gate_open_next(i);
    pthread_mutex_unlock(&self->lock);
}
