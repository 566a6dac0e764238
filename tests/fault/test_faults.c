/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantee 3: a failed call changes nothing, and any driver call, and any allocation of host
 * memory, may fail at any time. The scenarios cover each step of the ladder and each way of giving
 * memory back; fault.h says what is checked after every call and every run.
 *
 * It was seen to fail with each of these lines taken out of the library:
 *   execute.c   sources_return: tnri_chunk_release; donor_take: tnri_plan_untake; tnri_execute:
 *               sources_unmap
 *   stale.c     tnri_stale_drain: stale_put_back; tnri_stale_release: tnri_world_uncut
 *   chunk.c     tnri_chunk_release: chunk_refuse (the record freed instead)
 *   device.c    tnri_device_leave: the second cuCtxPopCurrent
 *   plan.c      tnri_plan_make: tnri_world_promise (host memory)
 *   growable.c  pool_reserve: tnri_arena_destroy; growables_drain: tnri_device_leave
 *   grow.c      tnri_grow_commit: `is_growing = 0`
 */
#include "fault.h"

/* Blocks of `bytes` on a stream in slots [first, first + count), with work queued on them. */
static void fill_slots(fault_run *run, int first, int count, size_t bytes, int pool, int stream)
{
    for (int i = first; i < first + count; i++) {
        step_malloc(run, i, bytes, 0, pool, stream);
        prepare_fill(run, i);
    }
}

static void free_slots(fault_run *run, int first, int count, int step)
{
    for (int i = first; i < first + count; i += step)
        step_free(run, i);
}

/* ---- first start and growth ----------------------------------------------------------------- */

static void start_body(fault_run *run)
{
    step_malloc(run, 0, 1000, 0, -1, 0);
    step_malloc(run, 1, 3 * MIB, 0, -1, 0);
    step_free(run, 0);
    step_pool_create(run, 0, 0, 0);
}

static void growth_prepare(fault_run *run)
{
    fill_slots(run, 0, 1, 4 * MIB, -1, 0);
}

static void growth_body(fault_run *run)
{
    static const size_t sizes[] = {1 * KIB, 300 * KIB, 900 * KIB, 3 * MIB, 9 * MIB, 70 * MIB};
    for (int i = 0; i < 6; i++)
        step_malloc(run, i + 1, sizes[i], 0, -1, i % 2);
    step_malloc(run, 8, 2 * MIB, 8 * MIB, -1, 0);
    free_slots(run, 1, 8, 2);
    step_malloc(run, 9, 12 * MIB, 0, -1, 1);
}

/* ---- moves ---------------------------------------------------------------------------------- */

/* Free memory in pieces of 4 MiB between live blocks, with work queued on it. */
static void moves_prepare(fault_run *run)
{
    fill_slots(run, 0, 10, 4 * MIB, -1, 0);
    free_slots(run, 0, 10, 2);
}

static void moves_body(fault_run *run)
{
    step_malloc(run, 10, 11 * MIB, 0, -1, 0);
    step_malloc(run, 11, 6 * MIB, 0, -1, 0);
    step_free(run, 10);
    step_malloc(run, 12, 13 * MIB, 0, -1, 0);
    free_slots(run, 1, 9, 2);
    step_malloc(run, 13, 17 * MIB, 0, -1, 0);
    step_free(run, 13);
    step_trim(run, 16 * MIB);
}

/* Passes of a program that repeats itself: what moved stays mapped, comes back, goes home when all
 * is freed, to another stream too, and is unmapped by a trim. */
static void cached_pass(fault_run *run, int stream)
{
    for (int i = 0; i < 6; i++)
        step_malloc(run, i, 4 * MIB, 0, -1, stream);
    free_slots(run, 0, 6, 2);
    step_malloc(run, 10, 7 * MIB, 0, -1, stream);
    step_free(run, 10);
    free_slots(run, 1, 6, 2);
}

static void cached_prepare(fault_run *run)
{
    for (int i = 0; i < 2; i++) {
        cached_pass(run, 0);
        cached_pass(run, 1);
    }
}

static void cached_body(fault_run *run)
{
    cached_pass(run, 0);
    cached_pass(run, 1);
    step_malloc(run, 11, 15 * MIB, 0, -1, 0);
    step_trim(run, 4 * MIB);
    cached_pass(run, 0);
    step_trim(run, 0);
}

