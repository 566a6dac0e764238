/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the benchmarks have shown: tables, JSON, CSV.
 *
 * The median and the minimum are over rounds of the mean of a round; p99 is over batches of 64
 * operations of all rounds. Ratios are against Tenure's median: above 1 Tenure is faster.
 */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include <tenure_commit.h>

#include "bench.h"
#include "json.h"
#include "table.h"

double bench_cell_median_ns(const bench_cell *cell)
{
    double sorted[BENCH_ROUNDS_MAX];
    memcpy(sorted, cell->round_ns, sizeof(sorted));
    return samples_quantile(sorted, (size_t)cell->rounds, 0.5);
}

double bench_cell_min_ns(const bench_cell *cell)
{
    double sorted[BENCH_ROUNDS_MAX];
    memcpy(sorted, cell->round_ns, sizeof(sorted));
    return samples_quantile(sorted, (size_t)cell->rounds, 0);
}

double bench_cell_p99_ns(const bench_cell *cell)
{
    return histogram_quantile(&cell->batches, 0.99) / BENCH_BATCH;
}

double bench_cell_median_mops(const bench_cell *cell)
{
    double sorted[BENCH_ROUNDS_MAX];
    memcpy(sorted, cell->round_mops, sizeof(sorted));
    return samples_quantile(sorted, (size_t)cell->rounds, 0.5);
}

size_t bench_cells_count(const bench_setup *setup, const bench_row *row)
{
    return row->columns ? BENCH_ALLOCATORS_MAX : setup->allocators_count;
}

bench_column bench_cell_column(const bench_setup *setup, const bench_row *row, size_t index)
{
    const bench_allocator *allocator = &setup->allocators[index];
    return row->columns ? row->columns[index] : (bench_column){allocator->name, allocator->key};
}

int bench_checksums_agree(const bench_setup *setup, const bench_row *row)
{
    uint64_t expected = 0;
    int has_expected = 0;
    for (size_t i = 0; i < bench_cells_count(setup, row); i++) {
        const bench_cell *cell = &row->cells[i];
        if (cell->failed || cell->rounds == 0)
            continue;
        if (has_expected && cell->checksum != expected)
            return 0;
        expected = cell->checksum;
        has_expected = 1;
    }
    return 1;
}

/* How many times Tenure's median time this one is; 0 if one of the two is void. */
static double ratio_to_tenure(const bench_row *row, const bench_cell *cell)
{
    const bench_cell *tenure = &row->cells[0];
    if (tenure->failed || cell->failed || tenure->rounds == 0 || cell->rounds == 0)
        return 0;
    return bench_cell_median_ns(cell) / bench_cell_median_ns(tenure);
}

/* ---- tables --------------------------------------------------------------------------------- */

static const bench_group groups[] = {
    {"pair", "Cached pair: ns per allocation and free, one thread, one stream", 0},
    {"pair_own", "Cached pair of 4 KiB, each thread on its own stream", 1},
    {"pair_shared", "Cached pair of 4 KiB, all threads on one stream", 1},
    {"pair_new", "The first 1,024 pairs of new threads, all on one stream", 1},
    {"mix",
     "Random mix: ns per operation (one free and one allocation, 512 B to 8 MiB, uniform),\n"
     "as one thread sees it; M/s of all threads together",
     1},
    {"mix_shared", "Random mix, all threads on one stream", 1},
    {"live", "Random mix of 512 B to 256 KiB, one thread", 1},
    {"live_large", "Random mix of 1 to 1.25 MiB, one thread", 1},
    {"cold_start", "Fresh process, to the first block of 1 MiB", 0},
    {"cold_first", "The first block alone", 0},
    {"cold_second", "The second block", 0},
    {"growth", "One block, of memory that comes from the driver", 0},
    {"growth_steps", "1 GiB in 16 blocks, of memory that comes from the driver", 0},
    {"replay:", "Traces, from an allocator that holds nothing", 1},
    {"again:", "Traces, a second time", 1},
};
enum { GROUPS = sizeof(groups) / sizeof(groups[0]) };

/* Names that end in a colon are followed by a trace's. */
static int row_is_of(const bench_row *row, const bench_group *group)
{
    size_t length = strlen(group->prefix);
    if (group->prefix[length - 1] == ':')
        return strncmp(row->bench, group->prefix, length) == 0;
    return strcmp(row->bench, group->prefix) == 0;
}

