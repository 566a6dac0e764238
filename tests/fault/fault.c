/* SPDX-License-Identifier: Apache-2.0 */
/* The loop over faults and the checks around it: see fault.h. */
#include "fault.h"

#include "few.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"
#include "commit_seed.h"
#include "memory/device/device.h"
#include "memory/pool/cache.h"

#define PAGE (2 * MIB)
enum { EDGE_BYTES = 64, SERVES = 4 };

/* The fault of the current run, for messages. */
static char fault_text[256];

#define FAULT_FAIL(...)                                                                            \
    do {                                                                                           \
        fprintf(stderr, "with %s:\n  ", fault_text);                                               \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fprintf(stderr, "\n");                                                                     \
        fail();                                                                                    \
    } while (0)

/* ---- what must hold at any time ------------------------------------------------------------- */

/* Whether the library has a device in use: asking it otherwise would start one. */
static int device_in_use(void)
{
    return atomic_load(&tnri_generation) != 0 && tnri_devices_count() > 0 &&
           atomic_load(&tnri_device_at(0)->in_use);
}

/* Guarantee 2 and the validator, on the device and on every pool. */
static void check_equation(tnr_pool pool)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    if (tnr_stats_get(&stats, pool, 0) != TNR_OK)
        FAULT_FAIL("tnr_stats_get: %s", tnr_last_error());
    uint64_t sum = stats.bytes_live + stats.bytes_slack + stats.bytes_binned + stats.bytes_free +
                   stats.bytes_retired;
    if (sum != stats.reserved_bytes.current + stats.bytes_asleep + stats.bytes_parked_away)
        FAULT_FAIL("live %llu + slack %llu + binned %llu + free %llu + retired %llu = %llu, but "
                   "reserved is %llu and asleep %llu",
                   (unsigned long long)stats.bytes_live, (unsigned long long)stats.bytes_slack,
                   (unsigned long long)stats.bytes_binned, (unsigned long long)stats.bytes_free,
                   (unsigned long long)stats.bytes_retired, (unsigned long long)sum,
                   (unsigned long long)stats.reserved_bytes.current,
                   (unsigned long long)stats.bytes_asleep);
}

/* Every block that the scenario holds is still that block. */
static void check_blocks(const fault_run *run)
{
    size_t held = 0;
    for (int i = 0; i < FAULT_SLOTS; i++) {
        const fault_slot *slot = &run->slots[i];
        if (slot->ptr == NULL)
            continue;
        held += 1 + slot->pages;
        tnr_block_info info;
        if (tnr_block_get(&info, slot->ptr + (slot->bytes == 0 ? 0 : slot->bytes - 1)) != TNR_OK)
            FAULT_FAIL("block %d is gone: %s", i, tnr_last_error());
        if (info.base != slot->ptr || info.bytes_requested != slot->bytes ||
            info.stream != run->streams[slot->stream])
            FAULT_FAIL("block %d is no longer what it was", i);
    }
    if (!device_in_use())
        return;
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    if (tnr_stats_get(&stats, NULL, 0) != TNR_OK || stats.allocation[TNR_WORLD_ALL].current != held)
        FAULT_FAIL("%zu blocks are held, the library counts %llu", held,
                   (unsigned long long)stats.allocation[TNR_WORLD_ALL].current);
}

static void check_state(const fault_run *run)
{
    check_blocks(run);
    if (!device_in_use())
        return;
    if (tnr_validate(-1) != TNR_OK)
        FAULT_FAIL("tnr_validate: %s", tnr_last_error());
    check_equation(NULL);
    for (int i = 0; i < FAULT_POOLS && !run->pools_ended; i++)
        if (run->pools[i] != NULL)
            check_equation(run->pools[i]);
}

/* ---- steps ---------------------------------------------------------------------------------- */