/* At alignments above the page: own chunks, new ones, other streams' chunks and runs. */
static void alignments_body(fault_run *run)
{
    step_malloc(run, 40, 11 * MIB, 8 * MIB, -1, 0);
    step_malloc(run, 41, 3 * MIB, 4 * MIB, -1, 2);
    step_free(run, 40);
    step_malloc(run, 42, 300 * KIB, 16 * MIB, -1, 1);
    step_malloc(run, 43, 17 * MIB, 16 * MIB, -1, 2);
    step_malloc(run, 44, 40 * MIB, 64 * MIB, -1, 1);
}

/* ---- donors --------------------------------------------------------------------------------- */

static void donors_prepare(fault_run *run)
{
    fill_slots(run, 0, 6, 4 * MIB, -1, 0);
    fill_slots(run, 6, 6, 4 * MIB, -1, 1);
    fill_slots(run, 12, 2, 2 * MIB + 512 * KIB, -1, 2);
    free_slots(run, 0, 6, 2);
    free_slots(run, 6, 6, 2);
    step_free(run, 12);
}

static void donors_idle_prepare(fault_run *run)
{
    donors_prepare(run);
    simcuda_run(UINT64_MAX);
}

static void donors_body(fault_run *run)
{
    step_malloc(run, 20, 17 * MIB, 0, -1, 2);
    step_malloc(run, 21, 6 * MIB, 0, -1, 1);
    step_free(run, 20);
    step_malloc(run, 22, 14 * MIB, 0, -1, 0);
    free_slots(run, 1, 5, 2);
    step_malloc(run, 23, 9 * MIB, 0, -1, 1);
}

/* Blocks that free runs of other streams are large enough for, lent on and given back. */
static void loans_body(fault_run *run)
{
    step_malloc(run, 20, 4 * MIB, 0, -1, 2);
    step_malloc(run, 21, 3 * MIB, 0, -1, 2);
    step_malloc(run, 22, 4 * MIB, 0, -1, 2);
    free_slots(run, 20, 3, 1);
    step_malloc(run, 23, 4 * MIB, 0, -1, 0);
    step_malloc(run, 24, 4 * MIB, 0, -1, 1);
    step_malloc(run, 25, 4 * MIB, 0, -1, 1);
    step_malloc(run, 26, 11 * MIB, 0, -1, 0);
}

/* Both worlds: small blocks' chunks become large ones' and the reverse. */
static void worlds_prepare(fault_run *run)
{
    fill_slots(run, 0, 12, 700 * KIB, -1, 0);
    fill_slots(run, 12, 3, 4 * MIB, -1, 0);
    free_slots(run, 1, 11, 1);
    step_free(run, 13);
}

static void worlds_body(fault_run *run)
{
    step_malloc(run, 20, 7 * MIB, 0, -1, 0);
    for (int i = 21; i < 31; i++)
        step_malloc(run, i, 600 * KIB, 0, -1, i % 2);
    free_slots(run, 21, 10, 1);
    step_free(run, 20);
    step_malloc(run, 20, 9 * MIB, 0, -1, 1);
}

/* ---- giving back ---------------------------------------------------------------------------- */

static void trim_prepare(fault_run *run)
{
    donors_prepare(run);
    fill_slots(run, 20, 8, 300 * KIB, -1, 1);
    free_slots(run, 21, 6, 1);
}

static void trim_body(fault_run *run)
{
    step_trim(run, 40 * MIB);
    step_malloc(run, 30, 3 * MIB, 0, -1, 0);
    step_trim(run, 0);
    step_free(run, 30);
    step_trim(run, 0);
}

static void pools_body(fault_run *run)
{
    step_pool_create(run, 0, 0, 0);
    step_pool_create(run, 1, 12 * MIB, 4 * MIB);
    for (int pool = 0; pool < 2; pool++) {
        if (run->pools[pool] == NULL)
            continue;
        step_status(run, tnr_pool_push(run->pools[pool]), "tnr_pool_push");
        step_malloc(run, 10 + pool, 5 * MIB, 0, -1, pool);
        step_status(run, tnr_pool_pop(run->pools[pool]), "tnr_pool_pop");
        step_malloc(run, 12 + pool, 9 * MIB, 0, pool, 0);
        step_free(run, 10 + pool);
        step_malloc(run, 10 + pool, 200 * KIB, 0, pool, 0);
        free_slots(run, 10 + pool, 3, 2);
    }
    step_pool_destroy(run, 0);
    step_pool_destroy(run, 1);
}

