/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report of `tenure fuzz`: see fuzz_report.h.
 */
#include "fuzz_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tenure_commit.h>

#include "base/plural.h"
#include "json.h"
#include "table.h"

static const char *const served_names[] = {
#define SERVED_NAME(name, text) text,
    TNR_SERVED_LIST(SERVED_NAME)
#undef SERVED_NAME
};
static const char *const reuse_names[] = {
#define REUSE_NAME(name, text) text,
    TNR_REUSE_LIST(REUSE_NAME)
#undef REUSE_NAME
};

static double rate_of(const fuzz_totals *totals)
{
    return totals->busy_ns == 0 ? 0 : (double)totals->operations * 1e3 / (double)totals->busy_ns;
}

static int kinds_covered(const fuzz_totals *totals)
{
    int covered = 0;
    for (int i = 0; i < FUZZ_KINDS; i++)
        covered +=
            totals->calls[i] > totals->refused[i] || (i == FUZZ_FREE_WRONG && totals->calls[i] > 0);
    return covered;
}

static int policies_covered(const fuzz_totals *totals)
{
    return __builtin_popcountll(totals->policies);
}

void fuzz_report_begin(const fuzz_report *report)
{
    const fuzz_campaign_options *options = report->options;
    printf("commit %s\n%s\n", TNR_COMMIT, report->command);
    if (report->facts != NULL)
        fuzz_report_device(report);
    printf("seeds from %" PRIu64, options->seed_first);
    if (options->seed_last != UINT64_MAX)
        printf(" to %" PRIu64, options->seed_last);
    printf(", %" PRIu64 " operations each, %d at a time", options->limits.ops, options->jobs);
    if (options->seconds_max > 0)
        printf(", for %u s", options->seconds_max);
    printf("\n\n");
    fflush(stdout);
}

/* ---- text ----------------------------------------------------------------------------------- */

static void calls_print(const fuzz_totals *totals)
{
    table calls;
    TABLE_HEAD(&calls, "operation", "ran", "refused as expected");
    for (int i = 0; i < FUZZ_KINDS; i++) {
        table_row(&calls);
        table_cell(&calls, "%s", fuzz_kind_verb((fuzz_kind)i));
        table_cell(&calls, "%" PRIu64, totals->calls[i]);
        if (totals->calls[i] == 0)
            table_cell_bad(&calls);
        table_cell(&calls, "%" PRIu64, totals->refused[i]);
    }
    table_print(&calls, stdout);
    table_release(&calls);
}

static void counts_print(const char *what, const char *const *names, const uint64_t *counts,
                         int count)
{
    printf("%s:", what);
    for (int i = 0; i < count; i++)
        printf("%s %s %" PRIu64, i == 0 ? "" : ",", names[i], counts[i]);
    printf("\n");
}

static void planted_print(const fuzz_report *report)
{
    const fuzz_totals *totals = report->totals;
    table planted;
    int first, end;
    draw_planted_range(&report->options->limits, &first, &end);
    TABLE_HEAD(&planted, "planted error", "planted", "caught");
    for (int i = first; i < end; i++) {
        table_row(&planted);
        table_cell(&planted, "%s", fuzz_planted_names[i]);
        table_cell(&planted, "%" PRIu64, totals->planted[i]);
        table_cell(&planted, "%" PRIu64, totals->caught[i]);
        if (totals->caught[i] != totals->planted[i])
            table_cell_bad(&planted);
    }
    table_print(&planted, stdout);
    table_release(&planted);
    printf("\n");
}

static void failure_print(const fuzz_report *report)
{
    const fuzz_totals *totals = report->totals;
    const fuzz_result *failure = &totals->failure;
    printf("\nFAILED: %s (%s), seed %" PRIu64 ", operation %" PRIu64 ", after %" PRIu64
           " operations in all\n%s\n",
           fuzz_verdict_name(failure->verdict), failure->check, totals->program.setup.seed,
           failure->step, totals->operations_before, failure->text);
    if (report->options->limits.illegal && totals->failure_planted >= 0)
        printf("the planted error: %s\n", fuzz_planted_names[totals->failure_planted]);
    if (report->file == NULL)
        return;
    if (report->tries > 0)
        printf("\nshrunk from %zu to %zu operation%s in %" PRIu64 " %s\n", report->before,
               report->after, tnri_plural(report->after), report->tries,
               report->tries == 1 ? "try" : "tries");
    printf("the program: %s\nrun it again: tenure fuzz %s--replay %s\n", report->file,
           report->replay_options, report->file);
}

static void simulated_print(const fuzz_totals *totals)
{
    printf("\n%" PRIu64 " program%s, %" PRIu64 " operations in %.1f s: %.2f M/s on one core\n",
           totals->programs, tnri_plural(totals->programs), totals->operations,
           (double)totals->elapsed_ns / 1e9, rate_of(totals));
    printf("%" PRIu64 " complete check%s, %" PRIu64 " operation%s skipped, %" PRIu64
           " driver call%s made to fail, %" PRIu64 " allocation%s refused\n",
           totals->checks, tnri_plural(totals->checks), totals->skipped,
           tnri_plural(totals->skipped), totals->faults_hit, tnri_plural(totals->faults_hit),
           totals->failed_allocations, tnri_plural(totals->failed_allocations));
}

