/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantee 3 for tags: any driver call, and any allocation of host memory, may fail where a tag's
 * pool is made, where several tags sleep or wake together, and where a tag is trimmed. A sleep and
 * a wake are all or none of the pools.
 */
#include "fault/fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/tag.h>

static const char *const tags[] = {"weights", "kv_cache"};

/* Allocates in a region, into a slot of the scenario. */
static void step_tagged(fault_run *run, int slot, const char *tag, size_t bytes)
{
    tnr_pool pool;
    if (step_status(run, tnr_tag_pool(&pool, tag, TNR_CONTENT_DEFAULT), "tnr_tag_pool") != TNR_OK ||
        step_status(run, tnr_pool_push(pool), "tnr_pool_push") != TNR_OK)
        return;
    (void)step_malloc(run, slot, bytes, 0, -1, 0);
    assert_int_equal(tnr_pool_pop(pool), TNR_OK);
    const char *found;
    if (run->slots[slot].ptr == NULL)
        return;
    assert_int_equal(tnr_tag_of(&found, run->slots[slot].ptr), TNR_OK);
    assert_string_equal(found, tag);
}

/* Both tags are asleep or none is, but for what the driver refused on the way back, as it says. */
static void tags_agree(tnr_status status)
{
    int asleep[2];
    for (int t = 0; t < 2; t++) {
        tnr_stats stats = {.struct_bytes = sizeof(stats)};
        assert_int_equal(tnr_tag_stats_get(&stats, tags[t], 0), TNR_OK);
        asleep[t] = stats.bytes_asleep > 0;
    }
    if (status != TNR_OK && strstr(tnr_last_error(), "The way back") == NULL)
        assert_int_equal(asleep[0], asleep[1]);
}

static void step_sleep(fault_run *run, int is_wake)
{
    tnr_status status = is_wake ? tnr_tags_wake(tags, 2, 0) : tnr_tags_sleep(tags, 2, 0, NULL);
    (void)step_status(run, status, is_wake ? "tnr_tags_wake" : "tnr_tags_sleep");
    if (!is_wake)
        tags_agree(status);
}

static void settle(fault_run *run)
{
    (void)run;
    if (tnr_tags_wake(NULL, 0, 0) != TNR_OK) {
        fprintf(stderr, "the wake at the end failed: %s\n", tnr_last_error());
        fail();
    }
}

static void prepare(fault_run *run)
{
    run->settle = settle;
    step_tagged(run, 0, "weights", 3 * MIB);
    prepare_fill(run, 0);
    step_tagged(run, 1, "kv_cache", 5 * MIB);
    prepare_fill(run, 1);
    step_malloc(run, 2, 2 * MIB, 0, -1, 1);
    prepare_fill(run, 2);
}

static void sleep_body(fault_run *run)
{
    step_sleep(run, 0);
    step_malloc(run, 3, 1 * MIB, 0, -1, 1);
    step_sleep(run, 1);
    step_tagged(run, 4, "weights", 1 * MIB);
}

/* The tags' pools are made here; a limit is met, and the tag's other memory makes room. */
static void made_prepare(fault_run *run)
{
    run->settle = settle;
    step_malloc(run, 2, 2 * MIB, 0, -1, 1);
}

static void made_body(fault_run *run)
{
    tnr_pool drop;
    step_tagged(run, 0, "weights", 3 * MIB);
    step_tagged(run, 1, "kv_cache", 3 * MIB);
    (void)step_status(run, tnr_tag_pool(&drop, "weights", TNR_CONTENT_DISCARD), "tnr_tag_pool");
    (void)step_status(run, tnr_tag_limit_set("weights", 6 * MIB, 0), "tnr_tag_limit_set");
    step_free(run, 0);
    if (step_status(run, tnr_pool_push(drop), "tnr_pool_push") == TNR_OK) {
        (void)step_malloc(run, 3, 6 * MIB, 0, -1, 0);
        assert_int_equal(tnr_pool_pop(drop), TNR_OK);
    }
    step_free(run, 1);
    (void)step_status(run, tnr_tag_trim(NULL, "kv_cache", 0, 0), "tnr_tag_trim");
    (void)step_status(run, tnr_tag_limit_set("weights", SIZE_MAX, 0), "tnr_tag_limit_set");
}

static const fault_scenario scenarios[] = {
    {"tags that sleep", "chunk_max_mb:2", "256M", prepare, sleep_body},
    {"tags that are made", "chunk_max_mb:2", "256M", made_prepare, made_body},
};

/* Arguments: see fault_main. */
int main(int argc, char **argv)
{
    return fault_main(scenarios, sizeof(scenarios) / sizeof(scenarios[0]), argc, argv);
}