/* The row from which a table takes its columns. */
static void table_headings(const bench_setup *setup, table *out, const bench_row *row,
                           const bench_group *group, unsigned columns)
{
    table_row(out);
    if (strchr(row->bench, ':'))
        table_cell(out, "trace");
    else
        table_cell(out, group->has_many ? "threads" : "bytes");
    if (group->has_many)
        table_cell(out, "live/thread");
    for (size_t i = 0; i < bench_cells_count(setup, row); i++) {
        if (!(columns >> i & 1))
            continue;
        table_cell(out, "%s", bench_cell_column(setup, row, i).name);
        if (i == 0) {
            table_cell(out, "min");
            table_cell(out, "p99.9");
            table_cell(out, "worst");
        }
        if (group->has_many)
            table_cell(out, "M/s");
        if (i > 0)
            table_cell(out, "ratio");
    }
}

static void sample_cell(table *out, const bench_cell *cell, double value)
{
    if (cell->samples.total)
        table_cell(out, "%.0f", value);
    else
        table_cell(out, "-");
}

static void table_cells(table *out, const bench_row *row, size_t index, int has_many)
{
    const bench_cell *cell = &row->cells[index];
    int columns = 2 + 2 * (index == 0) + has_many;
    if (cell->failed || cell->rounds == 0) {
        for (int i = 0; i < columns; i++)
            table_cell(out, i == 0 && cell->failed ? "failed" : "-");
        return;
    }
    table_cell(out, "%.1f", bench_cell_median_ns(cell));
    if (index == 0) {
        table_cell(out, "%.1f", bench_cell_min_ns(cell));
        sample_cell(out, cell, histogram_quantile(&cell->samples, 0.999));
        sample_cell(out, cell, (double)cell->samples.largest);
    }
    if (has_many)
        table_cell(out, "%.2f", bench_cell_median_mops(cell));
    if (index > 0)
        table_cell(out, "%.1f x", ratio_to_tenure(row, cell));
}

static void group_row(const bench_setup *setup, table *out, const bench_row *row,
                      const bench_group *group, unsigned columns)
{
    const char *trace = strchr(row->bench, ':');
    table_row(out);
    if (trace)
        table_cell(out, "%s", trace + 1);
    else if (group->has_many)
        table_cell(out, "%d", row->threads);
    else
        table_cell(out, "%zu", row->bytes);
    if (group->has_many)
        table_cell(out, "%zu", row->live);
    for (size_t k = 0; k < bench_cells_count(setup, row); k++)
        if (columns >> k & 1)
            table_cells(out, row, k, group->has_many);
}

/* A bit for each column of the group that anything was measured for, and always Tenure's. 0 if
 * there are no rows. */
static unsigned group_columns(const bench_setup *setup, const bench_row *rows, size_t count,
                              const bench_group *group)
{
    unsigned columns = 0;
    for (size_t i = 0; i < count; i++) {
        if (!row_is_of(&rows[i], group))
            continue;
        columns |= 1;
        for (size_t k = 1; k < bench_cells_count(setup, &rows[i]); k++)
            if (rows[i].cells[k].failed || rows[i].cells[k].rounds > 0)
                columns |= 1u << k;
    }
    return columns;
}

/* All rows of one benchmark. Prints nothing if there are none. */
static void bench_table(const bench_setup *setup, const bench_row *rows, size_t count,
                        const bench_group *group, FILE *file)
{
    table out;
    unsigned columns = group_columns(setup, rows, count, group);
    size_t others = (size_t)__builtin_popcount(columns) - 1;
    int is_started = 0;
    if (columns == 0)
        return;
    table_start(&out, group->has_many ? 7 + 3 * others : 5 + 2 * others);
    for (size_t i = 0; i < count; i++) {
        if (!row_is_of(&rows[i], group))
            continue;
        if (!is_started)
            table_headings(setup, &out, &rows[i], group, columns);
        is_started = 1;
        group_row(setup, &out, &rows[i], group, columns);
    }
    fprintf(file, "\n%s\n", group->title);
    table_print(&out, file);
    table_release(&out);
}

/* ---- what Tenure counted -------------------------------------------------------------------- */

/* In the order of the CSV's columns. */
enum { COUNT_NUMBERS = 5 };
static const char *const count_keys[COUNT_NUMBERS] = {"driver_calls", "served_moved", "served_lent",
                                                      "served_shared", "served_grown"};

static int count_is_known(const bench_cell *cell, int index)
{
    return index == 0 ? cell->counts.has_calls : cell->counts.has_served;
}

/* Operations of a thread in a timed round, in the mean. */
static uint64_t cell_ops(const bench_row *row, const bench_cell *cell)
{
    if (cell->ops_done > 0)
        return cell->ops_done / ((uint64_t)cell->rounds * (uint64_t)row->threads);
    return cell->ops ? cell->ops : row->ops;
}