tnr_status step_status(fault_run *run, tnr_status status, const char *what)
{
    if (status != TNR_OK) {
        if (!run->in_body)
            FAULT_FAIL("%s failed with no fault about: %s", what, tnr_last_error());
        if (tnr_last_error()[0] == '\0')
            FAULT_FAIL("%s returned %s and said nothing", what, tnr_status_name(status));
        if (status == TNR_ERR_HOST_MEMORY && !run->starves && tnr_last_driver_result() == 0)
            FAULT_FAIL("%s says that host memory is short, and it is not: %s", what,
                       tnr_last_error());
        run->failed_calls++;
    }
    check_state(run);
    return status;
}

tnr_status step_malloc(fault_run *run, int slot, size_t bytes, size_t alignment, int pool,
                       int stream)
{
    assert_null(run->slots[slot].ptr);
    void *ptr = (void *)run; /* must be set to null by a failure */
    tnr_status status;
    if (pool >= 0)
        status = tnr_pool_malloc(&ptr, run->pools[pool], bytes, 0, run->streams[stream]);
    else if (alignment > 0)
        status = tnr_malloc_aligned(&ptr, bytes, alignment, 0, run->streams[stream]);
    else
        status = tnr_malloc(&ptr, bytes, 0, run->streams[stream]);
    if ((status == TNR_OK) != (ptr != NULL))
        FAULT_FAIL("an allocation returned %s and the address %p", tnr_status_name(status), ptr);
    if (alignment > 0 && (uintptr_t)ptr % alignment != 0)
        FAULT_FAIL("%p is not aligned to %zu", ptr, alignment);
    run->slots[slot] = (fault_slot){ptr, bytes, stream, 0, 0, 0};
    return step_status(run, status, "an allocation");
}

tnr_status step_reserve(fault_run *run, int slot, size_t bytes_max, int stream)
{
    assert_null(run->slots[slot].ptr);
    void *ptr = (void *)run;
    tnr_status status = tnr_reserve(&ptr, bytes_max, 0, run->streams[stream]);
    if ((status == TNR_OK) != (ptr != NULL))
        FAULT_FAIL("a reservation returned %s and the address %p", tnr_status_name(status), ptr);
    run->slots[slot] = (fault_slot){ptr, 0, stream, 0, 0, 0};
    return step_status(run, status, "a reservation");
}

tnr_status step_commit(fault_run *run, int slot, size_t bytes)
{
    if (run->slots[slot].ptr == NULL)
        return TNR_OK; /* its reservation was made to fail */
    tnr_status status = tnr_commit(run->slots[slot].ptr, bytes);
    if (status == TNR_ERR_BUSY) /* one that was made to fail says still that it is under way */
        FAULT_FAIL("a commit, alone: %s", tnr_last_error());
    if (status == TNR_OK)
        run->slots[slot].bytes = bytes;
    return step_status(run, status, "a commit");
}

void step_free(fault_run *run, int slot)
{
    if (run->slots[slot].ptr == NULL)
        return; /* its allocation was made to fail */
    tnr_status status = tnr_free(run->slots[slot].ptr);
    if (status != TNR_OK)
        FAULT_FAIL("tnr_free, which calls no driver, failed: %s", tnr_last_error());
    run->slots[slot].ptr = NULL;
    check_state(run);
}

tnr_status step_trim(fault_run *run, size_t keep_bytes)
{
    return step_status(run, tnr_trim(NULL, keep_bytes, 0), "tnr_trim");
}

tnr_status step_pool_create(fault_run *run, int pool, size_t limit_bytes, size_t threshold_bytes)
{
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.limit_bytes = limit_bytes;
    options.release_threshold_bytes = threshold_bytes;
    tnr_status status = tnr_pool_create(&run->pools[pool], 0, &options);
    if ((status == TNR_OK) != (run->pools[pool] != NULL))
        FAULT_FAIL("tnr_pool_create returned %s and a pool that does not fit", //
                   tnr_status_name(status));
    return step_status(run, status, "tnr_pool_create");
}

