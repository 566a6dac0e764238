/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door of the driver. Every cu* call comes through sim_enter. It counts the call, lets an
 * injected failure happen, takes the lock and checks what the call needs. Also the look-up of entry
 * points.
 */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

typedef void (*entry_function)(void);

struct entry_row {
    const char *name;
    const char *symbol;
    int since;
    entry_function function;
    entry_function per_thread; /* null if there is no such form */
};

static const struct entry_row entries[SIM_ENTRY_COUNT] = {
#define SIM_ENTRY(name, symbol, since) {#name, #symbol, since, (entry_function)symbol, NULL},
#define SIM_ENTRY_STREAM(name, symbol, since, per_thread)                                          \
    {#name, #symbol, since, (entry_function)symbol, (entry_function)per_thread},
#include "entry_points.def"
#undef SIM_ENTRY
#undef SIM_ENTRY_STREAM
};

static _Thread_local struct sim_thread thread_state;

/* ---- the door ------------------------------------------------------------------------------- */

void sim_lock(void)
{
    pthread_mutex_lock(&sim.lock);
}

void sim_unlock(void)
{
    pthread_mutex_unlock(&sim.lock);
}

/* What this thread knows; forgotten when the simulation was reset since. */
struct sim_thread *sim_thread(void)
{
    if (thread_state.epoch != sim.epoch) {
        thread_state.epoch = sim.epoch;
        thread_state.depth = 0;
        thread_state.mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
        thread_state.number = ++sim.next_thread;
    }
    return &thread_state;
}

struct sim_context *sim_current(void)
{
    const struct sim_thread *thread = sim_thread();
    return thread->depth == 0 ? NULL : thread->stack[thread->depth - 1];
}

/* An injected failure for this call, or CUDA_SUCCESS. */
static CUresult rule_apply(enum sim_entry entry)
{
    for (size_t i = 0; i < sim.rule_count; i++) {
        struct sim_rule *rule = &sim.rules[i];
        if (rule->is_spent || !rule->entry[entry])
            continue;
        if (rule->nth > 1) {
            rule->nth--;
            continue;
        }
        rule->is_spent = !rule->is_sticky;
        sim.rule_hits++;
        return rule->error;
    }
    return CUDA_SUCCESS;
}

static void entry_configure(void)
{
    if (!sim.is_configured) {
        sim.is_configured = 1;
        sim.is_misconfigured = !sim_settings_read(&sim.settings);
    }
}

static CUresult entry_check(enum sim_entry entry, unsigned needs)
{
    entry_configure();
    sim.calls[entry]++;
    CUresult result = sim.rule_count != 0 ? rule_apply(entry) : CUDA_SUCCESS;
    /* The look-up of entry points still works, so that it is cuInit that reports the setting. */
    if (sim.is_misconfigured && (needs != SIM_NEEDS_NOTHING || entry == SIM_cuInit))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS || needs == SIM_NEEDS_NOTHING)
        return result;
    if (sim.is_shut_down)
        return CUDA_ERROR_DEINITIALIZED;
    if (!sim.is_initialised || sim.is_forked)
        return CUDA_ERROR_NOT_INITIALIZED;
    if ((needs & SIM_NEEDS_VMM) == SIM_NEEDS_VMM && !sim.settings.vmm)
        return CUDA_ERROR_NOT_SUPPORTED;
    if ((needs & SIM_NEEDS_CONTEXT) == SIM_NEEDS_CONTEXT) {
        const struct sim_context *context = sim_current();
        if (context == NULL)
            return CUDA_ERROR_INVALID_CONTEXT;
        if (context->slot == NULL)
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        if ((needs & SIM_NEEDS_CLEAN) == SIM_NEEDS_CLEAN)
            result = context->error;
    }
    if (result == CUDA_SUCCESS && (needs & SIM_NEEDS_SAFETY) == SIM_NEEDS_SAFETY)
        result = sim_capture_unsafe();
    return result;
}

CUresult sim_enter(enum sim_entry entry, unsigned needs)
{
    if (thread_state.is_in_callback && needs != SIM_NEEDS_NOTHING)
        return CUDA_ERROR_NOT_PERMITTED;
    sim_lock();
    struct sim_thread *thread = sim_thread();
    thread->entry = entry;
    thread->calls++;
    CUresult result = entry_check(entry, needs);
    if (result != CUDA_SUCCESS)
        sim_unlock();
    else
        sim_cost_call(entry);
    return result;
}

CUresult sim_leave(CUresult result)
{
    sim_unlock();
    return result;
}

/* ---- names ---------------------------------------------------------------------------------- */

const char *sim_entry_symbol(uint16_t entry)
{
    return entry < SIM_ENTRY_COUNT ? entries[entry].symbol : "?";
}

const char *sim_entry_name(uint16_t entry)
{
    return entry < SIM_ENTRY_COUNT ? entries[entry].name : "?";
}

