/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All orders of steps, all outcomes: see explorer.h.
 *
 * Each thread is a coroutine that stops before each step. A state is kept as a copy of the model's
 * memory, the watched plain memory, and the coroutines with the used part of their stacks. So a
 * step is tried by putting the copy back. Two states are the same if their memory is the same and
 * each thread has read the same values so far: those values determine what is on its stack.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "explorer.h"

#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "memory.h"

enum { STACK_BYTES = 1 << 15, STACK_MARGIN = 512, STEPS_MAX = 300, PLAIN_BYTES_MAX = 8 };

typedef enum step_kind {
    STEP_LOAD,
    STEP_STORE,
    STEP_EXCHANGE,
    STEP_LIGHT_FENCE,
    STEP_BARRIER_BEGIN,
    STEP_BARRIER_IN, /* one of the other threads */
    STEP_BARRIER_END,
    STEP_REST
} step_kind;

typedef struct step {
    step_kind kind;
    explorer_site *site;
    int object;
    int is_acquire, is_release, is_acquire_failed;
    unsigned others; /* threads, by bits, that the barrier has still to be run in */
    uint64_t value, expected;
} step;

typedef struct coroutine {
    jmp_buf here;        /* where it goes on */
    step next;           /* what it has stopped before */
    uint64_t result;     /* of the step */
    uint64_t point;      /* where it has settled */
    uint64_t history[2]; /* of what it has read since */
    unsigned char *low;  /* what its stack is used down to */
} coroutine;

/* A copy of the state. */
typedef struct copy {
    model_memory memory;
    coroutine coroutines[EXPLORER_THREADS_MAX];
    unsigned char plain[PLAINS_MAX][PLAIN_BYTES_MAX];
    unsigned char stacks[]; /* the used parts, one after the other */
} copy;

/* A step that was done, for the report. */
typedef struct done {
    int thread, outcome;
    step step;
    uint64_t result;
} done;

typedef struct watched {
    const volatile unsigned char *at;
    size_t bytes;
    int is_constant;
} watched;

static struct {
    const explorer_program *program;
    const explorer_site *weakened;
    explorer_weakening weakening;
    explorer_result *result;
    int is_dropped; /* the present run is the same as another */
    int running;    /* thread, or -1 */
    int depth;
    int atomics_count, plains_count;
    watched atomics[ATOMICS_MAX], plains[PLAINS_MAX];
    done path[STEPS_MAX + 1];
} explorer = {.running = -1};

static model_memory model;
static coroutine coroutines[EXPLORER_THREADS_MAX];
static jmp_buf main_here;
static unsigned char stacks[EXPLORER_THREADS_MAX][STACK_BYTES] __attribute__((aligned(64)));
static explorer_site *sites;

/* ---- what was told apart -------------------------------------------------------------------- */

static struct {
    uint64_t (*keys)[2];
    size_t room, count;
} met;

static int met_add(const uint64_t key[2])
{
    if (2 * met.count >= met.room) {
        uint64_t(*before)[2] = met.keys;
        size_t room = met.room;
        met.room = room == 0 ? 1 << 16 : 2 * room;
        met.keys = calloc(met.room, sizeof(*met.keys));
        if (met.keys == NULL)
            abort();
        met.count = 0;
        for (size_t i = 0; i < room; i++)
            if (before[i][0] != 0)
                met_add(before[i]);
        free(before);
    }
    size_t at = key[0] & (met.room - 1);
    while (met.keys[at][0] != 0) {
        if (met.keys[at][0] == key[0] && met.keys[at][1] == key[1])
            return 0;
        at = (at + 1) & (met.room - 1);
    }
    memcpy(met.keys[at], key, sizeof(met.keys[at]));
    met.count++;
    return 1;
}

static void met_forget(void)
{
    free(met.keys);
    memset(&met, 0, sizeof(met));
}

static int state_is_new(void)
{
    uint64_t key[2] = {1, 2};
    memory_hash(&model, key);
    for (int i = 0; i < explorer.program->threads; i++) {
        key[0] = (key[0] ^ coroutines[i].history[0]) * UINT64_C(0x9e3779b97f4a7c15);
        key[0] ^= key[0] >> 31;
        key[1] = (key[1] + coroutines[i].history[1]) * UINT64_C(0xd6e8feb86659fd93);
        key[1] ^= key[1] >> 30;
    }
    key[0] |= 1;
    return met_add(key);
}

