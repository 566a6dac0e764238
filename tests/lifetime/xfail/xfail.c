/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that are wrong on purpose. Each case misuses the lifetime layer in one way, on the
 * simulated device with its race detector, and must be caught with exactly one report of the
 * expected kind that names both places in the program. The corrected version (--right) differs in
 * that one step only and must give no report.
 *
 *   record_early      record_use before the last read: the later read is not covered, and the
 *                     memory's next user overwrites what it reads. Right: after the last read
 *   record_missing    no record_use at all: the free is ordered on the block's own stream only.
 *                     Right: record_use after the read
 *   wrong_stream      tnr_free_on with a stream that did not do the last use, which orders the free
 *                     after the wrong work. Right: the stream that did
 *   use_after_free    a fill queued after the free, on the block's own stream. Nothing races: only
 *                     the block's owner tells. Right: the fill comes first
 *   destroyed_stream  record_use of a stream after cuStreamDestroy: the library refuses it, and the
 *                     device counts a violation. Right: record_use, then destroy
 *   stream_untold     cuStreamDestroy without tnr_stream_destroying, while work is queued. The next
 *                     stream gets the handle, and with it the memory of the one before, unordered:
 *                     the library cannot tell them apart. Right: tnr_stream_destroying first
 *
 * A race is one whatever the schedule does, so each case runs under the lazy schedule and under
 * random ones with several seeds, and all of them must agree. Where a race is expected, the memory
 * must really be handed out again, in both versions: a block that nobody gets cannot race.
 *
 *   test_lifetime_xfail CASE [--right]   0: caught (or, with --right, clean); 1: not; 2: usage
 *   test_lifetime_xfail --check          0: the judge tells right from wrong: each version fails
 *                                        when it is judged as the other
 */
#include "life.h"

#include <stdio.h>
#include <string.h>

#define BYTES (4 * MIB)

enum { NO_REPORT = -1 };

/* The roles of the streams. */
#define OWN (life_streams[0])       /* the block's */
#define READER (life_streams[1])    /* does the last use */
#define BYSTANDER (life_streams[2]) /* does nothing with the block */

struct xfail_case {
    const char *name;
    void (*body)(int right);
    int kind;             /* of the race report, or NO_REPORT: a violation instead */
    const char *texts[3]; /* what the report must say: its kind, and both origins */
};

/* ---- cases ---------------------------------------------------------------------------------- */

/* A block with data, which the reader's stream may read. */
static void *block_filled(void)
{
    void *block = unit_malloc(BYTES, OWN);
    CUevent filled = life_event();
    simcuda_origin("first fill");
    life_fill(block, BYTES, 1, OWN);
    life_record(filled, OWN);
    life_wait(READER, filled);
    return block;
}

/* The next user of the memory, which must be the same memory. */
static void block_refill(const void *block)
{
    void *next = unit_malloc(BYTES, OWN);
    assert_ptr_equal(next, block);
    simcuda_origin("next fill");
    life_fill(next, BYTES, 2, OWN);
}

static void record_early(int right)
{
    void *block = block_filled();
    simcuda_origin("first read");
    (void)life_read(block, BYTES / 2, READER);
    if (!right)
        assert_ok(tnr_record_use(block, READER));
    simcuda_origin("last read");
    (void)life_read(block, BYTES, READER);
    if (right)
        assert_ok(tnr_record_use(block, READER));
    assert_ok(tnr_free(block));
    block_refill(block);
}

static void record_missing(int right)
{
    void *block = block_filled();
    simcuda_origin("last read");
    (void)life_read(block, BYTES, READER);
    if (right)
        assert_ok(tnr_record_use(block, READER));
    assert_ok(tnr_free(block));
    block_refill(block);
}

static void wrong_stream(int right)
{
    void *block = block_filled();
    simcuda_origin("last read");
    (void)life_read(block, BYTES, READER);
    assert_ok(tnr_free_on(block, right ? READER : BYSTANDER));
    block_refill(block);
}

static void use_after_free(int right)
{
    void *block = unit_malloc(BYTES, OWN);
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)block;
    assert_int_equal(simcuda_owner_begin(address, BYTES, "the block"), 0);
    if (right) {
        simcuda_origin("late fill");
        life_fill(block, BYTES, 1, OWN);
    }
    simcuda_origin("the free");
    /* Before the free: as soon as that returns, another thread may own the memory. */
    assert_int_equal(simcuda_owner_end(address), 0);
    assert_ok(tnr_free(block));
    if (!right) {
        simcuda_origin("late fill");
        life_fill(block, BYTES, 1, OWN);
    }
}

static void destroyed_stream(int right)
{
    void *block = unit_malloc(BYTES, OWN);
    tnr_stream stream = life_stream(CU_STREAM_NON_BLOCKING);
    life_fill(block, BYTES, 1, stream);
    if (right)
        assert_ok(tnr_record_use(block, stream));
    assert_ok(tnr_stream_destroying(0, stream));
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
    if (!right) {
        assert_error(tnr_record_use(block, stream), TNR_ERR_INVALID_STREAM, "destroyed");
        /* The refused call recorded nothing: only the host can wait for the fill now. */
        assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    }
    assert_ok(tnr_free(block));
    block_refill(block);
}