tnr_status step_pool_destroy(fault_run *run, int pool)
{
    if (run->pools[pool] == NULL)
        return TNR_OK;
    tnr_status status = tnr_pool_destroy(run->pools[pool]);
    if (status == TNR_OK)
        run->pools[pool] = NULL;
    return step_status(run, status, "tnr_pool_destroy");
}

tnr_status step_shutdown(fault_run *run, int force)
{
    run->pools_ended = 1;
    tnr_status status = tnr_shutdown(force);
    if (status == TNR_OK)
        memset(run->slots, 0, sizeof(run->slots));
    /* Documented: a forced shutdown may have freed blocks before it failed. */
    for (int i = 0; i < FAULT_SLOTS && force; i++) {
        tnr_block_info info;
        if (run->slots[i].ptr != NULL && tnr_block_get(&info, run->slots[i].ptr) != TNR_OK)
            run->slots[i].ptr = NULL;
    }
    return step_status(run, status, "tnr_shutdown");
}

/* ---- data ----------------------------------------------------------------------------------- */

/* The places of a block that are written: both ends and both sides of each chunk border. */
static size_t slot_places(const fault_slot *slot, unsigned char **places, size_t max)
{
    size_t count = 0;
    unsigned char *end = slot->ptr + (slot->filled & ~(size_t)3);
    places[count++] = slot->ptr;
    for (unsigned char *at = slot->ptr; at < end && count + 2 < max;) {
        uintptr_t border = ((uintptr_t)at + PAGE) & ~(uintptr_t)(PAGE - 1);
        at = slot->ptr + (border - (uintptr_t)slot->ptr);
        if (at + EDGE_BYTES > end)
            break;
        places[count++] = at - EDGE_BYTES;
        places[count++] = at;
    }
    places[count++] = end - EDGE_BYTES;
    return count;
}

void prepare_fill(fault_run *run, int index)
{
    fault_slot *slot = &run->slots[index];
    unsigned char *places[256];
    assert_true(slot->bytes >= 2 * (size_t)EDGE_BYTES);
    slot->pattern = ++run->pattern_last;
    slot->filled = slot->bytes;
    size_t count = slot_places(slot, places, 256);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(cuMemsetD32Async((CUdeviceptr)(uintptr_t)places[i],
                                          slot->pattern * 0x9e3779b9u + (uint32_t)i, EDGE_BYTES / 4,
                                          run->streams[slot->stream]),
                         CUDA_SUCCESS);
}

/* Compares a filled block; all work has run. */
static void check_data(const fault_run *run, int index)
{
    const fault_slot *slot = &run->slots[index];
    unsigned char *places[256];
    size_t count = slot_places(slot, places, 256);
    for (size_t i = 0; i < count; i++)
        for (size_t at = 0; at < EDGE_BYTES; at += 4) {
            uint32_t word;
            memcpy(&word, places[i] + at, sizeof(word));
            if (word != slot->pattern * 0x9e3779b9u + (uint32_t)i)
                FAULT_FAIL("block %d has lost its data at offset %zu", index,
                           (size_t)(places[i] + at - slot->ptr));
        }
}

/* ---- one run -------------------------------------------------------------------------------- */