/* A limit that is hit, with idle memory of the same stream, another stream and another pool. */
static void limit_prepare(fault_run *run)
{
    step_pool_create(run, 0, 0, 0);
    fill_slots(run, 0, 3, 4 * MIB, 0, 1);
    fill_slots(run, 3, 3, 4 * MIB, -1, 1);
    free_slots(run, 0, 6, 1);
    step_status(run, tnr_limit_set(26 * MIB, 0), "tnr_limit_set");
}

static void limit_body(fault_run *run)
{
    step_malloc(run, 10, 15 * MIB, 0, -1, 0);
    run->in_body = 1;
    step_malloc(run, 11, 15 * MIB, 0, -1, 0);
    step_free(run, 10);
    step_malloc(run, 12, 20 * MIB, 0, 0, 2);
}

/* The device itself is full. */
static void reclaim_prepare(fault_run *run)
{
    step_pool_create(run, 0, 0, 0);
    fill_slots(run, 0, 4, 10 * MIB, 0, 0);
    fill_slots(run, 4, 2, 10 * MIB, -1, 1);
    free_slots(run, 0, 3, 1);
    step_free(run, 4);
}

static void reclaim_body(fault_run *run)
{
    step_malloc(run, 10, 24 * MIB, 0, -1, 2);
    step_malloc(run, 11, 30 * MIB, 0, -1, 2);
    step_free(run, 10);
    step_malloc(run, 12, 12 * MIB, 0, 0, 0);
    step_free(run, 11);
}

/* Thresholds: memory goes back by itself. */
static void threshold_prepare(fault_run *run)
{
    step_pool_create(run, 0, 0, 4 * MIB);
    fill_slots(run, 0, 5, 4 * MIB, 0, 0);
    fill_slots(run, 5, 3, 4 * MIB, -1, 1);
    free_slots(run, 0, 4, 1);
    free_slots(run, 5, 3, 2);
}

static void threshold_body(fault_run *run)
{
    step_malloc(run, 10, 6 * MIB, 0, 0, 1);
    step_malloc(run, 11, 12 * MIB, 0, -1, 0);
    step_free(run, 10);
    step_malloc(run, 12, 9 * MIB, 0, 0, 0);
}

/* ---- growable blocks ------------------------------------------------------------------------ */

/* One that has data, one that was freed with work queued on it, and idle memory of a stream. */
static void growable_prepare(fault_run *run)
{
    step_reserve(run, 0, 100 * MIB, 0);
    step_commit(run, 0, 5 * MIB);
    prepare_fill(run, 0);
    step_reserve(run, 1, 64 * MIB, 1);
    step_commit(run, 1, 6 * MIB);
    prepare_fill(run, 1);
    step_free(run, 1);
    fill_slots(run, 10, 4, 4 * MIB, -1, 2);
    free_slots(run, 10, 3, 1);
}

static void growable_body(fault_run *run)
{
    step_commit(run, 0, 11 * MIB);
    step_reserve(run, 2, 80 * MIB, 1);
    step_commit(run, 2, 13 * MIB);
    step_malloc(run, 20, 9 * MIB, 0, -1, 2);
    step_reserve(run, 3, 64 * MIB, 2);
    step_free(run, 2);
    step_commit(run, 3, 20 * MIB);
    step_reserve(run, 4, 70 * MIB, 0);
    step_trim(run, 0);
    step_reserve(run, 5, 64 * MIB, 0);
    step_free(run, 4);
    step_commit(run, 0, 41 * MIB);
    step_commit(run, 5, 1 * MIB);
}

/* ---- the end -------------------------------------------------------------------------------- */

static void shutdown_prepare(fault_run *run)
{
    step_pool_create(run, 0, 0, 0);
    fill_slots(run, 30, 2, 4 * MIB, 0, 0);
    donors_prepare(run);
    step_malloc(run, 20, 10 * MIB, 0, -1, 0); /* leaves old mappings behind */
    for (int i = 0; i < FAULT_SLOTS; i++)
        step_free(run, i);
}

