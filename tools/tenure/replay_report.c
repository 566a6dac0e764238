/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a replay has shown, as tables for people and as JSON for programs.
 *
 * PyTorch's figures beside ours were recorded with the traces. Of the project's own the build makes
 * a table from tests/traces/recorded.csv; they are known by their contents, whatever the file is
 * called. A trace that `tenure snapshot trace` made says what its PyTorch reserved.
 */
#include <string.h>

#include <tenure_commit.h>

#include "recorded.h"
#include "replay.h"
#include "table.h"

static const recorded_figures *recorded_find(const trace *source)
{
    for (size_t i = 0; i < sizeof(recorded_table) / sizeof(recorded_table[0]); i++)
        if (recorded_table[i].crc32 == source->crc32)
            return &recorded_table[i];
    return NULL;
}

replay_recorded replay_recorded_of(const replay_result *result)
{
    const recorded_figures *figures = recorded_find(result->source);
    replay_recorded found = {.native_bytes = result->source->recorded_peak_bytes};
    if (figures && figures->held_bytes > result->peak_live_bytes)
        found = (replay_recorded){.held_bytes = figures->held_bytes};
    else if (figures)
        found = (replay_recorded){.native_bytes = figures->native_bytes,
                                  .expandable_bytes = figures->expandable_bytes,
                                  .malloc_async_bytes = figures->malloc_async_bytes};
    return found;
}