static void history_add(int thread, uint64_t value)
{
    uint64_t *history = coroutines[thread].history;
    history[0] = (history[0] + value + 1) * UINT64_C(0x9e3779b97f4a7c15);
    history[0] ^= history[0] >> 30;
    history[1] = (history[1] ^ (value + 3)) * UINT64_C(0xd6e8feb86659fd93);
    history[1] ^= history[1] >> 31;
}

/* ---- copies --------------------------------------------------------------------------------- */

static size_t stack_used(int thread)
{
    return (size_t)(stacks[thread] + STACK_BYTES - coroutines[thread].low);
}

static copy *copy_make(void)
{
    size_t bytes = 0;
    for (int i = 0; i < explorer.program->threads; i++)
        bytes += stack_used(i);
    copy *made = malloc(sizeof(*made) + bytes);
    if (made == NULL)
        abort();
    made->memory = model;
    memcpy(made->coroutines, coroutines, sizeof(coroutines));
    for (int i = 0; i < explorer.plains_count; i++)
        memcpy(made->plain[i], (const void *)explorer.plains[i].at, explorer.plains[i].bytes);
    unsigned char *to = made->stacks;
    for (int i = 0; i < explorer.program->threads; i++) {
        memcpy(to, coroutines[i].low, stack_used(i));
        to += stack_used(i);
    }
    return made;
}

static void copy_put_back(const copy *from)
{
    model = from->memory;
    memcpy(coroutines, from->coroutines, sizeof(coroutines));
    for (int i = 0; i < explorer.plains_count; i++)
        memcpy((void *)(uintptr_t)explorer.plains[i].at, from->plain[i], explorer.plains[i].bytes);
    const unsigned char *stack = from->stacks;
    for (int i = 0; i < explorer.program->threads; i++) {
        memcpy(coroutines[i].low, stack, stack_used(i));
        stack += stack_used(i);
    }
}

/* ---- reports -------------------------------------------------------------------------------- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static void report_add(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void report_add(const char *format, ...)
{
    size_t length = strlen(explorer.result->text);
    __builtin_va_list arguments;
    __builtin_va_start(arguments, format);
    vsnprintf(explorer.result->text + length, sizeof(explorer.result->text) - length, format,
              arguments);
    __builtin_va_end(arguments);
}

static void report_step(const done *one)
{
    static const char *const kinds[] = {
        [STEP_LOAD] = "load",
        [STEP_STORE] = "store",
        [STEP_EXCHANGE] = "exchange",
        [STEP_LIGHT_FENCE] = "compiler's fence",
        [STEP_BARRIER_BEGIN] = "barrier begins",
        [STEP_BARRIER_IN] = "barrier in thread",
        [STEP_BARRIER_END] = "barrier is over",
        [STEP_REST] = "rests",
    };
    const explorer_site *site = one->step.site;
    report_add("  thread %d  ", one->thread);
    if (site != NULL)
        report_add("%s:%d %s: ", base_name(site->file), site->line, site->function);
    report_add("%s", kinds[one->step.kind]);
    if (one->step.kind == STEP_BARRIER_IN)
        report_add(" %d", (int)one->result);
    if (one->step.kind <= STEP_EXCHANGE)
        report_add(
            " %s: 0x%llx", site->object,
            (unsigned long long)(one->step.kind == STEP_STORE ? one->step.value : one->result));
    if (one->step.kind == STEP_EXCHANGE && one->result == one->step.expected)
        report_add(", now 0x%llx", (unsigned long long)one->step.value);
    report_add("%s\n", one->outcome == 0 || one->step.kind == STEP_BARRIER_IN ? ""
                       : one->step.kind == STEP_STORE                         ? ", before others"
                                                                              : ", not the newest");
}

static void went_wrong(const char *what, const char *where, int line)
{
    if (explorer.result->went_wrong)
        return;
    explorer.result->went_wrong = 1;
    report_add("%s: ", explorer.program->name);
    if (explorer.running >= 0)
        report_add("thread %d: ", explorer.running);
    report_add("%s", what);
    if (where != NULL)
        report_add(" %s", where);
    report_add(line > 0 ? ", line %d, after\n" : ", after\n", line);
    for (int i = 0; i < explorer.depth; i++)
        report_step(&explorer.path[i]);
}

/* ---- in the threads ------------------------------------------------------------------------- */

int explorer_thread(void)
{
    return explorer.running;
}

/* Back to the explorer. */
static void __attribute__((noinline)) coroutine_stop(void)
{
    coroutine *self = &coroutines[explorer.running];
    self->low = (unsigned char *)__builtin_frame_address(0) - STACK_MARGIN;
    if (_setjmp(self->here) == 0)
        _longjmp(main_here, 1);
}

