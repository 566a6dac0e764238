/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure bench`: the command line, and which configurations are measured.
 */
#include "bench.h"
#include "bench_uses.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "commands.h"
#include "progress.h"

static session_options session_texts;
static const char *torch_option, *threads_option, *only_option, *csv_option, *rounds_option;
static int is_json, is_quick, wants_progress;

static const cli_option options[] = {
    {"driver", "NAME", OPTION_DRIVER_HELP, &session_texts.driver, NULL},
    {"device", "N", OPTION_DEVICE_HELP, &session_texts.device, NULL},
    {"conf", "STR", OPTION_CONF_HELP, &session_texts.settings, NULL},
    {"only", "NAME", "pair (cached pairs), mix (the random mix) or uses", &only_option, NULL},
    {"threads", "LIST",
     "thread counts of the random mix (default 1,2,4,8,16;\n"
     "1,2,4 on the simulated device)",
     &threads_option, NULL},
    {"rounds", "N", "rounds per configuration (default 15; at most 7 of the mix)", &rounds_option,
     NULL},
    {"quick", NULL, "fewer and shorter rounds, to see that it works", NULL, &is_quick},
    {"torch", "PLUGIN.so",
     "also time PyTorch's allocator, through the plugin that\n"
     "tests/gpu/build_torch_plugin.sh builds",
     &torch_option, NULL},
    {"csv", "FILE", "write the numbers to FILE", &csv_option, NULL},
    {"progress", NULL, "lines of progress where stderr is no terminal", NULL, &wants_progress},
    {"json", NULL, "one object per allocator and configuration on stdout", NULL, &is_json},
    {NULL, NULL, NULL, NULL, NULL},
};

static const cli_syntax syntax = {
    "bench",
    "time allocation beside the driver's pool and PyTorch",
    "[options]",
    "pair: one allocation and its free, cached, of 512 B, 4 KiB, 64 KiB, 1 MiB and 16 MiB.\n"
    "mix:  2,000 live blocks per thread, sizes uniform from 512 B to 8 MiB, each thread on its\n"
    "      own stream; one operation is one free and one allocation.\n"
    "uses: blocks that a second stream uses: tnr_record_use beside a bare cuEventRecord, with\n"
    "      allocation and free, tnr_record_stream, and a pair while 1,024 blocks are waiting.\n"
    "\n"
    "Beside Tenure on a GPU: cuMemAllocAsync with cuMemFreeAsync (its pool told to keep memory),\n"
    "and PyTorch's allocator with --torch. The simulated device has neither, and its numbers are\n"
    "not for quoting.\n"
    "\n"
    "Exit codes: 0 done; 1 allocators did different work; 2 bad options; 3 no driver or device;\n"
    "4 Tenure ran out of memory.\n",
    options,
    0,
    0,
};

static const size_t pair_bytes[] = {512, 4096, 64 << 10, 1 << 20, 16 << 20};
enum { PAIRS_COUNT = sizeof(pair_bytes) / sizeof(pair_bytes[0]) };

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

/* Everything that can be said about the options without a device. */
static int options_check(bench_setup *setup, long *device)
{
    long rounds = is_quick ? 3 : 15;
    if (session_texts.device &&
        cli_number(&syntax, "device", session_texts.device, 0, 1023, device) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (rounds_option &&
        cli_number(&syntax, "rounds", rounds_option, 1, BENCH_ROUNDS_MAX, &rounds) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (only_option && strcmp(only_option, "pair") != 0 && strcmp(only_option, "mix") != 0 &&
        strcmp(only_option, "uses") != 0)
        return cli_usage_error(&syntax, "--only must be pair, mix or uses, not \"%s\"",
                               only_option);
    setup->rounds = (int)rounds;
    setup->is_quick = is_quick;
    return threads_option ? threads_parse(setup, threads_option) : 0;
}

/* Adds what was measured to the worst of what was seen. */
static exit_code row_judge(const bench_setup *setup, const bench_row *row)
{
    if (!bench_checksums_agree(setup, row)) {
        fprintf(stderr, "tenure bench: the allocators did different work (%s, %zu B, %d threads)\n",
                row->bench, row->bytes, row->threads);
        return EXIT_CODE_CHECK_FAILED;
    }
    if (row->cells[0].failed) {
        fprintf(stderr, "tenure bench: Tenure failed: %s\n", row->cells[0].error);
        return EXIT_CODE_NO_MEMORY;
    }
    return EXIT_CODE_OK;
}

/* Says when a device is too small for the blocks that the mix is meant to have. */
static void scaling_note(const bench_setup *setup, const bench_row *row)
{
    const char *where =
        setup->active->simulated ? "16 GiB of the simulated device" : "90 % of the device's memory";
    if (row->live < 2000 && !setup->is_quick)
        fprintf(stderr, "tenure bench: with %d thread%s %zu live blocks each, not 2,000: %s\n",
                row->threads, row->threads == 1 ? "" : "s", row->live, where);
}

/* Measures all configurations. *count is set to how many rows were filled. */
static exit_code rows_run(const bench_setup *setup, bench_row *rows, size_t *count)
{
    int pairs = !only_option || strcmp(only_option, "pair") == 0;
    int mixes = !only_option || strcmp(only_option, "mix") == 0;
    int uses = !only_option || strcmp(only_option, "uses") == 0;
    exit_code worst = EXIT_CODE_OK;
    progress bar;
    *count = 0;
    progress_start(&bar, "bench",
                   (pairs ? PAIRS_COUNT : 0) + (uses ? BENCH_USES_ROWS : 0) +
                       (mixes ? setup->threads_count : 0),
                   wants_progress);
    for (size_t i = 0; pairs && i < PAIRS_COUNT; i++) {
        bench_pair_run(setup, pair_bytes[i], &rows[(*count)++]);
        progress_update(&bar, *count);
    }
    if (uses) {
        bench_uses_run(setup, bench_allocators_torch_uses(), &rows[*count]);
        *count += BENCH_USES_ROWS;
        progress_update(&bar, *count);
    }
    for (size_t i = 0; mixes && i < setup->threads_count; i++) {
        exit_code code = bench_mix_run(setup, setup->threads[i], &rows[*count]);
        if (code != EXIT_CODE_OK) {
            fputs("tenure bench: no host memory\n", stderr);
            return code;
        }
        scaling_note(setup, &rows[(*count)++]);
        progress_update(&bar, *count);
    }
    progress_end(&bar);
    for (size_t i = 0; i < *count; i++) {
        exit_code code = row_judge(setup, &rows[i]);
        worst = worst == EXIT_CODE_OK ? code : worst;
    }
    return worst;
}

/* Writes the reports that were asked for. */
static exit_code rows_report(const bench_setup *setup, const bench_row *rows, size_t count,
                             const char *command)
{
    for (size_t i = 0; is_json && i < count; i++)
        bench_json(setup, &rows[i], stdout);
    if (!is_json)
        bench_tables(setup, rows, count, stdout);
    if (csv_option && bench_csv(setup, rows, count, command, csv_option) != 0) {
        fprintf(stderr, "tenure bench: %s cannot be written: %s\n", csv_option, strerror(errno));
        return EXIT_CODE_BAD_INPUT;
    }
    return EXIT_CODE_OK;
}

static exit_code device_run(bench_setup *setup, bench_row *rows, const char *command)
{
    static const char simulated_threads[] = "1,2,4", gpu_threads[] = "1,2,4,8,16";
    char text[2 * PATH_MAX + 1024];
    size_t count = 0;
    session *active = setup->active;
    fprintf(is_json ? stderr : stdout, "tenure bench on %s\n",
            session_describe(active, text, sizeof(text)));
    if (setup->threads_count == 0 &&
        threads_parse(setup, active->simulated ? simulated_threads : gpu_threads) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (bench_allocators_open(setup, torch_option, text, sizeof(text)) != 0) {
        fprintf(stderr, "tenure bench: %s\n", text);
        return EXIT_CODE_BAD_INPUT;
    }
    exit_code code =
        session_streams_create(active, setup->streams, BENCH_THREADS_MAX, text, sizeof(text));
    if (code != EXIT_CODE_OK) {
        fprintf(stderr, "tenure bench: %s\n", text);
        return code;
    }
    code = rows_run(setup, rows, &count);
    exit_code reported = rows_report(setup, rows, count, command);
    if (tnr_shutdown(1) != TNR_OK) {
        fprintf(stderr, "tenure bench: %s\n", tnr_last_error());
        reported = EXIT_CODE_CHECK_FAILED;
    }
    session_streams_destroy(active, setup->streams, BENCH_THREADS_MAX);
    return code == EXIT_CODE_OK ? reported : code;
}

int command_bench(int argc, char **argv)
{
    char command[1024];
    char error[2 * PATH_MAX + 1024];
    cli_result arguments;
    bench_setup setup;
    session active;
    long device = 0;
    memset(&setup, 0, sizeof(setup));
    cli_command_text("bench", argc, argv, command, sizeof(command));
    if (cli_parse(&syntax, argc, argv, &arguments) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (arguments.help_wanted)
        return EXIT_CODE_OK;
    if (options_check(&setup, &device) != 0)
        return EXIT_CODE_BAD_INPUT;
    bench_row *rows = calloc(BENCH_ROWS_MAX, sizeof(*rows));
    if (!rows) {
        fputs("tenure bench: no host memory\n", stderr);
        return EXIT_CODE_NO_MEMORY;
    }
    setup.active = &active;
    exit_code code = session_open(&active, &session_texts, (int)device, error, sizeof(error));
    if (code != EXIT_CODE_OK) {
        fprintf(stderr, "tenure bench: %s\n", error);
    } else {
        code = device_run(&setup, rows, command);
        session_close(&active);
    }
    free(rows);
    return code;
}
