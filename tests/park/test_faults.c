/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantee 3 for parked blocks: any driver call, and any allocation of host memory, may fail while
 * a block is parked, while its memory serves others, and while memory comes back. After each call a
 * block is parked or not, as the call says. Live blocks have their contents, and nothing is left.
 *
 * Seen to fail with these lines changed in the library:
 *   plan_undo_return emptied: a block that failed to come back lacks slots (tnr_validate)
 *   homings_return without tnri_world_uncut: memory lost
 *   homings_return without tnri_evicted_restore: memory lost
 *   slot_unmap_busy: is_mapped 0 whatever the driver said: a mapping left
 *   sources_return without tnri_plan_untake_parked: memory released that a parked block has
 */
#include "../fault/fault.h"

#include <stdio.h>
#include <stdlib.h>

#include <tenure/park.h>
#include <tenure/sleep.h>

/* By a stream; -1: the block's own. */
static void park_by(fault_run *run, int slot, int stream, tnr_content content)
{
    fault_slot *block = &run->slots[slot];
    if (block->ptr == NULL)
        return;
    tnr_status status =
        tnr_park(NULL, block->ptr, run->streams[stream < 0 ? block->stream : stream], content);
    if (status == TNR_OK && content == TNR_CONTENT_DISCARD)
        block->pattern = 0;
    (void)step_status(run, status, "tnr_park");
}

static void step_park(fault_run *run, int slot)
{
    park_by(run, slot, -1, TNR_CONTENT_DISCARD);
}

static void unpark_by(fault_run *run, int slot, int stream)
{
    const fault_slot *block = &run->slots[slot];
    if (block->ptr == NULL)
        return;
    tnr_status status = tnr_unpark(block->ptr, run->streams[stream < 0 ? block->stream : stream]);
    if (status == TNR_ERR_NOT_LIVE)
        return; /* parking it was made to fail */
    (void)step_status(run, status, "tnr_unpark");
}

static void step_unpark(fault_run *run, int slot)
{
    unpark_by(run, slot, -1);
}

/* Faults are off: everything wakes, and comes back. */
static void settle(fault_run *run)
{
    if (!run->pools_ended)
        assert_int_equal(tnr_device_wake(0), TNR_OK);
    for (int i = 0; i < FAULT_SLOTS; i++) {
        if (run->slots[i].ptr == NULL)
            continue;
        tnr_status status = tnr_unpark(run->slots[i].ptr, run->streams[run->slots[i].stream]);
        if (status != TNR_OK && status != TNR_ERR_NOT_LIVE) {
            fprintf(stderr, "the unparking at the end failed: %s\n", tnr_last_error());
            fail();
        }
    }
    if (run->pools_ended)
        return;
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    assert_int_equal(tnr_stats_get(&stats, NULL, 0), TNR_OK);
    assert_int_equal(stats.bytes_parked, 0);
}

/* Blocks on two streams, with work on them, and one that is in nobody's way. */
static void prepare(fault_run *run)
{
    run->settle = settle;
    for (int i = 0; i < 3; i++) {
        step_malloc(run, i, 8 * MIB, 0, -1, i % 2);
        prepare_fill(run, i);
    }
    step_malloc(run, 3, 3 * MIB, 0, -1, 0);
    prepare_fill(run, 3);
}

/* The same memory comes back, from free memory of the same stream. */
static void same_body(fault_run *run)
{
    step_park(run, 0);
    step_malloc(run, 10, 8 * MIB, 0, -1, 0);
    step_free(run, 10);
    step_unpark(run, 0);
    step_park(run, 0);
    step_malloc(run, 11, 5 * MIB, 0, -1, 0);
    step_free(run, 11);
    step_unpark(run, 0);
}

/* The same from other streams, and blocks in turn. */
static void turn_body(fault_run *run)
{
    step_park(run, 0);
    step_park(run, 1);
    step_malloc(run, 10, 6 * MIB, 0, -1, 2);
    step_park(run, 2);
    step_unpark(run, 1);
    step_free(run, 10);
    step_unpark(run, 0);
    step_park(run, 1);
    step_unpark(run, 2);
    step_unpark(run, 1);
}

/* The memory stays with others: the host waits, and other chunks come. */
static void other_body(fault_run *run)
{
    step_park(run, 0);
    step_malloc(run, 10, 8 * MIB, 0, -1, 1);
    step_unpark(run, 0);
    step_park(run, 2);
    step_malloc(run, 11, 20 * MIB, 0, -1, 0); /* some of a parked block's, some new */
    step_free(run, 10);
    step_unpark(run, 2);
}

/* Memory is given back, and pools sleep, while blocks are parked; some are freed so. */
static void back_body(fault_run *run)
{
    step_park(run, 0);
    step_park(run, 1);
    step_malloc(run, 10, 12 * MIB, 0, -1, 0);
    step_free(run, 10);
    step_trim(run, 0);
    step_free(run, 1);
    step_park(run, 2);
    (void)step_status(run, tnr_pool_sleep(NULL, 0, NULL), "tnr_pool_sleep");
    (void)step_status(run, tnr_pool_wake(NULL, 0), "tnr_pool_wake");
    step_unpark(run, 0);
}

/* What is parked goes back to the driver: by a trim, and because memory is short. */
static void trimmed_body(fault_run *run)
{
    step_park(run, 0);
    step_park(run, 1);
    step_trim(run, 20 * MIB);
    step_park(run, 2);
    step_malloc(run, 10, 48 * MIB, 0, -1, 1);
    step_free(run, 10);
    step_unpark(run, 2);
    step_unpark(run, 0);
}

/* Contents go to the host and come back, by several streams. */
static void contents_body(fault_run *run)
{
    park_by(run, 0, -1, TNR_CONTENT_KEEP);
    step_malloc(run, 10, 8 * MIB, 0, -1, 0);
    park_by(run, 1, 2, TNR_CONTENT_KEEP);
    step_free(run, 10);
    step_unpark(run, 0);
    unpark_by(run, 1, 2);
    park_by(run, 3, 1, TNR_CONTENT_KEEP);
    step_free(run, 3);
    park_by(run, 0, -1, TNR_CONTENT_KEEP);
}

/* The end comes, with parked blocks. */
static void end_body(fault_run *run)
{
    step_park(run, 0);
    step_park(run, 1);
    step_malloc(run, 10, 12 * MIB, 0, -1, 0);
    step_shutdown(run, 1);
}

static const fault_scenario scenarios[] = {
    {"the same memory comes back", "chunk_max_mb:2", "256M", prepare, same_body},
    {"blocks in turn, on several streams", "chunk_max_mb:4,lend:off", "256M", prepare, turn_body},
    {"other memory comes back", "chunk_max_mb:2,lend:off", "256M", prepare, other_body},
    {"contents", "chunk_max_mb:4,lend:off", "256M", prepare, contents_body},
    {"given back meanwhile", NULL, "64M", prepare, back_body},
    {"parked memory given back", "chunk_max_mb:2", "64M", prepare, trimmed_body},
    {"forced end", NULL, "256M", prepare, end_body},
};

/* Arguments: see fault_main. */
int main(int argc, char **argv)
{
    return fault_main(scenarios, sizeof(scenarios) / sizeof(scenarios[0]), argc, argv);
}
