/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See verdict.h. Guarantee 1 is checked by the race detector and by the checks at each hand-out
 * (run_memory.c). This file checks guarantees 2 and 3: statistics, invariants, contents, the
 * driver's own account of misuse.
 */
#include "verdict.h"

#include <inttypes.h>

#include <tenure/sleep.h>
#include <tenure/trap.h>

#include "owner.h"

/* Every so many complete checks the library walks all of its structures. */
enum { VALIDATE_EVERY = 16 };

static void contents_check(fuzz_run *run)
{
    const fuzz_mismatch *wrong = &fuzz_mismatches;
    if (wrong->count == 0)
        return;
    run_fail(run, FUZZ_VERDICT_SAFETY, "contents",
             "operation %" PRIu64 " read %#" PRIx64 " at %#" PRIx64 ", where %#" PRIx64
             " had been written",
             wrong->step, wrong->found, wrong->address, wrong->expected);
}

static void violations_check(fuzz_run *run)
{
    if (run->device->violations() != 0)
        run_fail(run, FUZZ_VERDICT_SAFETY, "driver misuse", "%s", run->device->violation_last());
}

/* 0 if there are none: the driver call that was to fail next was made for them. */
static int statistics_get(fuzz_run *run, int place, tnr_stats *stats)
{
    uint64_t hits = run->device->fail_hits();
    memset(stats, 0, sizeof(*stats));
    stats->struct_bytes = sizeof(*stats);
    if (tnr_stats_get(stats, NULL, run_place(place)) == TNR_OK)
        return 1;
    if (run->device->fail_hits() == hits)
        run_fail(run, FUZZ_VERDICT_SAFETY, "status", "tnr_stats_get: %s", tnr_last_error());
    return 0;
}

/* The most that a block of the pool "contents" has (away/staging.h). */
#define CONTENTS_BYTES ((uint64_t)32 << 20)

/* 1 if there is something to look at. The question itself would put host memory into use. */
static int place_is_there(const fuzz_run *run, int place)
{
    return place < FUZZ_DEVICES ? place < run->model.devices : run->model.is_used[place];
}

/* Counters of a pool go with it, so the most that was seen counts. */
static void coverage_note(fuzz_run *run, const tnr_stats *stats)
{
    for (int i = 0; i < TNR_SERVED_COUNT; i++)
        if (run->result->served[i] < stats->served[i])
            run->result->served[i] = stats->served[i];
    for (int i = 0; i < TNR_REUSE_COUNT; i++)
        if (run->result->reused[i] < stats->freed_because[i])
            run->result->reused[i] = stats->freed_because[i];
}

/* Guarantee 2. */
static void statistics_check(fuzz_run *run, int place)
{
    int device = run_place(place);
    tnr_stats stats;
    const model *m = &run->model;
    if (!statistics_get(run, place, &stats))
        return;
    coverage_note(run, &stats);
    uint64_t parts = stats.bytes_live + stats.bytes_binned + stats.bytes_free +
                     stats.bytes_retired + stats.bytes_slack;
    uint64_t whole = stats.reserved_bytes.current + stats.bytes_asleep + stats.bytes_parked_away;
    if (parts != whole)
        run_fail(
            run, FUZZ_VERDICT_SAFETY, "statistics",
            "device %d: live %" PRIu64 " + binned %" PRIu64 " + free %" PRIu64 " + retired %" PRIu64
            " + slack %" PRIu64 " is not mapped %" PRIu64 " + asleep %" PRIu64,
            device, stats.bytes_live, stats.bytes_binned, stats.bytes_free, stats.bytes_retired,
            stats.bytes_slack, stats.reserved_bytes.current, stats.bytes_asleep);
    /* In host memory there may be contents of what sleeps, is parked or was compacted, too. */
    uint64_t blocks = stats.allocation[TNR_WORLD_ALL].current, live = stats.bytes_live;
    uint64_t known = m->live_blocks[place], known_bytes = m->requested_bytes[place];
    int is_right = blocks == known && live == known_bytes;
    if (place >= FUZZ_DEVICES && blocks > known)
        is_right = live > known_bytes && live - known_bytes <= (blocks - known) * CONTENTS_BYTES;
    if (!is_right)
        run_fail(run, FUZZ_VERDICT_SAFETY, "statistics",
                 "device %d: the library counts %" PRIu64 " blocks of %" PRIu64
                 " bytes, the program has %" PRIu64 " of %" PRIu64,
                 device, blocks, live, known, known_bytes);
    /* What was mapped when a limit was lowered may stay above it, but nothing may be added. */
    uint64_t reserved = stats.reserved_bytes.current;
    if (run->limit_seen[place] == m->limit_bytes[place] && reserved > m->limit_bytes[place] &&
        reserved > run->reserved_seen[place])
        run_fail(run, FUZZ_VERDICT_SAFETY, "limit",
                 "device %d: %" PRIu64 " bytes are mapped, and the limit is %" PRIu64, device,
                 reserved, m->limit_bytes[place]);
    if (run->limit_seen[place] == m->limit_bytes[place] && reserved > run->reserved_seen[place] &&
        reserved + m->headroom_bytes > m->memory_bytes && place < FUZZ_DEVICES &&
        m->headroom_bytes > 0 && m->owned_bytes[place] == 0 && !run->device->is_gated)
        run_fail(run, FUZZ_VERDICT_SAFETY, "headroom",
                 "device %d: %" PRIu64 " bytes are mapped of %" PRIu64 ", and %" PRIu64
                 " are to be left to others",
                 device, reserved, m->memory_bytes, m->headroom_bytes);
    run->limit_seen[place] = m->limit_bytes[place];
    run->reserved_seen[place] = reserved;
    const tnr_stat *bytes = &stats.allocated_bytes[TNR_WORLD_ALL];
    if (bytes->allocated - bytes->freed != bytes->current || bytes->peak < bytes->current)
        run_fail(run, FUZZ_VERDICT_SAFETY, "statistics",
                 "device %d: allocated %" PRIu64 " - freed %" PRIu64 " is not %" PRIu64, device,
                 bytes->allocated, bytes->freed, bytes->current);
}

