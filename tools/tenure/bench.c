/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure bench`: the command line, and which sections are measured.
 */
#include "bench.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "commands.h"
#include "progress.h"

static session_options session_texts;
static const char *beside_option, *torch_option, *threads_option, *only_option, *csv_option,
    *rounds_option, *live_option, *budget_option;
static int is_json, is_quick, is_list, wants_progress;

static const cli_option options[] = {
    {"driver", "NAME", OPTION_DRIVER_HELP, &session_texts.driver, NULL},
    {"device", "N", OPTION_DEVICE_HELP, &session_texts.device, NULL},
    {"conf", "STR", OPTION_CONF_HELP, &session_texts.settings, NULL},
    {"only", "NAME,...", "only these sections; --list has their names", &only_option, NULL},
    {"list", NULL, "print the sections and exit", NULL, &is_list},
    {"threads", "LIST",
     "thread counts (default 1,2,4,8,16, or 1,2,4 on the\n"
     "simulated device; no more than there are CPUs)",
     &threads_option, NULL},
    {"rounds", "N",
     "rounds per configuration (default 15; fewer, and\nshorter ones, of what is slow)",
     &rounds_option, NULL},
    {"live", "N",
     "live blocks of a thread in the section mix (default 2000);\n"
     "with many threads they may fill the device",
     &live_option, NULL},
    {"budget-ms", "N", "begin no section after N ms (default: no limit)", &budget_option, NULL},
    {"quick", NULL, "fewer and shorter rounds, to see that it works", NULL, &is_quick},
    {"beside", "LIST",
     "what to time beside Tenure: driver, torch, or none\n"
     "(default: the driver, and PyTorch with --torch)",
     &beside_option, NULL},
    {"torch", "PLUGIN.so",
     "also time PyTorch's allocator, through the plugin that\n"
     "tests/gpu/build_torch_plugin.sh builds",
     &torch_option, NULL},
    {"csv", "FILE", "write the numbers to FILE, after each section", &csv_option, NULL},
    {"progress", NULL, "lines of progress where stderr is not a terminal", NULL, &wants_progress},
    {"json", NULL, "one object per allocator and configuration on stdout", NULL, &is_json},
    {NULL, NULL, NULL, NULL, NULL},
};

static const cli_syntax syntax = {
    "bench",
    "time allocation beside the driver's pool and PyTorch",
    "[options] [TRACE...]",
    "Each TRACE is a CSV file, plain or gzip (tests/traces has six), for the section replay. What\n"
    "the other sections measure: tenure bench --list.\n"
    "\n"
    "Beside Tenure on a GPU: cuMemAllocAsync with cuMemFreeAsync (its pool told to keep memory),\n"
    "where it fits cuMemAlloc and cuEventRecord, and PyTorch's allocator with --torch. --beside "
    "none\n"
    "times Tenure alone. The pool of the simulated device is only timed if --beside names it, and "
    "no\n"
    "number from there is for quoting.\n"
    "\n"
    "Examples:\n"
    "  tenure bench --driver sim --only pair\n"
    "  tenure bench --csv bench.csv tests/traces/gpt2_train.csv.gz\n"
    "\n"
    "Exit codes: 0 done; 1 allocators did different work; 2 bad options; 3 no driver or device;\n"
    "4 Tenure ran out of memory.\n",
    options,
    0,
    64,
};

/* What takes long comes late: a budget then cuts little. The costs are what rows took on an H200
 * with 16 CPUs, or, where that is not known, the most that they may take. */
static const bench_section sections[] = {
    {"pair",
     "a cached allocation and its free, 512 B to 16 MiB, one thread",
     bench_pair_run,
     {.rows = 5, .tenure_s = 0.1, .driver_s = 0.8, .torch_s = 0.5}},
    {"cold",
     "the first block of a fresh process, and the second",
     bench_cold_run,
     {.rows = 1, .tenure_s = 4, .driver_s = 8, .torch_s = 30}},
    {"growth",
     "memory from the driver: 1, 4, 64 GiB in one block, 1 GiB in 16",
     bench_growth_run,
     {.rows = 4, .tenure_s = 2, .driver_s = 2, .torch_s = 1}},
    {"replay",
     "the TRACEs, in ns per operation",
     bench_replay_run,
     {.rows_per_trace = 1, .tenure_s = 0.6, .driver_s = 4, .torch_s = 1.5}},
    {"threads",
     "cached pairs on several threads: own streams, one stream for all, new threads",
     bench_threads_run,
     {.rows_per_threads = 3, .tenure_s = 0.2, .driver_s = 1.2, .torch_s = 1.2}},
    {"mix",
     "free and allocation of random sizes, 2,000 live blocks: own streams, and one for all",
     bench_mix_run,
     {.rows_per_threads = 2, .tenure_s = 4, .driver_s = 4, .torch_s = 4}},
    {"live",
     "the same on one thread with 1,000 to 100,000 live blocks, small and large",
     bench_live_run,
     {.rows = 8, .tenure_s = 2, .driver_s = 4, .torch_s = 3}},
};
enum { SECTIONS = sizeof(sections) / sizeof(sections[0]) };

static size_t sections_count(const bench_setup *setup)
{
    return setup->program->sections_count + SECTIONS;
}

/* Those of the program come first. */
static const bench_section *section_at(const bench_setup *setup, size_t index)
{
    size_t own = setup->program->sections_count;
    return index < own ? &setup->program->sections[index] : &sections[index - own];
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* What is slow gets three rounds, and what is very slow one. */
enum { ROUNDS_OF_SLOW = 3 };
static const uint64_t slow_ns = UINT64_C(1000000000), very_slow_ns = UINT64_C(10000000000);

bench_row *bench_row_add(bench_rows *out, const char *bench)
{
    if (out->count == BENCH_ROWS_MAX) {
        fputs("tenure bench: too many configurations\n", stderr);
        exit(EXIT_CODE_BAD_INPUT);
    }
    bench_row *row = &out->rows[out->count++];
    snprintf(row->bench, sizeof(row->bench), "%s", bench);
    return row;
}

int bench_cell_goes_on(const bench_cell *cell, int rounds_max)
{
    if (cell->failed || cell->spent_ns > very_slow_ns || cell->rounds >= rounds_max)
        return 0;
    return cell->rounds < ROUNDS_OF_SLOW || cell->spent_ns < slow_ns;
}

size_t bench_turn(const bench_setup *setup, int round, size_t k)
{
    return (k + (size_t)round) % setup->allocators_count;
}

void bench_cell_fail(bench_cell *cell, const char *error)
{
    cell->failed = 1;
    snprintf(cell->error, sizeof(cell->error), "%s", error);
}

void bench_cell_round(bench_cell *cell, double ops, double ns, uint64_t checksum)
{
    if (cell->rounds == 0)
        cell->checksum = checksum;
    cell->round_ns[cell->rounds] = ns / ops;
    cell->round_mops[cell->rounds] = ns > 0 ? ops / ns * 1e3 : 0;
    cell->rounds++;
}

void bench_trim_all(const bench_setup *setup)
{
    for (size_t i = 0; i < setup->allocators_count; i++)
        setup->allocators[i].trim();
}

/* ---- options -------------------------------------------------------------------------------- */

/* Reads "1,2,4". Returns 0, or an exit code after a usage error. */
static int threads_parse(bench_setup *setup, const char *text)
{
    char copy[256];
    if (strlen(text) >= sizeof(copy))
        return cli_usage_error(&syntax, "--threads: the list is too long");
    snprintf(copy, sizeof(copy), "%s", text);
    setup->threads_count = 0;
    char *rest = copy;
    for (char *part = strsep(&rest, ","); part; part = strsep(&rest, ",")) {
        long number;
        if (setup->threads_count == sizeof(setup->threads) / sizeof(setup->threads[0]))
            return cli_usage_error(&syntax, "--threads: too many numbers");
        if (cli_number(&syntax, "threads", part, 1, BENCH_THREADS_MAX, &number) != 0)
            return EXIT_CODE_BAD_INPUT;
        setup->threads[setup->threads_count++] = (int)number;
    }
    return 0;
}

/* The counts that suit the machine: threads that share a CPU measure the scheduler. */
static void threads_choose(bench_setup *setup)
{
    static const int counts[] = {1, 2, 4, 8, 16};
    size_t most = setup->active->simulated ? 3 : 5;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    for (size_t i = 0; i < most; i++) {
        if (counts[i] <= cpus || i == 0)
            setup->threads[setup->threads_count++] = counts[i];
        else
            fprintf(stderr, "tenure bench: %d threads left out: there are %ld CPUs\n", counts[i],
                    cpus);
    }
}

/* 1 if the comma-separated list has the word. */
static int list_has(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return 1;
    }
    return 0;
}

static int section_is_wanted(const bench_section *section)
{
    return !only_option || list_has(only_option, section->name);
}

/* Every word of --only names a section. */
static int only_check(const bench_setup *setup)
{
    size_t count = sections_count(setup);
    char copy[256];
    snprintf(copy, sizeof(copy), "%s", only_option);
    char *rest = copy;
    for (char *part = strsep(&rest, ","); part; part = strsep(&rest, ",")) {
        size_t i = 0;
        while (i < count && strcmp(section_at(setup, i)->name, part) != 0)
            i++;
        if (i == count)
            return cli_usage_error(
                &syntax, "--only: there is no section \"%s\"; --list has their names", part);
    }
    return 0;
}

/* Sets what is timed beside Tenure. Returns 0, or an exit code after a usage error. */
static int beside_choose(bench_setup *setup)
{
    char copy[64];
    setup->has_driver = setup->has_pool = !beside_option;
    setup->torch_plugin = beside_option ? NULL : torch_option;
    if (!beside_option)
        return 0;
    if (strlen(beside_option) >= sizeof(copy))
        return cli_usage_error(&syntax, "--beside: the list is too long");
    snprintf(copy, sizeof(copy), "%s", beside_option);
    char *rest = copy;
    for (char *part = strsep(&rest, ","); part; part = strsep(&rest, ",")) {
        if (strcmp(part, "driver") == 0)
            setup->has_driver = setup->has_pool = 1;
        else if (strcmp(part, "torch") == 0 && torch_option)
            setup->torch_plugin = torch_option;
        else if (strcmp(part, "torch") == 0)
            return cli_usage_error(&syntax, "--beside torch: needs --torch PLUGIN.so");
        else if (strcmp(beside_option, "none") != 0)
            return cli_usage_error(
                &syntax, "--beside: \"%s\" is neither driver nor torch, nor none alone", part);
    }
    return 0;
}

/* Everything that can be said about the options without a device. */
static int options_check(bench_setup *setup, long *device, long *budget_ms)
{
    long rounds = is_quick ? 3 : 15, live = 0;
    if (session_texts.device &&
        cli_number(&syntax, "device", session_texts.device, 0, 1023, device) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (rounds_option &&
        cli_number(&syntax, "rounds", rounds_option, 1, BENCH_ROUNDS_MAX, &rounds) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (budget_option &&
        cli_number(&syntax, "budget-ms", budget_option, 1, 100000000, budget_ms) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (live_option && cli_number(&syntax, "live", live_option, 1, 10000000, &live) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (only_option && only_check(setup) != 0)
        return EXIT_CODE_BAD_INPUT;
    setup->rounds = (int)rounds;
    setup->is_quick = is_quick;
    setup->mix_live = (size_t)live;
    if (beside_choose(setup) != 0)
        return EXIT_CODE_BAD_INPUT;
    return threads_option ? threads_parse(setup, threads_option) : 0;
}

/* ---- the run -------------------------------------------------------------------------------- */

/* Adds what was measured to the worst of what was seen. */
static exit_code row_judge(const bench_setup *setup, const bench_row *row)
{
    if (!bench_checksums_agree(setup, row)) {
        fprintf(stderr, "tenure bench: the allocators did different work (%s, %zu B, %d threads)\n",
                row->bench, row->bytes, row->threads);
        return EXIT_CODE_CHECK_FAILED;
    }
    if (row->cells[0].failed) {
        fprintf(stderr, "tenure bench: Tenure failed (%s): %s\n", row->bench, row->cells[0].error);
        return EXIT_CODE_NO_MEMORY;
    }
    return EXIT_CODE_OK;
}

/* Writes the CSV, if one was asked for. */
static exit_code csv_write(const bench_setup *setup, const bench_rows *out, const char *command)
{
    if (!csv_option || bench_csv(setup, out->rows, out->count, command, csv_option) == 0)
        return EXIT_CODE_OK;
    fprintf(stderr, "tenure bench: %s cannot be written: %s\n", csv_option, strerror(errno));
    return EXIT_CODE_BAD_INPUT;
}

/* 1, having said so, if a section is not to be run. */
static int section_is_left_out(const bench_setup *setup, const bench_section *section,
                               uint64_t began, long budget_ms)
{
    if (section->run == bench_replay_run && setup->traces_count == 0) {
        if (only_option)
            fputs("tenure bench: replay left out: no TRACE was given\n", stderr);
        return 1;
    }
    if (budget_ms == 0 || clock_now_ns() - began < (uint64_t)budget_ms * UINT64_C(1000000))
        return 0;
    fprintf(stderr, "tenure bench: %s left out: the %ld ms of --budget-ms are over\n",
            section->name, budget_ms);
    return 1;
}

/* How many seconds a section will take, by what such rows have taken on a GPU. */
static double section_predict(const bench_setup *setup, const bench_section *section)
{
    const bench_cost *cost = &section->cost;
    double rows = cost->rows + cost->rows_per_threads * (double)setup->threads_count +
                  cost->rows_per_trace * setup->traces_count;
    double row_s = cost->tenure_s;
    row_s += setup->has_pool ? cost->driver_s : 0;
    row_s += setup->torch_plugin ? cost->torch_s : 0;
    return rows * row_s;
}

/* Says how long the sections will take, and all of them. A quick run has no rounds to speak of. */
static void sections_predict(const bench_setup *setup)
{
    double sum_s = 0;
    if (setup->is_quick)
        return;
    for (size_t i = 0; i < sections_count(setup); i++) {
        const bench_section *section = section_at(setup, i);
        if (!section_is_wanted(section))
            continue;
        double one_s = section_predict(setup, section);
        sum_s += one_s;
        fprintf(stderr, "predicted %-9s %5.0f s\n", section->name, one_s);
    }
    fprintf(stderr, "predicted in all    %5.0f s\n", sum_s);
}

/* Measures all sections, and says how long each took. */
static exit_code sections_run(const bench_setup *setup, bench_rows *out, const char *command,
                              long budget_ms)
{
    exit_code worst = EXIT_CODE_OK;
    uint64_t began = clock_now_ns();
    progress bar;
    sections_predict(setup);
    progress_start(&bar, "bench", sections_count(setup), wants_progress);
    for (size_t i = 0; i < sections_count(setup); i++) {
        const bench_section *section = section_at(setup, i);
        uint64_t before = clock_now_ns();
        if (!section_is_wanted(section) || section_is_left_out(setup, section, began, budget_ms))
            continue;
        exit_code code = section->run(setup, out);
        if (code != EXIT_CODE_OK) {
            if (code == EXIT_CODE_NO_MEMORY)
                fputs("tenure bench: no host memory\n", stderr);
            return code;
        }
        code = csv_write(setup, out, command);
        if (code != EXIT_CODE_OK)
            return code;
        progress_update(&bar, i + 1);
        fprintf(stderr, "section %-9s %6.1f s\n", section->name,
                (double)(clock_now_ns() - before) / 1e9);
    }
    progress_end(&bar);
    fprintf(stderr, "all sections      %6.1f s\n", (double)(clock_now_ns() - began) / 1e9);
    for (size_t i = 0; i < out->count; i++) {
        exit_code code = row_judge(setup, &out->rows[i]);
        worst = worst == EXIT_CODE_OK ? code : worst;
    }
    return worst;
}

static exit_code device_run(bench_setup *setup, bench_rows *out, const char *command,
                            long budget_ms)
{
    char text[2 * PATH_MAX + 1024];
    session *active = setup->active;
    fprintf(is_json ? stderr : stdout, "tenure bench on %s\n",
            session_describe(active, text, sizeof(text)));
    if (setup->threads_count == 0)
        threads_choose(setup);
    /* The simulated driver's pool is a stand-in whose speed means nothing: only if asked for. */
    if (active->simulated && !beside_option)
        setup->has_pool = 0;
    setup->clock_ns = clock_overhead_ns();
    if (bench_allocators_open(setup, setup->torch_plugin, text, sizeof(text)) != 0) {
        fprintf(stderr, "tenure bench: %s\n", text);
        return EXIT_CODE_BAD_INPUT;
    }
    exit_code code =
        session_streams_create(active, setup->streams, BENCH_THREADS_MAX, text, sizeof(text));
    if (code != EXIT_CODE_OK) {
        fprintf(stderr, "tenure bench: %s\n", text);
        return code;
    }
    code = sections_run(setup, out, command, budget_ms);
    for (size_t i = 0; is_json && i < out->count; i++)
        bench_json(setup, &out->rows[i], stdout);
    if (!is_json)
        bench_tables(setup, out->rows, out->count, stdout);
    if (tnr_shutdown(1) != TNR_OK) {
        fprintf(stderr, "tenure bench: %s\n", tnr_last_error());
        code = code == EXIT_CODE_OK ? EXIT_CODE_CHECK_FAILED : code;
    }
    session_streams_destroy(active, setup->streams, BENCH_THREADS_MAX);
    return code;
}

static int sections_list(const bench_setup *setup)
{
    for (size_t i = 0; i < sections_count(setup); i++)
        printf("%-9s %s\n", section_at(setup, i)->name, section_at(setup, i)->text);
    return EXIT_CODE_OK;
}

int bench_main(const bench_program *program, int argc, char **argv)
{
    char command[1024];
    char error[2 * PATH_MAX + 1024];
    cli_result arguments;
    bench_setup setup;
    session active;
    long device = 0, budget_ms = 0;
    memset(&setup, 0, sizeof(setup));
    setup.program = program;
    const char *cold_child = argc >= 2 && strcmp(argv[0], BENCH_COLD_CHILD) == 0 ? argv[1] : NULL;
    if (cold_child) {
        argc -= 2;
        argv += 2;
    }
    cli_command_text(program->name, argc, argv, command, sizeof(command));
    if (cli_parse(&syntax, argc, argv, &arguments) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (arguments.help_wanted)
        return EXIT_CODE_OK;
    if (is_list)
        return sections_list(&setup);
    if (options_check(&setup, &device, &budget_ms) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (cold_child)
        return bench_cold_child(session_texts.driver, (int)device, cold_child, torch_option);
    setup.traces = arguments.positionals;
    setup.traces_count = arguments.positionals_count;
    for (int i = 0; i < setup.traces_count; i++)
        if (cli_spares_input(&syntax, csv_option, setup.traces[i]) != 0)
            return EXIT_CODE_BAD_INPUT;
    bench_rows out = {.rows = calloc(BENCH_ROWS_MAX, sizeof(*out.rows))};
    if (!out.rows) {
        fputs("tenure bench: no host memory\n", stderr);
        return EXIT_CODE_NO_MEMORY;
    }
    setup.active = &active;
    exit_code code = session_open(&active, &session_texts, (int)device, error, sizeof(error));
    if (code != EXIT_CODE_OK) {
        fprintf(stderr, "tenure bench: %s\n", error);
    } else {
        code = device_run(&setup, &out, command, budget_ms);
        session_close(&active);
    }
    free(out.rows);
    return code;
}

int command_bench(int argc, char **argv)
{
    static const bench_program program = {.name = "tenure bench"};
    return bench_main(&program, argc, argv);
}