static void stream_untold(int right)
{
    tnr_stream old = life_stream(CU_STREAM_NON_BLOCKING);
    void *block = unit_malloc(BYTES, old);
    simcuda_origin("last fill");
    life_fill(block, BYTES, 1, old);
    assert_ok(tnr_free(block));
    if (right)
        assert_ok(tnr_stream_destroying(0, old));
    assert_int_equal(cuStreamDestroy(old), CUDA_SUCCESS);
    tnr_stream fresh = life_stream(CU_STREAM_NON_BLOCKING);
    assert_ptr_equal(fresh, old);
    void *next = unit_malloc(BYTES, fresh);
    assert_ptr_equal(next, block);
    simcuda_origin("next fill");
    life_fill(next, BYTES, 2, fresh);
}

static const struct xfail_case cases[] = {
    {"record_early", record_early, SIMCUDA_RACE, {"race: ", "'last read'", "'next fill'"}},
    {"record_missing", record_missing, SIMCUDA_RACE, {"race: ", "'last read'", "'next fill'"}},
    {"wrong_stream", wrong_stream, SIMCUDA_RACE, {"race: ", "'last read'", "'next fill'"}},
    {"use_after_free",
     use_after_free,
     SIMCUDA_USE_AFTER_FREE,
     {"use after free: ", "'late fill'", "'the free'"}},
    {"destroyed_stream", destroyed_stream, NO_REPORT, {"use of a destroyed stream", "", ""}},
    {"stream_untold", stream_untold, SIMCUDA_RACE, {"race: ", "'last fill'", "'next fill'"}},
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

/* ---- the judge ------------------------------------------------------------------------------ */

static int text_has_all(const char *text, const char *const wanted[3])
{
    for (int i = 0; i < 3; i++)
        if (strstr(text, wanted[i]) == NULL)
            return 0;
    return 1;
}

/* 1 if what the device reported is what the case, or its corrected version, must give. */
static int judge(const struct xfail_case *one, int right)
{
    uint64_t reports = simcuda_races();
    uint64_t violations = simcuda_violations();
    if (right)
        return reports == 0 && violations == 0;
    if (one->kind == NO_REPORT)
        return reports == 0 && violations == 1 &&
               text_has_all(simcuda_violation_last(), one->texts);
    return violations == 0 && reports == 1 &&
           simcuda_races_of((simcuda_report_kind)one->kind) == 1 &&
           text_has_all(simcuda_race_last(), one->texts);
}

/* Runs one version under all schedules. 1 if every one of them is judged as `judged_right` says
 * it should be, -1 if none is, 0 if they differ. */
static int case_run(const struct xfail_case *one, int right, int judged_right)
{
    static const char *const schedules[][2] = {{"SCHEDULE=lazy", "SEED=0"},
                                               {"SCHEDULE=random", "SEED=1"},
                                               {"SCHEDULE=random", "SEED=2"},
                                               {"SCHEDULE=random", "SEED=3"}};
    enum { SCHEDULES = sizeof(schedules) / sizeof(schedules[0]) };
    int as_judged = 0;
    for (int i = 0; i < SCHEDULES; i++) {
        void *state = NULL;
        /* The memory comes back at once, behind a wait for the uses that are known. */
        life_start("reuse:wait,reuse_mark_percent:0", schedules[i][0], schedules[i][1]);
        assert_int_equal(simcuda_races_enabled(), 1);
        one->body(right);
        simcuda_origin(NULL);
        simcuda_run(UINT64_MAX);
        assert_int_equal(simcuda_pending(), 0);
        int good = judge(one, judged_right);
        printf("%s %s, %s %s: %llu reports, %llu violations: %s\n", one->name,
               right ? "right" : "wrong", schedules[i][0], schedules[i][1],
               (unsigned long long)simcuda_races(), (unsigned long long)simcuda_violations(),
               good ? "as expected" : "NOT as expected");
        as_judged += good;
        /* Else the end of the library, which unmaps, would be reported as well. */
        assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
        simcuda_races_clear();
        simcuda_violations_clear();
        assert_int_equal(life_stop(&state), 0);
    }
    return as_judged == SCHEDULES ? 1 : as_judged == 0 ? -1 : 0;
}

static int check_judge(void)
{
    int failed = 0;
    for (int i = 0; i < CASES; i++)
        for (int right = 0; right < 2; right++)
            if (case_run(&cases[i], right, !right) != -1) {
                fprintf(stderr, "%s: its %s version passes for the other one.\n", cases[i].name,
                        right ? "right" : "wrong");
                failed = 1;
            }
    return failed;
}

int main(int argc, char **argv)
{
    int right = argc == 3 && strcmp(argv[2], "--right") == 0;
    if (argc == 2 && strcmp(argv[1], "--check") == 0)
        return check_judge();
    for (int i = 0; i < CASES && (argc == 2 || right); i++)
        if (strcmp(argv[1], cases[i].name) == 0)
            return case_run(&cases[i], right, right) == 1 ? 0 : 1;
    fprintf(stderr, "usage: %s CASE [--right] | --check\nCASE is one of:", argv[0]);
    for (int i = 0; i < CASES; i++)
        fprintf(stderr, " %s", cases[i].name);
    fprintf(stderr, "\n");
    return 2;
}
