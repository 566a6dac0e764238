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
#include "bench_uses.h"
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

/* ---- tables -------------------------------------------------------------------------------- */

static void table_headings(const bench_setup *setup, table *out, int is_mix)
{
    table_row(out);
    table_cell(out, is_mix ? "threads" : "bytes");
    if (is_mix)
        table_cell(out, "live/thread");
    for (size_t i = 0; i < setup->allocators_count; i++) {
        table_cell(out, "%s", setup->allocators[i].name);
        if (i == 0)
            table_cell(out, "min");
        if (i == 0)
            table_cell(out, "p99");
        if (is_mix)
            table_cell(out, "M/s");
        if (i > 0)
            table_cell(out, "ratio");
    }
}

static void table_cells(table *out, const bench_row *row, size_t index, int is_mix)
{
    const bench_cell *cell = &row->cells[index];
    int columns = 2 + (index == 0) + is_mix;
    if (cell->failed) {
        for (int i = 0; i < columns; i++)
            table_cell(out, i == 0 ? "failed" : "-");
        return;
    }
    table_cell(out, "%.1f", bench_cell_median_ns(cell));
    if (index == 0) {
        table_cell(out, "%.1f", bench_cell_min_ns(cell));
        table_cell(out, "%.1f", bench_cell_p99_ns(cell));
    }
    if (is_mix)
        table_cell(out, "%.2f", bench_cell_median_mops(cell));
    if (index > 0)
        table_cell(out, "%.1f x", ratio_to_tenure(row, cell));
}

/* All rows of one benchmark. Prints nothing if there are none. */
static void bench_table(const bench_setup *setup, const bench_row *rows, size_t count, int is_mix,
                        FILE *file)
{
    const char *bench = is_mix ? "mix" : "pair";
    table out;
    size_t others = setup->allocators_count - 1;
    table_start(&out, is_mix ? 6 + 3 * others : 4 + 2 * others);
    table_headings(setup, &out, is_mix);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].bench, bench) != 0)
            continue;
        table_row(&out);
        if (is_mix) {
            table_cell(&out, "%d", rows[i].threads);
            table_cell(&out, "%zu", rows[i].live);
        } else {
            table_cell(&out, "%zu", rows[i].bytes);
        }
        for (size_t k = 0; k < setup->allocators_count; k++)
            table_cells(&out, &rows[i], k, is_mix);
    }
    if (out.rows_count > 1) {
        fputs(is_mix ? "\nRandom mix: ns per operation (one free and one allocation, 512 B to "
                       "8 MiB, uniform),\nas one thread sees it; M/s of all threads together\n"
                     : "\nCached pair: ns per allocation and free, one thread, one stream\n",
              file);
        table_print(&out, file);
    }
    table_release(&out);
}

void bench_tables(const bench_setup *setup, const bench_row *rows, size_t count, FILE *file)
{
    bench_table(setup, rows, count, 0, file);
    bench_table(setup, rows, count, 1, file);
    bench_uses_table(rows, count, file);
    fputs("\nMedians over rounds, allocators taking turns in one process; p99 over batches of 64\n"
          "operations. In columns of ratios above 1 means that Tenure is faster.\n",
          file);
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

/* ---- JSON and CSV -------------------------------------------------------------------------- */

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
        json_unsigned(&json, "ops_per_thread", row->ops);
        if (!cell->failed) {
            json_real(&json, "median_ns", bench_cell_median_ns(cell), 2);
            json_real(&json, "min_ns", bench_cell_min_ns(cell), 2);
            json_real(&json, "p99_ns", bench_cell_p99_ns(cell), 2);
            json_real(&json, "mops", bench_cell_median_mops(cell), 4);
            json_real(&json, "ratio_to_tenure", ratio_to_tenure(row, cell), 3);
        }
        json_unsigned(&json, "checksum", cell->checksum);
        json_text(&json, "error", cell->failed ? cell->error : NULL);
        json_object_end(&json);
        json_end(&json);
    }
}

/* One line per allocator and configuration. A failed cell has empty numbers. */
static void csv_row(const bench_setup *setup, const bench_row *row, size_t index, FILE *file)
{
    const bench_cell *cell = &row->cells[index];
    if (cell->rounds == 0 && !cell->failed)
        return;
    fprintf(file, "%s,%s,%zu,%d,%zu,%d,%" PRIu64 ",", row->bench,
            bench_cell_column(setup, row, index).key, row->bytes, row->threads, row->live,
            cell->rounds, row->ops);
    if (cell->failed)
        fputs(",,,,", file);
    else
        fprintf(file, "%.2f,%.2f,%.2f,%.4f,%.3f", bench_cell_median_ns(cell),
                bench_cell_min_ns(cell), bench_cell_p99_ns(cell), bench_cell_median_mops(cell),
                ratio_to_tenure(row, cell));
    fprintf(file, ",%" PRIu64 "\n", cell->checksum);
}

int bench_csv(const bench_setup *setup, const bench_row *rows, size_t count, const char *command,
              const char *path)
{
    const session *active = setup->active;
    FILE *file = fopen(path, "w");
    if (!file)
        return -1;
    fprintf(file,
            "# command=\"%s\" commit=%s gpu=\"%s%s\" driver_cuda=%d.%d cpus=%ld\n"
            "bench,allocator,bytes,threads,live_per_thread,rounds,ops_per_thread,"
            "median_ns,min_ns,p99_ns,mops,ratio_to_tenure,checksum\n",
            command, TNR_COMMIT, active->simulated ? "simulated: " : "", active->device_info.name,
            active->version / 1000, active->version % 1000 / 10, sysconf(_SC_NPROCESSORS_ONLN));
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < bench_cells_count(setup, &rows[i]); k++)
            csv_row(setup, &rows[i], k, file);
    }
    int failed = ferror(file);
    return fclose(file) != 0 || failed ? -1 : 0;
}