static uint64_t step_do(const step *next)
{
    int thread = explorer.running;
    coroutines[thread].next = *next;
    coroutine_stop();
    return coroutines[thread].result;
}

_Noreturn void explorer_failed(const char *condition, int line)
{
    went_wrong("assertion failed:", condition, line);
    for (;;)
        coroutine_stop();
}

static void site_meet(explorer_site *site)
{
    if (site->is_met)
        return;
    site->is_met = 1;
    site->next = sites;
    sites = site;
}

const explorer_site *explorer_sites(void)
{
    return sites;
}

static int is_weakened(const explorer_site *site, explorer_weakening weakening)
{
    return site == explorer.weakened && explorer.weakening == weakening;
}

static int order_acquires(const explorer_site *site, int order)
{
    return (order == memory_order_acquire || order == memory_order_acq_rel ||
            order == memory_order_seq_cst) &&
           !is_weakened(site, EXPLORER_ACQUIRE);
}

static int order_releases(const explorer_site *site, int order)
{
    return (order == memory_order_release || order == memory_order_acq_rel ||
            order == memory_order_seq_cst) &&
           !is_weakened(site, EXPLORER_RELEASE);
}

static int object_find(const watched *objects, int count, const volatile void *at)
{
    for (int i = 0; i < count; i++)
        if ((const volatile unsigned char *)at >= objects[i].at &&
            (const volatile unsigned char *)at < objects[i].at + objects[i].bytes)
            return i;
    return -1;
}

static int atomic_find(const volatile void *at)
{
    int found = object_find(explorer.atomics, explorer.atomics_count, at);
    if (found < 0) {
        fprintf(stderr, "lock_model: an atomic object that was not registered\n");
        abort();
    }
    return found;
}

static uint64_t value_of(const watched *object)
{
    uint64_t value = 0;
    memcpy(&value, (const void *)object->at, object->bytes); /* the low bytes come first */
    return value;
}

uint64_t explorer_load(explorer_site *site, const volatile void *at, int order)
{
    int object = atomic_find(at);
    if (explorer.running < 0)
        return value_of(&explorer.atomics[object]);
    site_meet(site);
    step next = {.kind = STEP_LOAD, .site = site, .object = object};
    next.is_acquire = order_acquires(site, order);
    return step_do(&next);
}

void explorer_store(explorer_site *site, const volatile void *at, uint64_t value, int order)
{
    step next = {.kind = STEP_STORE, .site = site, .object = atomic_find(at), .value = value};
    site_meet(site);
    next.is_release = order_releases(site, order);
    step_do(&next);
}

int explorer_exchange_if(explorer_site *site, const volatile void *at, uint64_t *expected,
                         uint64_t value, int order, int order_failed)
{
    step next = {.kind = STEP_EXCHANGE, .site = site, .object = atomic_find(at), .value = value};
    site_meet(site);
    next.is_acquire = order_acquires(site, order);
    next.is_acquire_failed = order_acquires(site, order_failed);
    next.is_release = order_releases(site, order);
    next.expected = *expected;
    *expected = step_do(&next);
    return *expected == next.expected;
}

void explorer_light_fence(explorer_site *site)
{
    step next = {.kind = STEP_LIGHT_FENCE, .site = site};
    site_meet(site);
    if (!is_weakened(site, EXPLORER_FENCE))
        step_do(&next);
}

void explorer_barrier(explorer_site *site)
{
    step next = {.kind = STEP_BARRIER_BEGIN, .site = site};
    site_meet(site);
    if (is_weakened(site, EXPLORER_FENCE))
        return;
    step_do(&next);
    next.kind = STEP_BARRIER_IN;
    next.others = ((1u << explorer.program->threads) - 1) & ~(1u << explorer.running);
    while (next.others != 0)
        next.others &= ~(1u << step_do(&next));
    next.kind = STEP_BARRIER_END;
    step_do(&next);
}

static void history_begin(int thread, int is_rest)
{
    coroutines[thread].history[0] = coroutines[thread].history[1] = 0;
    history_add(thread, coroutines[thread].point);
    history_add(thread, (uint64_t)is_rest);
}

void explorer_settle(uint64_t point)
{
    coroutines[explorer.running].point = point;
    memory_look_begin(&model, explorer.running);
    history_begin(explorer.running, 0);
}

void explorer_rest(int forgets)
{
    if (forgets)
        history_begin(explorer.running, 1);
    if (memory_look_end(&model, explorer.running) == MEMORY_LOOK_IN_VAIN) {
        explorer.is_dropped = 1;
        for (;;)
            coroutine_stop();
    }
    step next = {.kind = STEP_REST};
    step_do(&next);
}