static void shutdown_body(fault_run *run)
{
    step_shutdown(run, 0);
    step_malloc(run, 0, 3 * MIB, 0, -1, 0);
}

static void force_prepare(fault_run *run)
{
    step_pool_create(run, 0, 0, 0);
    fill_slots(run, 30, 2, 4 * MIB, 0, 0);
    donors_prepare(run);
}

static void force_body(fault_run *run)
{
    step_shutdown(run, 1);
}

/* Blocks of several sizes and streams, each on pages of its own; what the driver refuses is served
 * without a guard, and what cannot be unmapped is tried again. */
static void guard_prepare(fault_run *run)
{
    for (int i = 0; i < 4; i++)
        step_malloc(run, i, 5000 + (size_t)i * MIB, 0, -1, i % 2);
    step_free(run, 1);
}

static void guard_body(fault_run *run)
{
    for (int i = 0; i < 4; i++)
        step_malloc(run, 10 + i, 3000 + (size_t)i * 3 * MIB, i == 2 ? 4 * MIB : 0, -1, i % 3);
    step_free(run, 0);
    step_free(run, 12);
    step_malloc(run, 20, 5000, 0, -1, 1);
    free_slots(run, 10, 2, 1);
    step_trim(run, 0);
}

static void poison_body(fault_run *run)
{
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++)
            step_malloc(run, 10 + i, 3000 + (size_t)i * MIB, 0, -1, i % 2);
        free_slots(run, 10, 4, 1);
    }
}

static const fault_scenario scenarios[] = {
    {"first start", NULL, "256M", NULL, start_body},
    {"growth", NULL, "256M", growth_prepare, growth_body},
    {"moves", NULL, "256M", moves_prepare, moves_body},
    {"moves, few old mappings", "stale_mappings_max:1", "256M", moves_prepare, moves_body},
    {"cached window", "aliases_from:first,lend:off,chunk_exact_mb:2", "256M", cached_prepare,
     cached_body},
    {"cached window, with loans", "aliases_from:first", "256M", cached_prepare, cached_body},
    {"cached window, few aliases", "aliases_max:3,chunk_exact_mb:2", "256M", cached_prepare,
     cached_body},
    {"donors, wait", "cross_stream:wait,lend:off", "256M", donors_prepare, donors_body},
    {"donors, idle", "cross_stream:idle,lend:off", "256M", donors_idle_prepare, donors_body},
    {"donors, not idle", "cross_stream:idle", "256M", donors_prepare, donors_body},
    {"loans, wait", "cross_stream:wait", "256M", donors_prepare, loans_body},
    {"loans, idle", "cross_stream:idle", "256M", donors_idle_prepare, loans_body},
    {"alignments", "lend:off", "256M", donors_prepare, alignments_body},
    {"worlds", NULL, "256M", worlds_prepare, worlds_body},
    {"trim", NULL, "256M", trim_prepare, trim_body},
    {"pools", NULL, "256M", growth_prepare, pools_body},
    {"limit", NULL, "256M", limit_prepare, limit_body},
    {"reclaim", NULL, "64M", reclaim_prepare, reclaim_body},
    {"thresholds", "garbage_collection_threshold:0.1", "128M", threshold_prepare, threshold_body},
    {"growable blocks", NULL, "256M", growable_prepare, growable_body},
    {"growable blocks, short of memory", NULL, "64M", growable_prepare, growable_body},
    {"guarded blocks", "guard:on,canary:on", "256M", guard_prepare, guard_body},
    {"guarded blocks, waiting", "guard:wait", "256M", guard_prepare, guard_body},
    {"poison and canaries", "poison:on,canary:on", "256M", growth_prepare, poison_body},
    {"shutdown", NULL, "256M", shutdown_prepare, shutdown_body},
    {"forced shutdown", NULL, "256M", force_prepare, force_body},
};

/* Arguments: see fault_main. */
int main(int argc, char **argv)
{
    return fault_main(scenarios, sizeof(scenarios) / sizeof(scenarios[0]), argc, argv);
}