static uint64_t count_number(const bench_cell *cell, int index)
{
    const bench_counts *counts = &cell->counts;
    const uint64_t numbers[COUNT_NUMBERS] = {counts->driver_calls, counts->moved, counts->lent,
                                             counts->shared, counts->grown};
    return numbers[index];
}

/* Memory held over memory in live blocks; 0 if nothing is live. */
static double cell_reserved(const bench_cell *cell)
{
    if (!cell->counts.has_served || cell->counts.live_bytes == 0)
        return 0;
    return (double)cell->counts.reserved_bytes / (double)cell->counts.live_bytes;
}

/* Of the mixes: what still went to the driver, or to other streams' memory, in the timed rounds. */
static void counts_table(const bench_row *rows, size_t count, FILE *file)
{
    static const char *const headings[] = {
        "mix",  "threads", "live/thread", "driver calls",  "moved",
        "lent", "shared",  "grown",       "reserved/live", NULL};
    table out;
    int is_started = 0;
    for (size_t i = 0; i < count; i++) {
        const bench_cell *cell = &rows[i].cells[0];
        if (cell_reserved(cell) == 0 || cell->failed)
            continue;
        if (!is_started) {
            table_head(&out, headings, 0);
            is_started = 1;
        }
        double ops = cell->ops_done > 0 ? (double)cell->ops_done : 1.0;
        table_row(&out);
        table_cell(&out, "%s", rows[i].bench);
        table_cell(&out, "%d", rows[i].threads);
        table_cell(&out, "%zu", rows[i].live);
        for (int k = 0; k < COUNT_NUMBERS; k++)
            table_cell(&out, "%.1f", (double)count_number(cell, k) / ops * 1e6);
        table_cell(&out, "%.3f", cell_reserved(cell));
    }
    if (!is_started)
        return;
    fputs("\nHow Tenure served the mixes: of 1,000,000 operations of the timed rounds\n", file);
    table_print(&out, file);
    table_release(&out);
}

void bench_tables(const bench_setup *setup, const bench_row *rows, size_t count, FILE *file)
{
    const bench_program *program = setup->program;
    for (size_t i = 0; i < program->groups_count; i++)
        bench_table(setup, rows, count, &program->groups[i], file);
    for (size_t i = 0; i < GROUPS; i++)
        bench_table(setup, rows, count, &groups[i], file);
    counts_table(rows, count, file);
    if (program->table)
        program->table(rows, count, file);
    fprintf(
        file,
        "\nMedians over rounds, allocators taking turns in one process. p99.9 and worst are of\n"
        "single operations, timed one by one in rounds of their own, less the %" PRIu64
        " ns of the\nclock; of pairs, the allocation alone. In columns of ratios above 1 means "
        "that Tenure\nis faster.\n",
        setup->clock_ns);
    if (setup->active->simulated)
        fputs("SIMULATED DEVICE: the host's time in Tenure is real, but driver calls cost what\n"
              "the simulation costs. Do not quote these numbers.\n",
              file);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < bench_cells_count(setup, &rows[i]); k++) {
            if (rows[i].cells[k].failed)
                fprintf(file, "%s failed (%s, %zu B, %d threads): %s\n",
                        bench_cell_column(setup, &rows[i], k).name, rows[i].bench, rows[i].bytes,
                        rows[i].threads, rows[i].cells[k].error);
        }
    }
}

/* ---- JSON and CSV --------------------------------------------------------------------------- */

/* The quantiles of single operations, in the order of the CSV's columns. */
enum { SAMPLE_NUMBERS = 4 };
static const char *const sample_keys[SAMPLE_NUMBERS] = {"op_p50_ns", "op_p99_ns", "op_p999_ns",
                                                        "op_worst_ns"};

static double sample_number(const bench_cell *cell, int index)
{
    static const double shares[SAMPLE_NUMBERS - 1] = {0.5, 0.99, 0.999};
    return index < SAMPLE_NUMBERS - 1 ? histogram_quantile(&cell->samples, shares[index])
                                      : (double)cell->samples.largest;
}

/* Of benchmarks that time no batches it is the 99th percentile of single operations. */
static double cell_p99_ns(const bench_cell *cell)
{
    return cell->batches.total ? bench_cell_p99_ns(cell) : sample_number(cell, 1);
}

static int cell_has_p99(const bench_cell *cell)
{
    return cell->batches.total > 0 || cell->samples.total > 0;
}