static void coroutine_main(int thread)
{
    explorer.program->run(thread);
    model.threads[thread].is_over = 1;
    for (;;)
        coroutine_stop();
}

/* What the compiler calls before each load and store of plain memory (-fsanitize=thread). */
static void plain_use(const void *at, int is_store)
{
    int thread = explorer.running;
    const unsigned char *byte = at;
    if (thread < 0 || (byte >= stacks[0] && byte < stacks[0] + sizeof(stacks)))
        return;
    int plain = object_find(explorer.plains, explorer.plains_count, at);
    if (plain < 0) {
        fprintf(stderr, "lock_model: plain memory that was not registered\n");
        abort();
    }
    const watched *object = &explorer.plains[plain];
    if (!object->is_constant && !memory_access(&model, thread, plain)) {
        char name[64];
        snprintf(name, sizeof(name), "number %d", plain);
        went_wrong("a race for plain memory,", name, 0);
        for (;;)
            coroutine_stop();
    }
    if (object->is_constant && is_store)
        explorer_failed("a constant is not changed", 0);
    if (!is_store)
        history_add(thread, value_of(object));
}

#define PLAIN_USE(name, is_store)                                                                  \
    void name(void *at);                                                                           \
    void name(void *at)                                                                            \
    {                                                                                              \
        plain_use(at, is_store);                                                                   \
    }
PLAIN_USE(__tsan_read1, 0)
PLAIN_USE(__tsan_read2, 0)
PLAIN_USE(__tsan_read4, 0)
PLAIN_USE(__tsan_read8, 0)
PLAIN_USE(__tsan_read16, 0)
PLAIN_USE(__tsan_write1, 1)
PLAIN_USE(__tsan_write2, 1)
PLAIN_USE(__tsan_write4, 1)
PLAIN_USE(__tsan_write8, 1)
PLAIN_USE(__tsan_write16, 1)

/* Of whole structures: only before the threads run. */
static void range_use(const void *at, size_t bytes)
{
    if (explorer.running >= 0 && bytes > 0)
        plain_use(at, 1);
}
void __tsan_read_range(void *at, size_t bytes);
void __tsan_read_range(void *at, size_t bytes)
{
    range_use(at, bytes);
}
void __tsan_write_range(void *at, size_t bytes);
void __tsan_write_range(void *at, size_t bytes)
{
    range_use(at, bytes);
}
void *__tsan_memset(void *at, int value, size_t bytes);
void *__tsan_memset(void *at, int value, size_t bytes)
{
    range_use(at, bytes);
    return memset(at, value, bytes);
}
void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
    range_use(to, bytes);
    return memcpy(to, from, bytes);
}

/* Of no interest. */
void __tsan_init(void);
void __tsan_init(void)
{
}
void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller)
{
    (void)caller;
}
void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}

/* ---- exploring ------------------------------------------------------------------------------ */

static int thread_can_run(int thread)
{
    const coroutine *self = &coroutines[thread];
    return !model.threads[thread].is_over &&
           (self->next.kind != STEP_REST || memory_has_news(&model, thread));
}

static int step_outcomes(int thread)
{
    const step *next = &coroutines[thread].next;
    switch (next->kind) {
    case STEP_LOAD:
    case STEP_EXCHANGE:
        return memory_load_outcomes(&model, thread, next->object);
    case STEP_STORE:
        return memory_store_outcomes(&model, thread, next->object);
    case STEP_BARRIER_IN:
        return __builtin_popcount(next->others);
    default:
        return 1;
    }
}

/* The number of the set bit with `before` set ones below it. */
static int bit_number(unsigned bits, int before)
{
    for (; before > 0; before--)
        bits &= bits - 1;
    return __builtin_ctz(bits);
}

/* The same for an exchange. */
static int exchange_take(int thread, int outcome)
{
    coroutine *self = &coroutines[thread];
    const step *next = &self->next;
    if (memory_value_at(&model, next->object, outcome) != next->expected)
        self->result = memory_load(&model, thread, next->object, outcome, next->is_acquire_failed);
    else if (memory_exchange_is_possible(&model, next->object, outcome))
        self->result = memory_exchange(&model, thread, next->object, outcome, next->value,
                                       next->is_acquire, next->is_release);
    else
        return 0;
    return 1;
}