static double ratio(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

static uint64_t sum(const uint64_t *values, size_t count)
{
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += values[i];
    return total;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

#define KIND_TEXT(name, text) text,
static const char *const kinds[] = {TNR_DRIVER_KIND_LIST(KIND_TEXT)};
#undef KIND_TEXT

static void driver_json(json_writer *json, const tnr_stats *stats)
{
#define SERVED_TEXT(name, text) text,
    static const char *const served[] = {TNR_SERVED_LIST(SERVED_TEXT)};
#undef SERVED_TEXT
    json_object_begin(json, "driver_calls_by_kind");
    for (size_t i = 0; i < TNR_DRIVER_KIND_COUNT; i++)
        json_unsigned(json, kinds[i], stats->driver_calls[i]);
    json_object_end(json);
    json_object_begin(json, "driver_ns_by_kind");
    for (size_t i = 0; i < TNR_DRIVER_KIND_COUNT; i++)
        json_unsigned(json, kinds[i], stats->driver_ns[i]);
    json_object_end(json);
    json_object_begin(json, "served");
    for (size_t i = 0; i < TNR_SERVED_COUNT; i++)
        json_unsigned(json, served[i], stats->served[i]);
    json_object_end(json);
}

/* What pass number `at` did: the difference to the one before. */
static replay_pass pass_of(const replay_result *result, size_t at)
{
    replay_pass pass = result->passes[at];
    if (at == 0)
        return pass;
    const replay_pass *before = &result->passes[at - 1];
    for (size_t i = 0; i < TNR_DRIVER_KIND_COUNT; i++)
        pass.calls[i] -= before->calls[i];
    for (size_t i = 0; i < TNR_SERVED_COUNT; i++)
        pass.served[i] -= before->served[i];
    pass.chunks_created -= before->chunks_created;
    pass.chunks_moved -= before->chunks_moved;
    pass.modelled_ns -= before->modelled_ns;
    return pass;
}

static void passes_json(json_writer *json, const replay_result *result)
{
    json_array_begin(json, "passes");
    for (size_t i = 0; i < result->passes_count; i++) {
        replay_pass pass = pass_of(result, i);
        json_object_begin(json, NULL);
        json_unsigned(json, "reserved_bytes", pass.reserved_bytes);
        json_unsigned(json, "peak_reserved_bytes", pass.peak_reserved_bytes);
        json_real(json, "reserved_over_live",
                  ratio(pass.peak_reserved_bytes, result->peak_live_bytes), 4);
        json_unsigned(json, "chunks_created", pass.chunks_created);
        json_unsigned(json, "chunks_moved", pass.chunks_moved);
        json_unsigned(json, "lent", pass.served[TNR_SERVED_LENT]);
        if (result->simulated)
            json_unsigned(json, "modelled_driver_ns", pass.modelled_ns);
        json_object_begin(json, "driver_calls_by_kind");
        for (size_t kind = 0; kind < TNR_DRIVER_KIND_COUNT; kind++)
            json_unsigned(json, kinds[kind], pass.calls[kind]);
        json_object_end(json);
        json_object_end(json);
    }
    json_array_end(json);
}

static void recorded_json(json_writer *json, const trace *source)
{
    const recorded_figures *figures = recorded_find(source);
    if (!figures && source->recorded_peak_bytes > 0) {
        json_object_begin(json, "pytorch_reserved_bytes");
        json_unsigned(json, "as_recorded", source->recorded_peak_bytes);
        json_object_end(json);
    }
    if (!figures)
        return;
    json_object_begin(json, "pytorch_reserved_bytes");
    json_unsigned(json, "default", figures->native_bytes);
    json_unsigned(json, "expandable_segments", figures->expandable_bytes);
    json_unsigned(json, "cudaMallocAsync", figures->malloc_async_bytes);
    json_object_end(json);
    json_unsigned(json, "pytorch_held_bytes", figures->held_bytes);
}

void replay_json(const replay_result *result, const session *active, const char *command,
                 FILE *file)
{
    const tnr_stats *stats = &result->stats;
    json_writer json;
    json_start(&json, file);
    json_object_begin(&json, NULL);
    json_text(&json, "trace", result->source->name);
    json_text(&json, "driver", result->simulated ? "sim" : "cuda");
    json_text(&json, "device", active->device_info.name);
    char version[32];
    snprintf(version, sizeof(version), "%d.%d", active->version / 1000,
             active->version % 1000 / 10);
    json_text(&json, "driver_cuda", version);
    json_text(&json, "command", command);
    json_text(&json, "commit", TNR_COMMIT);
    json_unsigned(&json, "ops", result->ops_count);
    json_unsigned(&json, "loops", (uint64_t)result->loops);
    json_boolean(&json, "paced", result->speed > 0);
    if (result->speed > 0)
        json_unsigned(&json, "speed", (uint64_t)result->speed);
    json_unsigned(&json, "recorded_us", result->source->us_last - result->source->us_first);
    json_unsigned(&json, "streams", result->source->streams_count);
    json_unsigned(&json, "peak_live_bytes", result->peak_live_bytes);
    json_unsigned(&json, "peak_reserved_bytes", stats->reserved_bytes.peak);
    json_real(&json, "reserved_over_live",
              ratio(stats->reserved_bytes.peak, result->peak_live_bytes), 4);
    json_unsigned(&json, "driver_calls", sum(stats->driver_calls, TNR_DRIVER_KIND_COUNT));
    json_unsigned(&json, "driver_ns", sum(stats->driver_ns, TNR_DRIVER_KIND_COUNT));
    json_unsigned(&json, "chunks_created", stats->chunks_created);
    json_unsigned(&json, "chunks_moved", stats->chunks_moved);
    json_real(&json, "ns_per_op", ratio(result->ns_total, result->ops_count), 1);
    json_real(&json, "ns_per_op_median", result->ns_median, 1);
    json_real(&json, "ns_per_op_p99", result->ns_p99, 1);
    json_unsigned(&json, "pattern_errors", result->patterns.errors);
    json_unsigned(&json, "second_half_driver_allocations", result->driver_second_half);
    json_unsigned(&json, "second_half_driver_ns", result->driver_ns_second_half);
    if (result->simulated) {
        json_unsigned(&json, "modelled_driver_ns", result->modelled_ns);
        json_unsigned(&json, "second_half_modelled_driver_ns", result->modelled_ns_second_half);
    }
    driver_json(&json, stats);
    json_unsigned(&json, "metadata_bytes", stats->metadata_bytes);
    json_unsigned(&json, "wall_ns", result->wall_ns);
    if (result->loops > 1)
        passes_json(&json, result);
    recorded_json(&json, result->source);
    json_unsigned(&json, "exit_code", (uint64_t)result->code);
    json_text(&json, "error", result->code == EXIT_CODE_OK ? NULL : result->error);
    json_object_end(&json);
    json_end(&json);
}

/* ---- tables --------------------------------------------------------------------------------- */
/* "22.20 1.224", or a dash. */
static void recorded_cell(table *rows, uint64_t bytes, uint64_t live, uint64_t largest)
{
    char text[32];
    if (bytes == 0)
        table_cell(rows, "-");
    else
        table_cell(rows, "%s %.3f", format_in_unit(bytes, largest, text), ratio(bytes, live));
}

/* The table has one unit, that of its largest amount. */
static uint64_t largest_of(const replay_result *results, size_t count)
{
    uint64_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        const recorded_figures *figures = recorded_find(results[i].source);
        uint64_t torch = figures ? figures->native_bytes : results[i].source->recorded_peak_bytes;
        uint64_t ours = results[i].stats.reserved_bytes.peak;
        largest = torch > largest ? torch : largest;
        largest = ours > largest ? ours : largest;
    }
    return largest;
}

/* Said wherever it applies, because it makes PyTorch's bytes look worse than they are. */
static void waiting_note(const replay_result *result, FILE *file)
{
    char text[32];
    const recorded_figures *figures = recorded_find(result->source);
    if (!figures || figures->held_bytes <= result->peak_live_bytes)
        return;
    fprintf(file,
            "%s: when it was recorded, freed blocks waited for other streams;\n"
            "PyTorch's ratios are over the %s held then. The replay frees at once, on the\n"
            "block's own stream.\n",
            result->source->name, format_bytes_binary(figures->held_bytes, text));
}

/* A name that leaves room for the rest of a line. */
static void name_cell(table *rows, const replay_result *one)
{
    enum { MOST = 16 };
    const char *name = one->source->name;
    int is_long = strlen(name) > MOST;
    table_cell(rows, "%.*s%s", is_long ? MOST - 3 : MOST, name, is_long ? "..." : "");
}

static void memory_table(const replay_result *results, size_t count, FILE *file)
{
    static const char *const texts[] = {"trace",   "ops",        "peak live",    "Tenure / live",
                                        "PyTorch", "expandable", "malloc async", NULL};
    table rows;
    char text[32];
    uint64_t largest = largest_of(results, count);
    format_page(largest);
    table_head(&rows, texts, 0);
    for (size_t i = 0; i < count; i++) {
        const replay_result *one = &results[i];
        uint64_t reserved = one->stats.reserved_bytes.peak;
        const recorded_figures *figures = recorded_find(one->source);
        table_row(&rows);
        name_cell(&rows, one);
        table_cell(&rows, "%llu", (unsigned long long)one->ops_count);
        table_cell(&rows, "%s", format_in_unit(one->peak_live_bytes, largest, text));
        recorded_cell(&rows, reserved, one->peak_live_bytes, largest);
        uint64_t held = figures ? figures->held_bytes : one->peak_live_bytes;
        recorded_cell(&rows, figures ? figures->native_bytes : one->source->recorded_peak_bytes,
                      held, largest);
        recorded_cell(&rows, figures ? figures->expandable_bytes : 0, held, largest);
        recorded_cell(&rows, figures ? figures->malloc_async_bytes : 0, held, largest);
    }
    fprintf(file,
            "\nMemory in %s: the most reserved, and that over the most that was live. PyTorch's\n"
            "figures were recorded with the traces.\n",
            format_unit(largest));
    table_print(&rows, file);
    table_release(&rows);
    for (size_t i = 0; i < count; i++)
        waiting_note(&results[i], file);
}

static void work_table(const replay_result *results, size_t count, FILE *file)
{
    static const char *const texts[] = {"trace", "calls",  "ms",    "on H200**", "chunks",
                                        "moved", "late*",  "ns/op", "median",    "p99",
                                        "s",     "errors", NULL};
    table rows;
    table_head(&rows, texts, 0);
    for (size_t i = 0; i < count; i++) {
        const replay_result *one = &results[i];
        const tnr_stats *stats = &one->stats;
        table_row(&rows);
        name_cell(&rows, one);
        table_cell(&rows, "%llu",
                   (unsigned long long)sum(stats->driver_calls, TNR_DRIVER_KIND_COUNT));
        table_cell(&rows, "%.1f", (double)sum(stats->driver_ns, TNR_DRIVER_KIND_COUNT) / 1e6);
        if (one->simulated)
            table_cell(&rows, "%.1f", (double)one->modelled_ns / 1e6);
        else
            table_cell(&rows, "-");
        table_cell(&rows, "%llu", (unsigned long long)stats->chunks_created);
        table_cell(&rows, "%llu", (unsigned long long)stats->chunks_moved);
        table_cell(&rows, "%llu", (unsigned long long)one->driver_second_half);
        table_cell(&rows, "%.0f", ratio(one->ns_total, one->ops_count));
        table_cell(&rows, "%.0f", one->ns_median);
        table_cell(&rows, "%.0f", one->ns_p99);
        table_cell(&rows, "%.1f", (double)one->wall_ns / 1e9);
        if (one->code == EXIT_CODE_OK || one->patterns.errors)
            table_cell(&rows, "%llu", (unsigned long long)one->patterns.errors);
        else
            table_cell(&rows, "failed");
        if (one->code != EXIT_CODE_OK)
            table_cell_bad(&rows);
    }
    fputs(
        "\nWork: calls of the driver, and ms in them; ns/op is the mean time of one tnr_malloc or\n"
        "tnr_free, driver calls included; s the time of all; errors in the patterns of blocks.\n",
        file);
    table_print(&rows, file);
    fputs("* allocations in the second half of the trace that reached the driver\n"
          "** on the simulated device: ms that the calls would take on an H200, by a table\n",
          file);
    table_release(&rows);
}

/* 1 for the passes that the curve shows: the first ten, then those at powers of two, the last. */
static int pass_is_shown(size_t number, size_t count)
{
    return number <= 10 || number == count || (number & (number - 1)) == 0;
}

/* What each pass did to the memory. Event records and waits are the order between streams. */
static void passes_table(const replay_result *result, FILE *file)
{
    static const char *const before[] = {"pass", "reserved", "peak / live", NULL};
    table rows;
    char text[32];
    table_head(&rows, before, TNR_DRIVER_KIND_COUNT + 2);
    for (size_t kind = 0; kind < TNR_DRIVER_KIND_COUNT; kind++)
        table_cell(&rows, "%s", kinds[kind]);
    table_cell(&rows, "moved");
    table_cell(&rows, "lent");
    for (size_t i = 0; i < result->passes_count; i++) {
        if (!pass_is_shown(i + 1, result->passes_count))
            continue;
        replay_pass pass = pass_of(result, i);
        table_row(&rows);
        table_cell(&rows, "%zu", i + 1);
        table_cell(&rows, "%s", format_bytes_binary(pass.reserved_bytes, text));
        table_cell(&rows, "%.3f", ratio(pass.peak_reserved_bytes, result->peak_live_bytes));
        for (size_t kind = 0; kind < TNR_DRIVER_KIND_COUNT; kind++)
            table_cell(&rows, "%llu", (unsigned long long)pass.calls[kind]);
        table_cell(&rows, "%llu", (unsigned long long)pass.chunks_moved);
        table_cell(&rows, "%llu", (unsigned long long)pass.served[TNR_SERVED_LENT]);
    }
    fprintf(file,
            "\nPasses of %s%s: what is reserved at the end of each, the most until then, and\n"
            "the driver's calls in it.\n",
            result->source->name, result->speed > 0 ? ", paced" : "");
    table_print(&rows, file);
    table_release(&rows);
}

void replay_tables(const replay_result *results, size_t count, FILE *file)
{
    memory_table(results, count, file);
    work_table(results, count, file);
    for (size_t i = 0; i < count; i++)
        if (results[i].loops > 1 && results[i].passes_count > 0)
            passes_table(&results[i], file);
}