void fuzz_report_text(const fuzz_report *report)
{
    const fuzz_totals *totals = report->totals;
    if (report->options->limits.illegal)
        planted_print(report);
    else
        calls_print(totals);
    if (report->facts != NULL)
        fuzz_report_gates_text(report);
    else
        simulated_print(totals);
    printf("covered: %d of %d operations, %d of %zu settings\n", kinds_covered(totals), FUZZ_KINDS,
           policies_covered(totals), fuzz_settings_count);
    counts_print("served by", served_names, totals->served, TNR_SERVED_COUNT);
    counts_print("free again because", reuse_names, totals->reused, TNR_REUSE_COUNT);
    if (report->facts == NULL) /* when a device's work is over is not the seed's alone to say */
        printf("result %016" PRIx64 "\n", totals->hash);
    if (totals->program.ops != NULL)
        failure_print(report);
    else
        printf("\nno failure\n");
}

const char *fuzz_report_comment(const fuzz_result *result, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s (%s), seen after operation %" PRIu64 ", with commit %s:\n%s",
             fuzz_verdict_name(result->verdict), result->check, result->step, TNR_COMMIT,
             result->text);
    return text;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void json_counts(json_writer *json, const char *key, const char *const *names,
                        const uint64_t *counts, int count)
{
    json_object_begin(json, key);
    for (int i = 0; i < count; i++)
        json_unsigned(json, names[i], counts[i]);
    json_object_end(json);
}

static void json_failure(json_writer *json, const fuzz_report *report)
{
    const fuzz_totals *totals = report->totals;
    json_object_begin(json, "failure");
    json_text(json, "verdict", fuzz_verdict_name(totals->failure.verdict));
    json_text(json, "check", totals->failure.check);
    json_text(json, "text", totals->failure.text);
    json_unsigned(json, "seed", totals->program.setup.seed);
    json_unsigned(json, "operation", totals->failure.step);
    json_unsigned(json, "operations_before", totals->operations_before);
    json_unsigned(json, "length", report->before);
    json_unsigned(json, "length_shrunk", report->after);
    json_text(json, "file", report->file);
    if (report->options->limits.illegal && totals->failure_planted >= 0)
        json_text(json, "planted", fuzz_planted_names[totals->failure_planted]);
    json_object_end(json);
}

void fuzz_report_json(const fuzz_report *report)
{
    const fuzz_totals *totals = report->totals;
    const fuzz_campaign_options *options = report->options;
    char hash[24];
    json_writer json;
    json_start(&json, stdout);
    json_object_begin(&json, NULL);
    json_text(&json, "commit", TNR_COMMIT);
    json_text(&json, "command", report->command);
    json_unsigned(&json, "seed_first", options->seed_first);
    json_unsigned(&json, "operations_each", options->limits.ops);
    json_unsigned(&json, "programs", totals->programs);
    json_unsigned(&json, "operations", totals->operations);
    json_unsigned(&json, "skipped", totals->skipped);
    json_unsigned(&json, "checks", totals->checks);
    json_unsigned(&json, "faults_hit", totals->faults_hit);
    json_unsigned(&json, "allocations_refused", totals->failed_allocations);
    json_unsigned(&json, "accesses_by_peers", totals->by_peers);
    json_real(&json, "elapsed_s", (double)totals->elapsed_ns / 1e9, 3);
    if (report->facts != NULL)
        fuzz_report_gates_json(&json, report);
    else
        json_real(&json, "million_operations_per_second_and_core", rate_of(totals), 3);
    json_unsigned(&json, "settings_covered", (uint64_t)policies_covered(totals));
    json_object_begin(&json, "operations_run");
    for (int i = 0; i < FUZZ_KINDS; i++)
        json_unsigned(&json, fuzz_kind_verb((fuzz_kind)i), totals->calls[i]);
    json_object_end(&json);
    json_counts(&json, "served", served_names, totals->served, TNR_SERVED_COUNT);
    json_counts(&json, "freed_because", reuse_names, totals->reused, TNR_REUSE_COUNT);
    json_object_begin(&json, "verdicts");
    for (int i = 0; i < FUZZ_VERDICTS; i++)
        json_unsigned(&json, fuzz_verdict_name((fuzz_verdict)i), totals->verdicts[i]);
    json_object_end(&json);
    if (options->limits.illegal) {
        int first, end;
        draw_planted_range(&options->limits, &first, &end);
        json_counts(&json, "planted", fuzz_planted_names + first, totals->planted + first,
                    end - first);
        json_counts(&json, "caught", fuzz_planted_names + first, totals->caught + first,
                    end - first);
    }
    snprintf(hash, sizeof(hash), "%016" PRIx64, totals->hash);
    if (report->facts == NULL)
        json_text(&json, "result", hash);
    if (totals->program.ops != NULL)
        json_failure(&json, report);
    json_object_end(&json);
    json_end(&json);
}
