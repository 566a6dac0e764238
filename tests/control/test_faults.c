/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantee 3 from outside: any driver call, and any allocation of host memory, may fail while a
 * controller controls the process. Each request is answered, or the connection is closed. An answer
 * without success names a status and says why. A request that is repeated later succeeds.
 *
 * Lines changed in the library to see it fail:
 *   tnri_answer_end without the line for what was lost: the controller waits for ever
 */
#include "fault/fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/control.h>
#include <tenure/tag.h>

#include "client.h"

/* Asks on a connection of its own; hung up counts as failed. */
static void asks(fault_run *run, const char *request)
{
    const char *answer = client_ask_once(request);
    int is_good = answer != NULL && strstr(answer, "\"ok\":true") != NULL;
    if (answer != NULL && !is_good) {
        assert_non_null(strstr(answer, "\"ok\":false"));
        assert_non_null(strstr(answer, "\"status\":\"TNR_ERR_"));
        assert_non_null(strstr(answer, "\"message\":\""));
    }
    if (!run->in_body && !is_good)
        fail_msg("%s: %s", request, answer == NULL ? "hung up" : answer);
    run->failed_calls += !is_good;
}

static void settle(fault_run *run)
{
    (void)run;
    const char *answer = client_ask_once("{\"command\":\"wake\"}");
    if (answer == NULL || strstr(answer, "\"ok\":true") == NULL)
        fail_msg("the wake at the end: %s", answer == NULL ? "hung up" : answer);
}

/* Pools without memory, so that status is longer than the room that is there at first. */
static void many_pools_make(void)
{
    static const char *const tags[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};
    for (int i = 0; i < 36; i++) {
        tnr_pool pool;
        tnr_stats stats = {.struct_bytes = sizeof(stats)};
        assert_int_equal(tnr_tag_pool(&pool, tags[i / 3], (tnr_content)(i % 3)), TNR_OK);
        assert_int_equal(tnr_stats_get(&stats, pool, 0), TNR_OK);
    }
    const char *answer = client_ask_once("{\"command\":\"status\"}");
    assert_true(answer != NULL && strlen(answer) > 4096);
}

static void prepare(fault_run *run)
{
    tnr_pool pool;
    run->settle = settle;
    many_pools_make();
    assert_int_equal(tnr_tag_pool(&pool, "weights", TNR_CONTENT_DEFAULT), TNR_OK);
    assert_int_equal(tnr_pool_push(pool), TNR_OK);
    step_malloc(run, 0, 3 * MIB, 0, -1, 0);
    assert_int_equal(tnr_pool_pop(pool), TNR_OK);
    prepare_fill(run, 0);
    step_malloc(run, 1, 2 * MIB, 0, -1, 1);
    prepare_fill(run, 1);
}

static void body(fault_run *run)
{
    asks(run, "{\"command\":\"status\",\"streams\":true}");
    asks(run, "{\"command\":\"sleep\",\"tags\":[\"weights\"]}");
    asks(run, "{\"command\":\"sleep\"}");
    asks(run, "{\"command\":\"wake\"}");
    asks(run, "{\"command\":\"trim\"}");
    asks(run, "{\"command\":\"settings\",\"set\":\"bin_blocks:8\"}");
}

int main(int argc, char **argv)
{
    static char conf[512];
    snprintf(conf, sizeof(conf), "%s", client_conf("chunk_max_mb:2"));
    const fault_scenario scenarios[] = {
        {"ruled from outside", conf, "256M", prepare, body},
    };
    return fault_main(scenarios, 1, argc, argv);
}