/* Marks the entry points that a name means: all forms by plain name, one by symbol. */
int sim_entry_by_name(const char *name, uint8_t *found)
{
    int count = 0;
    for (int i = 0; i < SIM_ENTRY_COUNT; i++) {
        if (strcmp(entries[i].name, name) == 0 || strcmp(entries[i].symbol, name) == 0) {
            found[i] = 1;
            count++;
        }
    }
    return count;
}

int sim_fail_add(const char *name, uint64_t nth, int sticky, CUresult error)
{
    if (sim.rule_count == SIM_RULES_MAX || nth == 0)
        return -1;
    struct sim_rule *rule = &sim.rules[sim.rule_count];
    memset(rule, 0, sizeof(*rule));
    if (strcmp(name, "*") == 0) {
        memset(rule->entry, 1, sizeof(rule->entry));
        rule->entry[SIM_cuGetErrorName] = 0;
        rule->entry[SIM_cuGetErrorString] = 0;
    } else if (sim_entry_by_name(name, rule->entry) == 0) {
        return -1;
    }
    rule->nth = nth;
    rule->is_sticky = sticky;
    rule->error = error;
    sim.rule_count++;
    return 0;
}

/* ---- look-up of entry points ---------------------------------------------------------------- */

static CUresult entry_look_up(const char *symbol, void **function, int version, cuuint64_t flags,
                              CUdriverProcAddressQueryResult *status)
{
    const cuuint64_t known =
        CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if (symbol == NULL || function == NULL || (flags & ~known) != 0 || flags == known)
        return CUDA_ERROR_INVALID_VALUE;
    *function = NULL;
    const struct entry_row *best = NULL;
    int any = 0;
    for (int i = 0; i < SIM_ENTRY_COUNT; i++) {
        const struct entry_row *row = &entries[i];
        if (strcmp(row->name, symbol) != 0 || sim.settings.missing[i] ||
            (uint64_t)row->since > sim.settings.version)
            continue;
        any = 1;
        if (row->since <= version)
            best = row;
    }
    if (status != NULL)
        *status = best != NULL ? CU_GET_PROC_ADDRESS_SUCCESS
                  : any        ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                               : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (best == NULL) {
        sim_tell_runtime(symbol);
        return CUDA_ERROR_NOT_FOUND;
    }
    int per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    entry_function found = per_thread && best->per_thread ? best->per_thread : best->function;
    memcpy(function, &found, sizeof(found));
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    SIM_ENTER(cuGetProcAddress, SIM_NEEDS_NOTHING);
    return sim_leave(entry_look_up(symbol, pfn, cudaVersion, flags, NULL));
}

CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
                                     cuuint64_t flags, CUdriverProcAddressQueryResult *symbolStatus)
{
    SIM_ENTER(cuGetProcAddress_v2, SIM_NEEDS_NOTHING);
    return sim_leave(entry_look_up(symbol, pfn, cudaVersion, flags, symbolStatus));
}

/* ---- control -------------------------------------------------------------------------------- */

uint64_t simcuda_calls(const char *entry_point)
{
    uint8_t found[SIM_ENTRY_COUNT] = {0};
    uint64_t count = 0;
    if (entry_point == NULL || sim_entry_by_name(entry_point, found) == 0)
        return 0;
    sim_lock();
    for (int i = 0; i < SIM_ENTRY_COUNT; i++)
        count += found[i] ? sim.calls[i] : 0;
    sim_unlock();
    return count;
}

uint64_t simcuda_calls_total(void)
{
    uint64_t count = 0;
    sim_lock();
    for (int i = 0; i < SIM_ENTRY_COUNT; i++)
        count += sim.calls[i];
    sim_unlock();
    return count;
}

uint64_t simcuda_calls_here(void)
{
    return thread_state.calls;
}

void simcuda_calls_reset(void)
{
    sim_lock();
    memset(sim.calls, 0, sizeof(sim.calls));
    memset(sim.modelled_ns, 0, sizeof(sim.modelled_ns));
    sim_unlock();
}

void simcuda_fail(const char *entry_point_or_star, uint64_t nth, int sticky, CUresult error)
{
    sim_lock();
    /* Reading the environment adds its own rules, so it comes before the first rule from here. */
    entry_configure();
    int refused = entry_point_or_star == NULL
                      ? -1
                      : sim_fail_add(entry_point_or_star, nth, sticky != 0, error);
    sim_unlock();
    if (refused != 0) {
        sim_note("simcuda_fail(%s, %llu): no such entry point, call 0, or more than %d rules",
                 entry_point_or_star ? entry_point_or_star : "null", (unsigned long long)nth,
                 SIM_RULES_MAX);
        abort();
    }
}

int simcuda_has(const char *entry_point)
{
    uint8_t found[SIM_ENTRY_COUNT] = {0};
    return sim_entry_by_name(entry_point, found) > 0;
}

void simcuda_fail_clear(void)
{
    sim_lock();
    entry_configure();
    sim.rule_count = 0;
    sim.rule_hits = 0;
    sim_unlock();
}

uint64_t simcuda_fail_hits(void)
{
    sim_lock();
    uint64_t hits = sim.rule_hits;
    sim_unlock();
    return hits;
}