static void run_begin(fault_run *run, const fault_scenario *scenario)
{
    char conf[256];
    memset(run, 0, sizeof(*run));
    setenv("TENURE_SIM_MEMORY", scenario->memory, 1);
    setenv("TENURE_SIM_SCHEDULE", "lazy", 1);
    setenv("TENURE_SIM_DEVICES", "1", 1);
    snprintf(conf, sizeof(conf), "address_space_gb:%d%s%s", few_or(32, 8),
             scenario->conf == NULL ? "" : ",", scenario->conf == NULL ? "" : scenario->conf);
    setenv("TENURE_CONF", conf, 1);
    simcuda_fail_clear(); /* what a test that failed has left */
    assert_int_equal(tnr_shutdown(1), TNR_OK);
    (void)simcuda_reset();
    simcuda_violations_clear();
    assert_int_equal(cuInit(0), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRetain(&run->context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(run->context), CUDA_SUCCESS);
    for (int i = 0; i < FAULT_STREAMS; i++)
        assert_int_equal(cuStreamCreate(&run->streams[i], CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    if (scenario->prepare != NULL)
        scenario->prepare(run);
    assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    run->in_body = 1;
}

/* Faults are off: the library serves on every stream, and all data is there. */
static void run_check_serves(fault_run *run)
{
    static const size_t sizes[SERVES] = {512, 100 * KIB, 3 * MIB, 5 * MIB};
    check_state(run);
    for (int i = 0; i < FAULT_SLOTS; i++)
        if (run->slots[i].ptr != NULL && run->slots[i].pattern == 0 && run->slots[i].bytes > 0)
            prepare_fill(run, i);
    for (int stream = 0; stream < FAULT_STREAMS; stream++)
        for (int i = 0; i < SERVES; i++) {
            step_malloc(run, FAULT_SLOTS - 1, sizes[i], 0, -1, stream);
            prepare_fill(run, FAULT_SLOTS - 1);
            step_free(run, FAULT_SLOTS - 1);
        }
    simcuda_run(UINT64_MAX);
    for (int i = 0; i < FAULT_SLOTS; i++)
        if (run->slots[i].ptr != NULL && run->slots[i].pattern != 0)
            check_data(run, i);
}

/* Nothing is left but what the run itself made. */
static void run_check_nothing_left(void)
{
    simcuda_live live;
    assert_int_equal(simcuda_live_get(-1, &live), 0);
    if (live.handles + live.handle_references + live.mappings + live.reservations + live.events +
            live.allocations + live.pinned + live.contexts >
        0)
        FAULT_FAIL("left after shutdown: %llu handles (%llu references), %llu mappings, %llu "
                   "reservations, %llu events",
                   (unsigned long long)live.handles, (unsigned long long)live.handle_references,
                   (unsigned long long)live.mappings, (unsigned long long)live.reservations,
                   (unsigned long long)live.events);
    if (live.primary_references != 1)
        FAULT_FAIL("%llu references of the primary context are left",
                   (unsigned long long)live.primary_references - 1);
    if (simcuda_violations() > 0)
        FAULT_FAIL("%llu violations, the last: %s", (unsigned long long)simcuda_violations(),
                   simcuda_violation_last());
    if (strcmp(tnri_host_backend(), "malloc") == 0 && tnri_host_bytes() != 0)
        FAULT_FAIL("%llu bytes of metadata are left", (unsigned long long)tnri_host_bytes());
}

/* `popped`: every push of a context could be undone. */
static void run_end(fault_run *run, int popped)
{
    CUcontext current = NULL;
    run->in_body = 0;
    assert_int_equal(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    if (popped && current != NULL)
        FAULT_FAIL("a call has changed the thread's current context");
    assert_int_equal(cuCtxSetCurrent(run->context), CUDA_SUCCESS);
    if (run->event != NULL)
        assert_int_equal(cuEventDestroy(run->event), CUDA_SUCCESS);
    if (run->settle != NULL)
        run->settle(run);
    run_check_serves(run);
    for (int i = 0; i < FAULT_SLOTS; i++)
        step_free(run, i);
    for (int i = 0; i < FAULT_POOLS && !run->pools_ended; i++)
        step_pool_destroy(run, i);
    if (tnr_shutdown(0) != TNR_OK)
        FAULT_FAIL("the shutdown at the end failed: %s", tnr_last_error());
    run_check_nothing_left();
}

/* ---- the loops ------------------------------------------------------------------------------ */

static const char *const entries[] = {
    "*",
#define DRIVER_ENTRY(name, type, since, need, kind) #name,
#include "gpu/cuda/entry_points.def"
#undef DRIVER_ENTRY
};

/* What fails, as a rule. */
static const CUresult errors[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN,
                                  CUDA_ERROR_DEINITIALIZED};
enum { ERRORS = sizeof(errors) / sizeof(errors[0]), ERROR_IN_TURN = -1 };

/* Each place where a call can fail once is tried in the debug build; a failure that goes on, at
 * every so many places. Under AddressSanitizer, which makes a run several times as slow, and in
 * release builds, fewer will do. The long run tries (nearly) all everywhere. */
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define IS_SLOW 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || (defined(NDEBUG) && !defined(IS_SLOW))
#define IS_SLOW 1
#endif
#ifdef IS_SLOW
enum { ONCE_STEP_SHORT = 7, STICKY_STEP_SHORT = 47, STICKY_STEP_LONG = 3 };
#else
enum { ONCE_STEP_SHORT = 1, STICKY_STEP_SHORT = 11, STICKY_STEP_LONG = 1 };
#endif

static int is_long(void)
{
    return getenv("TENURE_TEST_LONG") != NULL;
}

/* One run. Returns 1 if a call was made to fail. */
static int drive_once(const fault_scenario *scenario, const char *entry, uint64_t nth, int sticky,
                      CUresult error)
{
    fault_run run;
    snprintf(fault_text, sizeof(fault_text), "%s: %s call %llu%s failing with %d", scenario->name,
             entry, (unsigned long long)nth, sticky ? " and all later" : "", (int)error);
    run_begin(&run, scenario);
    simcuda_fail(entry, nth, sticky, error);
    scenario->body(&run);
    uint64_t hits = simcuda_fail_hits();
    simcuda_fail_clear();
    /* A pop that is refused for good cannot be made up for. */
    run_end(&run, !sticky || (entry[0] != '*' && strcmp(entry, "cuCtxPopCurrent") != 0));
    return hits > 0;
}

/* What an environment variable says; 1 if it says nothing. */
static uint64_t step_of(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? 1 : strtoull(text, NULL, 10);
}

/* The place that a walk in such steps begins at. Each commit begins at another, so that some run
 * comes to each place. What goes on failing begins at the first: most is seen there. */
static uint64_t first_of(uint64_t step, int sticky)
{
    return 1 + (sticky || is_long() ? 0 : commit_seed() % step);
}

/* Runs with the nth call of one entry point failing, for each nth of the walk, with the error or
 * with all of them in turn, each place with one. Where there are fewer calls than the walk's first,
 * the first call fails. Returns the runs that had a failure. */
static uint64_t drive_entry(const fault_scenario *scenario, const char *entry, int sticky,
                            int error)
{
    /* Some that are optional for the library the simulated device does not have. */
    if (entry[0] != '*' && !simcuda_has(entry))
        return 0;
    uint64_t step = sticky ? STICKY_STEP_SHORT : ONCE_STEP_SHORT;
    step *= step_of("FAULT_DRIVER_STEP");
    if (is_long())
        step = sticky ? STICKY_STEP_LONG : 1;
    uint64_t runs = 0, nth = first_of(step, sticky);
    CUresult first = error == ERROR_IN_TURN ? errors[0] : (CUresult)error;
    while (drive_once(scenario, entry, nth, sticky,
                      error == ERROR_IN_TURN ? errors[runs % ERRORS] : first)) {
        runs++;
        nth += step;
    }
    return runs > 0 || nth == 1 ? runs : (uint64_t)drive_once(scenario, entry, 1, sticky, first);
}

/* A call that fails once is the nth of its entry point and the mth of all: to go through all calls
 * is enough. A failure that goes on is another thing for each entry point; of those the short run
 * takes every second or fourth, with each commit others. It gives a place one of the errors, the
 * long run (TENURE_TEST_LONG) each of them. */
void fault_drive(const fault_scenario *scenario)
{
    uint64_t runs = 0;
    size_t every = is_long() ? 1 : (size_t)few_or(2, 4);
    for (int i = 0; i < (is_long() ? ERRORS : 1); i++) {
        int error = is_long() ? (int)errors[i] : ERROR_IN_TURN;
        runs += drive_entry(scenario, "*", 0, error);
        for (size_t e = commit_seed() % every; e < sizeof(entries) / sizeof(entries[0]); e += every)
            runs += drive_entry(scenario, entries[e], 1, error);
    }
    /* Only an event's record can meet a handle that the program has destroyed. */
    for (int sticky = 0; sticky <= 1; sticky++)
        runs += drive_entry(scenario, "cuEventRecord", sticky, CUDA_ERROR_INVALID_HANDLE);
    assert_true(runs > 0);
    print_message("%s: %llu runs with a failing driver call\n", scenario->name,
                  (unsigned long long)runs);
}

/* FAULT_HOST_STEP leaves places out: memcheck makes a run thirty times as slow. */
void fault_starve(const fault_scenario *scenario)
{
    uint64_t runs = 0, step = step_of("FAULT_HOST_STEP");
    for (int sticky = 0; sticky <= 1; sticky++)
        for (uint64_t nth = first_of(step, sticky);; nth += step) {
            fault_run run;
            snprintf(fault_text, sizeof(fault_text), "%s: host allocation %llu%s failing",
                     scenario->name, (unsigned long long)nth, sticky ? " and all later" : "");
            run_begin(&run, scenario);
            run.starves = 1;
            (void)tnri_host_fail_at(nth, sticky);
            scenario->body(&run);
            uint64_t hits = tnri_host_fail_at(0, 0);
            run_end(&run, 1);
            if (hits == 0)
                break;
            runs++;
        }
    print_message("%s: %llu runs without host memory\n", scenario->name, (unsigned long long)runs);
}

/* Without a fault of ours: TENURE_SIM_MISSING has taken an entry point away (test_missing.py). A
 * call that needs it is refused, with a sentence, and nothing else is different. */
void fault_lack(const fault_scenario *scenario)
{
    fault_run run;
    snprintf(fault_text, sizeof(fault_text), "%s: without %s", scenario->name,
             getenv("TENURE_SIM_MISSING"));
    run_begin(&run, scenario);
    scenario->body(&run);
    run_end(&run, 1);
}

/* ---- a program of scenarios ----------------------------------------------------------------- */

static void driver_calls_fail(void **state)
{
    fault_drive(*state);
}

static void host_memory_fails(void **state)
{
    fault_starve(*state);
}

static void an_entry_point_lacks(void **state)
{
    fault_lack(*state);
}

/* What the simulation itself still holds, for the leak checkers. */
static int group_end(void **state)
{
    (void)state;
    return simcuda_reset() < 0;
}

int fault_main(const fault_scenario *scenarios, size_t count, int argc, char **argv)
{
    struct CMUnitTest tests[FAULT_SCENARIOS_MAX];
    CMUnitTestFunction kind = driver_calls_fail;
    if (argc > 1 && strcmp(argv[1], "host") == 0)
        kind = host_memory_fails;
    else if (argc > 1 && strcmp(argv[1], "lack") == 0)
        kind = an_entry_point_lacks;
    size_t first = 0;
    if (argc > 2) {
        first = strtoul(argv[2], NULL, 10);
        count = first < count ? first + 1 : 0;
    }
    if (count == 0 || count - first > FAULT_SCENARIOS_MAX) {
        fprintf(stderr, "no such scenario, or more than %d\n", FAULT_SCENARIOS_MAX);
        return 2;
    }
    memset(tests, 0, sizeof(tests));
    for (size_t i = first; i < count; i++)
        tests[i - first] = (struct CMUnitTest){
            .name = scenarios[i].name,
            .test_func = kind,
            .initial_state = (void *)(uintptr_t)&scenarios[i],
        };
    return _cmocka_run_group_tests("faults", tests, count - first, NULL, group_end);
}