/* Does the thread's next step with the outcome; 0: there is no such. */
static int step_take(int thread, int outcome)
{
    coroutine *self = &coroutines[thread];
    const step *next = &self->next;
    self->result = 0;
    switch (next->kind) {
    case STEP_LOAD:
        self->result = memory_load(&model, thread, next->object, outcome, next->is_acquire);
        break;
    case STEP_EXCHANGE:
        if (!exchange_take(thread, outcome))
            return 0;
        break;
    case STEP_STORE:
        memory_store(&model, thread, next->object, outcome, next->value, next->is_release);
        break;
    case STEP_LIGHT_FENCE:
        memory_light_fence(&model, thread);
        break;
    case STEP_BARRIER_BEGIN:
        memory_barrier_begin(&model, thread);
        break;
    case STEP_BARRIER_IN:
        self->result = (uint64_t)bit_number(next->others, outcome);
        memory_barrier_in(&model, thread, (int)self->result);
        break;
    case STEP_BARRIER_END:
        memory_barrier_end(&model, thread);
        break;
    case STEP_REST:
        model.threads[thread].has_stored = 0;
        break;
    }
    history_add(thread, self->result);
    explorer.path[explorer.depth++] = (done){thread, outcome, *next, self->result};
    return 1;
}

static void thread_resume(int thread)
{
    explorer.running = thread;
    if (_setjmp(main_here) == 0)
        _longjmp(coroutines[thread].here, 1);
    explorer.running = -1;
}

/* Runs a thread up to its first step, on a stack of its own. */
static void thread_start(int thread)
{
    ucontext_t context;
    explorer.running = thread;
    getcontext(&context);
    context.uc_stack.ss_sp = stacks[thread];
    context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&context, (void (*)(void))coroutine_main, 1, thread);
    if (_setjmp(main_here) == 0)
        setcontext(&context);
    explorer.running = -1;
}

static void explore(void);

/* Tries all outcomes of one thread's next step. */
static void explore_thread(int thread, const copy *here)
{
    int outcomes = step_outcomes(thread);
    for (int outcome = 0; outcome < outcomes && !explorer.result->went_wrong; outcome++) {
        copy_put_back(here);
        if (!step_take(thread, outcome))
            continue;
        explorer.is_dropped = 0;
        thread_resume(thread);
        if (!explorer.is_dropped && !explorer.result->went_wrong)
            explore();
        explorer.depth--;
    }
}

static void explore(void)
{
    int over = 0, can_run = 0;
    if (!state_is_new())
        return;
    explorer.result->states++;
    if (explorer.depth == STEPS_MAX) {
        went_wrong("no end after", "so many steps", 0);
        return;
    }
    copy *here = copy_make();
    for (int i = 0; i < explorer.program->threads && !explorer.result->went_wrong; i++) {
        copy_put_back(here);
        over += model.threads[i].is_over;
        if (!thread_can_run(i))
            continue;
        can_run = 1;
        explore_thread(i, here);
    }
    free(here);
    if (over == explorer.program->threads)
        explorer.result->endings++;
    else if (!can_run)
        went_wrong("threads wait for each other", "for ever", 0);
}

static void object_add(watched *objects, int *count, int most, const volatile void *at,
                       size_t bytes, int is_constant)
{
    if (*count == most || bytes > PLAIN_BYTES_MAX)
        abort();
    objects[(*count)++] = (watched){at, bytes, is_constant};
}

void explorer_atomic(const volatile void *at, size_t bytes)
{
    object_add(explorer.atomics, &explorer.atomics_count, ATOMICS_MAX, at, bytes, 0);
}

void explorer_plain(const volatile void *at, size_t bytes)
{
    object_add(explorer.plains, &explorer.plains_count, PLAINS_MAX, at, bytes, 0);
}

void explorer_constant(const volatile void *at, size_t bytes)
{
    object_add(explorer.plains, &explorer.plains_count, PLAINS_MAX, at, bytes, 1);
}

explorer_result explorer_run(const explorer_program *program, const explorer_site *weakened,
                             explorer_weakening weakening)
{
    static explorer_result result;
    memset(&result, 0, sizeof(result));
    memset(&model, 0, sizeof(model));
    memset(coroutines, 0, sizeof(coroutines));
    explorer.program = program;
    explorer.weakened = weakened;
    explorer.weakening = weakening;
    explorer.result = &result;
    explorer.atomics_count = explorer.plains_count = explorer.depth = 0;
    program->start();
    for (int i = 0; i < explorer.atomics_count; i++) {
        model.values[i][0].value = value_of(&explorer.atomics[i]);
        model.values_count[i] = 1;
    }
    for (int i = program->threads; i < EXPLORER_THREADS_MAX; i++)
        model.threads[i].is_over = 1;
    for (int i = 0; i < program->threads; i++)
        thread_start(i);
    explore();
    met_forget();
    return result;
}