/* ---- peers ---------------------------------------------------------------------------------- */

static void pool_open_check(fuzz_run *run, int device, int pool)
{
    tnr_access access = TNR_ACCESS_NONE;
    tnr_status status = tnr_pool_access_get(&access, run->pools[pool], device, 1 - device);
    if (status == TNR_ERR_FOREIGN_SEGMENT && run->model.pools[pool].is_foreign)
        return;
    int is_open = model_is_open(&run->model, device, pool);
    /* A device that is not in use is begun by the question, which may be made to fail, also for
     * lack of memory. */
    if ((status == TNR_ERR_DRIVER || status == TNR_ERR_OUT_OF_MEMORY) && run->model.has_faults)
        return;
    if (status != TNR_OK)
        run_fail(run, FUZZ_VERDICT_SAFETY, "status", "tnr_pool_access_get: %s", tnr_last_error());
    else if ((access == TNR_ACCESS_READWRITE) != is_open)
        run_fail(run, FUZZ_VERDICT_SAFETY, "access of a pool",
                 "p%d of device %d should be %s to the other device", pool, device,
                 is_open ? "closed" : "open");
}

/* What the driver lets the other device do at an address of a live block. */
static void address_open_check(fuzz_run *run, int slot, uintptr_t at)
{
    const model_block *block = &run->model.blocks[slot];
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 - block->device};
    unsigned long long flags = 0;
    CUresult result = run->device->access_get(&flags, &location, at);
    int is_open = model_is_open(&run->model, block->device, block->pool);
    unsigned long long wanted =
        is_open ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (result != CUDA_SUCCESS || flags != wanted)
        run_fail(run, FUZZ_VERDICT_SAFETY, "access of a block",
                 "b%d, %zu bytes at 0x%" PRIxPTR ", is of a pool that is %s to the other device, "
                 "which has access %llu at 0x%" PRIxPTR " (cuMemGetAccess: %d)",
                 slot, block->bytes, block->base, is_open ? "open" : "closed", flags, at,
                 (int)result);
}

void verdict_peers(fuzz_run *run)
{
    enum { MAPPING_LEAST = 2 << 20 };
    const model *m = &run->model;
    for (int i = 0; i < m->live_count && m->devices == 2 && !run->is_over; i++) {
        int slot = m->live[i];
        const model_block *block = &m->blocks[slot];
        if (block->bytes == 0 || block->is_parked || block->is_host ||
            model_is_asleep(m, block->device, block->pool))
            continue;
        uintptr_t end = block->base + block->bytes;
        for (uintptr_t at = block->base; at < end; at = (at | (MAPPING_LEAST - 1)) + 1)
            address_open_check(run, slot, at);
    }
    for (int p = 0; p < FUZZ_POOLS && m->devices == 2 && !run->is_over; p++)
        for (int d = 0; d < 2; d++)
            if (p == 0 || (m->pools[p].is_there && !m->pools[p].is_host && m->pools[p].device == d))
                pool_open_check(run, d, p);
}

/* ---- segments ------------------------------------------------------------------------------- */