void bench_json(const bench_setup *setup, const bench_row *row, FILE *file)
{
    for (size_t i = 0; i < bench_cells_count(setup, row); i++) {
        const bench_cell *cell = &row->cells[i];
        json_writer json;
        if (cell->rounds == 0 && !cell->failed)
            continue;
        json_start(&json, file);
        json_object_begin(&json, NULL);
        json_text(&json, "bench", row->bench);
        json_text(&json, "allocator", bench_cell_column(setup, row, i).key);
        json_text(&json, "device", setup->active->device_info.name);
        json_boolean(&json, "simulated", setup->active->simulated);
        json_unsigned(&json, "bytes", row->bytes);
        json_unsigned(&json, "threads", (uint64_t)row->threads);
        json_unsigned(&json, "live_per_thread", row->live);
        json_unsigned(&json, "rounds", (uint64_t)cell->rounds);
        json_unsigned(&json, "ops_per_thread", cell_ops(row, cell));
        if (!cell->failed) {
            json_real(&json, "median_ns", bench_cell_median_ns(cell), 2);
            json_real(&json, "min_ns", bench_cell_min_ns(cell), 2);
            if (cell_has_p99(cell))
                json_real(&json, "p99_ns", cell_p99_ns(cell), 2);
            json_real(&json, "mops", bench_cell_median_mops(cell), 4);
            json_real(&json, "ratio_to_tenure", ratio_to_tenure(row, cell), 3);
        }
        json_unsigned(&json, "checksum", cell->checksum);
        json_unsigned(&json, "samples", cell->samples.total);
        for (int k = 0; k < SAMPLE_NUMBERS && cell->samples.total && !cell->failed; k++)
            json_real(&json, sample_keys[k], sample_number(cell, k), 0);
        for (int k = 0; k < COUNT_NUMBERS && count_is_known(cell, k); k++)
            json_unsigned(&json, count_keys[k], count_number(cell, k));
        if (cell_reserved(cell) > 0)
            json_real(&json, "reserved_over_live", cell_reserved(cell), 4);
        json_text(&json, "error", cell->failed ? cell->error : NULL);
        json_object_end(&json);
        json_end(&json);
    }
}

/* One line per allocator and configuration. A failed cell has empty numbers, and one without
 * samples none of them. */
static void csv_row(const bench_setup *setup, const bench_row *row, size_t index, FILE *file)
{
    const bench_cell *cell = &row->cells[index];
    if (cell->rounds == 0 && !cell->failed)
        return;
    fprintf(file, "%s,%s,%zu,%d,%zu,%d,%" PRIu64 ",", row->bench,
            bench_cell_column(setup, row, index).key, row->bytes, row->threads, row->live,
            cell->rounds, cell_ops(row, cell));
    if (cell->failed) {
        fputs(",,,,", file);
    } else {
        fprintf(file, "%.2f,%.2f,", bench_cell_median_ns(cell), bench_cell_min_ns(cell));
        if (cell_has_p99(cell))
            fprintf(file, "%.2f", cell_p99_ns(cell));
        fprintf(file, ",%.4f,%.3f", bench_cell_median_mops(cell), ratio_to_tenure(row, cell));
    }
    fprintf(file, ",%" PRIu64 ",%" PRIu64, cell->checksum, cell->samples.total);
    for (int k = 0; k < SAMPLE_NUMBERS; k++)
        if (cell->failed || cell->samples.total == 0)
            fputc(',', file);
        else
            fprintf(file, ",%.0f", sample_number(cell, k));
    for (int k = 0; k < COUNT_NUMBERS; k++)
        if (count_is_known(cell, k))
            fprintf(file, ",%" PRIu64, count_number(cell, k));
        else
            fputc(',', file);
    if (cell_reserved(cell) > 0)
        fprintf(file, ",%.4f\n", cell_reserved(cell));
    else
        fputs(",\n", file);
}

int bench_csv(const bench_setup *setup, const bench_row *rows, size_t count, const char *command,
              const char *path)
{
    const session *active = setup->active;
    FILE *file = fopen(path, "w");
    if (!file)
        return -1;
    fprintf(file,
            "# command=\"%s\" commit=%s gpu=\"%s%s\" driver_cuda=%d.%d cpus=%ld clock_ns=%" PRIu64
            "\nbench,allocator,bytes,threads,live_per_thread,rounds,ops_per_thread,"
            "median_ns,min_ns,p99_ns,mops,ratio_to_tenure,checksum,samples,op_p50_ns,op_p99_ns,"
            "op_p999_ns,op_worst_ns,driver_calls,served_moved,served_lent,served_shared,"
            "served_grown,reserved_over_live\n",
            command, TNR_COMMIT, active->simulated ? "simulated: " : "", active->device_info.name,
            active->version / 1000, active->version % 1000 / 10, sysconf(_SC_NPROCESSORS_ONLN),
            setup->clock_ns);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < bench_cells_count(setup, &rows[i]); k++)
            csv_row(setup, &rows[i], k, file);
    int failed = ferror(file);
    return fclose(file) != 0 || failed ? -1 : 0;
}