/* What the library says that a pool over segments has is what its owner has given. */
static void segments_check(fuzz_run *run, int pool)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    tnr_status status = tnr_stats_get(&stats, run->pools[pool], run->model.pools[pool].device);
    if (status == TNR_OK && stats.reserved_bytes.current != fuzz_owner_given(pool))
        run_fail(run, FUZZ_VERDICT_SAFETY, "segment",
                 "p%d should have %" PRIu64 " bytes, and its owner has given %zu", pool,
                 stats.reserved_bytes.current, fuzz_owner_given(pool));
}

/* The memory behind what was registered is the same, whoever has it now. */
static void registered_check(fuzz_run *run)
{
    for (int i = 0; i < FUZZ_WATCHED && !run->is_over; i++) {
        const fuzz_watched *one = &run->watched[i];
        if (one->address != 0 && run->device->memory_at(one->address) != one->memory)
            run_fail(run, FUZZ_VERDICT_SAFETY, "registered",
                     "0x%" PRIxPTR " of p%d was registered, and has other memory now", one->address,
                     one->pool);
    }
}

void verdict_all(fuzz_run *run)
{
    run->result->checks++;
    registered_check(run);
    for (int p = 1; p < FUZZ_POOLS; p++)
        if (run->model.pools[p].is_there && run->model.pools[p].is_foreign)
            segments_check(run, p);
    for (int place = 0; place < MODEL_PLACES; place++)
        if (place_is_there(run, place))
            statistics_check(run, place);
    verdict_peers(run);
    violations_check(run);
    if (run->check_every == 1 || run->result->checks % VALIDATE_EVERY == 0)
        if (tnr_validate(-1) != TNR_OK)
            run_fail(run, FUZZ_VERDICT_SAFETY, "invariants", "%s", tnr_last_error());
}

uint64_t verdict_traps(void)
{
    tnr_traps_info info = {.struct_bytes = sizeof(info)};
    return tnr_traps_get(&info, 0) == TNR_OK ? info.findings : 0;
}

void verdict_step(fuzz_run *run)
{
    if (run->has_traps && !run->is_over && verdict_traps() != run->traps_findings)
        run_fail(run, run->illegal_ran ? FUZZ_VERDICT_CAUGHT : FUZZ_VERDICT_SAFETY, "trap",
                 "a trap was run into: see above");
    if (fuzz_mismatches.count != 0)
        contents_check(run);
    if (run->step < run->check_next)
        return;
    run->check_next = run->step + run->check_every;
    verdict_all(run);
}

/* ---- the end -------------------------------------------------------------------------------- */

void verdict_drained(fuzz_run *run)
{
    tnr_stats stats;
    verdict_all(run);
    contents_check(run);
    for (int place = 0; place < MODEL_PLACES; place++) {
        int d = run_place(place);
        if (!place_is_there(run, place))
            continue;
        /* Contents of parked blocks lie in the host memory until then. */
        if (place < FUZZ_DEVICES && tnr_sleep_prepare(0, d) != TNR_OK)
            run_fail(run, FUZZ_VERDICT_LIVENESS, "drain", "tnr_sleep_prepare: %s",
                     tnr_last_error());
        if (!statistics_get(run, place, &stats))
            return;
        if (stats.bytes_live + stats.bytes_slack + stats.bytes_retired != 0)
            run_fail(
                run, FUZZ_VERDICT_LIVENESS, "drain",
                "device %d: everything was freed and is over, and %" PRIu64
                " bytes are live, %" PRIu64 " slack, %" PRIu64 " retired in %" PRIu64 " blocks",
                d, stats.bytes_live, stats.bytes_slack, stats.bytes_retired, stats.blocks_retired);
        if (stats.reserved_bytes.current + stats.bytes_asleep != 0)
            run_fail(run, FUZZ_VERDICT_LIVENESS, "drained memory",
                     "device %d: everything was trimmed, and %" PRIu64
                     " bytes are still mapped, of them %" PRIu64 " binned and %" PRIu64 " free",
                     d, stats.reserved_bytes.current, stats.bytes_binned, stats.bytes_free);
    }
}

void verdict_shut_down(fuzz_run *run)
{
    simcuda_live live;
    if (run->device->live_get(-1, &live) != 0)
        return;
    if (live.handles + live.mappings + live.reservations + live.events + live.streams +
            live.user_objects + live.pinned !=
        0)
        run_fail(run, FUZZ_VERDICT_LIVENESS, "leftovers",
                 "after the shutdown there are %" PRIu64 " handles, %" PRIu64 " mappings, %" PRIu64
                 " reservations, %" PRIu64 " events, %" PRIu64 " streams, %" PRIu64
                 " user objects, %" PRIu64 " pinned blocks",
                 live.handles, live.mappings, live.reservations, live.events, live.streams,
                 live.user_objects, live.pinned);
    violations_check(run);
}
