/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure replay`: the command line. All traces are read and validated before a device is touched;
 * then each is run on a library that has just been started.
 */
#include "replay.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "commands.h"
#include "pace.h"
#include "shown.h"

static session_options session_texts;
static const char *check_option, *loops_option, *speed_option, *snapshot_option,
    *snapshot_at_option, *reports_option;
static int is_json, is_paced, wants_progress;

static const cli_option options[] = {
    {"driver", "NAME", OPTION_DRIVER_HELP, &session_texts.driver, NULL},
    {"device", "N", OPTION_DEVICE_HELP, &session_texts.device, NULL},
    {"conf", "STR", OPTION_CONF_HELP, &session_texts.settings, NULL},
    {"check", "EXTENT",
     "how much of each block holds a pattern: full (every byte;\n"
     "default on a GPU), ends (both ends and around each 2 MiB\n"
     "border; default on the simulated device), none",
     &check_option, NULL},
    {"loops", "N",
     "run the operations N times, one after the other (default 1), and\n"
     "show what each pass did to the memory",
     &loops_option, NULL},
    {"paced", NULL,
     "each operation at its time: the simulated device plays the time, a\n"
     "GPU is waited for, at most 10 s at once. Without it, time stands\n"
     "still on the simulated device",
     NULL, &is_paced},
    {"speed", "N", "with --paced, N times as fast as recorded (default 1)", &speed_option, NULL},
    {"snapshot", "PATH",
     "record the history, and write a snapshot to PATH when the trace\n"
     "ends, before what it leaves live is freed; %s in PATH stands\n"
     "for the name of the trace",
     &snapshot_option, NULL},
    {"snapshot-at", "WHEN", "take it at the end (default) or at the peak of live memory",
     &snapshot_at_option, NULL},
    {"reports", "DIR",
     "write to DIR a snapshot of each trace at its peak, the report of\neach, and index.html, "
     "which "
     "compares them and leads to them",
     &reports_option, NULL},
    {"progress", NULL, "lines of progress where stderr is not a terminal", NULL, &wants_progress},
    {"json", NULL, "one object per trace, one per line, on stdout", NULL, &is_json},
    {NULL, NULL, NULL, NULL, NULL},
};

static const cli_syntax syntax = {
    "replay",
    "run recorded allocation traces and check the memory",
    "[options] TRACE...",
    "A trace is text, plain or gzip, with lines op,id,bytes,stream,us: `a` allocates, `F` frees,\n"
    "`f` (the recorder saw the free complete) is skipped, and `#` starts a comment. The first\n"
    "line may be those names. \"-\" is standard input, once.\n"
    "\n"
    "Every block is filled with a pattern after its allocation and checked before its free, as\n"
    "work on its stream. At the end all is freed, the library's structures are validated and\n"
    "leaks are looked for.\n"
    "\n"
    "Examples:\n"
    "  tenure replay --driver sim tests/traces/gpt2_train.csv.gz\n"
    "  tenure replay --json trace.csv.gz\n"
    "\n"
    "Exit codes: 0 success; 1 a pattern was wrong, something leaked or is inconsistent;\n"
    "2 a trace or an option is bad; 3 no driver or device; 4 out of memory.\n",
    options,
    1,
    INT_MAX,
};

static int settings_parse(replay_settings *settings, int simulated)
{
    settings->loops = 1;
    settings->progress_lines = wants_progress;
    settings->snapshot = snapshot_option;
    settings->reports = reports_option;
    settings->is_at_peak =
        reports_option || (snapshot_at_option && strcmp(snapshot_at_option, "peak") == 0);
    if (reports_option && (snapshot_option || snapshot_at_option))
        return cli_usage_error(&syntax, "--reports writes the snapshots itself: take away "
                                        "--snapshot and --snapshot-at, or run twice");
    if (snapshot_at_option && !settings->is_at_peak && strcmp(snapshot_at_option, "end") != 0)
        return cli_usage_error(&syntax, "--snapshot-at must be end or peak, not \"%s\"",
                               snapshot_at_option);
    if (snapshot_at_option && !snapshot_option)
        return cli_usage_error(&syntax, "--snapshot-at needs --snapshot PATH");
    settings->extent = simulated ? PATTERN_ENDS : PATTERN_FULL;
    if (check_option && strcmp(check_option, "full") == 0)
        settings->extent = PATTERN_FULL;
    else if (check_option && strcmp(check_option, "ends") == 0)
        settings->extent = PATTERN_ENDS;
    else if (check_option && strcmp(check_option, "none") == 0)
        settings->extent = PATTERN_NONE;
    else if (check_option)
        return cli_usage_error(&syntax, "--check must be full, ends or none, not \"%s\"",
                               check_option);
    if (loops_option &&
        cli_number(&syntax, "loops", loops_option, 1, 1000000, &settings->loops) != 0)
        return EXIT_CODE_BAD_INPUT;
    settings->speed = is_paced;
    if (speed_option && !is_paced)
        return cli_usage_error(&syntax, "--speed needs --paced");
    if (speed_option &&
        cli_number(&syntax, "speed", speed_option, 1, PACE_SPEED_MAX, &settings->speed) != 0)
        return EXIT_CODE_BAD_INPUT;
    return EXIT_CODE_OK;
}

/* What the user typed, for the reports. Written once, before anything else. */
static char command_line[4096];

/* Standard input can be read once; a snapshot must not take the place of a trace. */
static int paths_check(char **paths, size_t count)
{
    size_t inputs = 0;
    for (size_t i = 0; i < count; i++) {
        inputs += strcmp(paths[i], "-") == 0;
        if (cli_spares_input(&syntax, snapshot_option, paths[i]) != 0)
            return -1;
    }
    return inputs > 1 ? cli_usage_error(&syntax, "\"-\", standard input, can be read once") : 0;
}

/* The files of a report are named by its trace. */
static exit_code reports_prepare(const trace *traces, int count)
{
    char error[PATH_MAX + 256];
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(traces[i].name, traces[k].name) == 0)
                return cli_usage_error(&syntax,
                                       "two traces are called %s, and so would be their "
                                       "reports: name one of them again",
                                       traces[i].name);
    if (replay_pages_folder(reports_option, error, sizeof(error)) == 0)
        return EXIT_CODE_OK;
    say(stderr, "tenure replay: %s\n", error);
    return EXIT_CODE_CHECK_FAILED;
}

/* Reads all traces, so that a mistake in the last one costs no run of the first. */
static exit_code traces_read(trace *traces, char **paths, int count,
                             const replay_settings *settings)
{
    char error[PATH_MAX + 512];
    for (int i = 0; i < count; i++) {
        if (trace_read(&traces[i], paths[i], error, sizeof(error)) != 0 ||
            (settings->speed > 0 &&
             pace_check(&traces[i], settings->loops, (uint64_t)settings->speed, error,
                        sizeof(error)) != 0)) {
            say(stderr, "tenure replay: %s\n", error);
            return EXIT_CODE_BAD_INPUT;
        }
    }
    return EXIT_CODE_OK;
}

/* Says what is odd about the times of a trace that is paced. */
static void pace_note_print(const session *active, const trace *source,
                            const replay_settings *settings)
{
    char text[1024];
    if (settings->speed > 0 && *pace_note(source, (uint64_t)settings->speed, !active->simulated,
                                          text, sizeof(text)) != '\0')
        fprintf(stderr, "%s\n", text);
}

/* Runs the traces on an open session. Returns the first exit code that is not 0. */
static exit_code traces_run(session *active, const trace *traces, int count,
                            const replay_settings *settings, replay_result *results)
{
    char error[2048];
    exit_code worst = replay_self_test(active, settings, error, sizeof(error));
    if (worst == EXIT_CODE_OK && settings->extent != PATTERN_NONE)
        worst = session_restart(active, error, sizeof(error));
    if (worst != EXIT_CODE_OK) {
        say(stderr, "tenure replay: %s\n", error);
        return worst;
    }
    for (int i = 0; i < count; i++) {
        exit_code code = i == 0 ? EXIT_CODE_OK : session_restart(active, error, sizeof(error));
        if (code != EXIT_CODE_OK) {
            say(stderr, "tenure replay: %s\n", error);
            return code;
        }
        pace_note_print(active, &traces[i], settings);
        replay_run(active, &traces[i], settings, &results[i]);
        if (is_json) {
            replay_json(&results[i], active, command_line, stdout);
            fflush(stdout);
        }
        if (results[i].code != EXIT_CODE_OK) {
            fprintf(stderr, "tenure replay: %s: %s\n", traces[i].name, results[i].error);
            worst = worst == EXIT_CODE_OK ? results[i].code : worst;
        }
    }
    if (!is_json)
        replay_tables(results, (size_t)count, stdout);
    return worst;
}

/* Everything after the traces have been read. */
static exit_code device_run(const trace *traces, int count, long device, replay_result *results)
{
    session active;
    char text[2 * PATH_MAX + 1024];
    replay_settings settings;
    exit_code code = session_open(&active, &session_texts, (int)device, text, sizeof(text));
    if (code != EXIT_CODE_OK) {
        fprintf(stderr, "tenure replay: %s\n", text);
        return code;
    }
    code = (exit_code)settings_parse(&settings, active.simulated);
    if (code == EXIT_CODE_OK) {
        fprintf(is_json ? stderr : stdout, "tenure replay on %s\n",
                session_describe(&active, text, sizeof(text)));
        fflush(stdout);
        code = traces_run(&active, traces, count, &settings, results);
    }
    session_close(&active);
    return code;
}

int command_replay(int argc, char **argv)
{
    cli_command_text("tenure replay", argc, argv, command_line, sizeof(command_line));
    cli_result arguments;
    replay_settings first; /* the extent of checking depends on the device */
    long device = 0;
    if (cli_parse(&syntax, argc, argv, &arguments) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (arguments.help_wanted)
        return EXIT_CODE_OK;
    if (session_texts.device &&
        cli_number(&syntax, "device", session_texts.device, 0, 1023, &device) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (settings_parse(&first, 0) != EXIT_CODE_OK)
        return EXIT_CODE_BAD_INPUT;
    size_t count = (size_t)arguments.positionals_count;
    if (snapshot_option && count > 1 && !strstr(snapshot_option, "%s"))
        return cli_usage_error(&syntax, "with several traces --snapshot needs %%s in its path, for "
                                        "the name of the trace");
    if (paths_check(arguments.positionals, count) != 0)
        return EXIT_CODE_BAD_INPUT;
    trace *traces = calloc(count, sizeof(*traces));
    replay_result *results = calloc(count, sizeof(*results));
    int code = EXIT_CODE_NO_MEMORY;
    if (!traces || !results) {
        fputs("tenure replay: no host memory\n", stderr);
    } else {
        code = traces_read(traces, arguments.positionals, (int)count, &first);
        if (code == EXIT_CODE_OK && reports_option)
            code = reports_prepare(traces, (int)count);
        if (code == EXIT_CODE_OK) {
            code = device_run(traces, (int)count, device, results);
            exit_code pages =
                reports_option ? replay_pages(results, count, reports_option) : EXIT_CODE_OK;
            code = code == EXIT_CODE_OK ? (int)pages : code;
        }
    }
    for (size_t i = 0; traces && i < count; i++)
        trace_release(&traces[i]);
    for (size_t i = 0; results && i < count; i++)
        replay_release(&results[i]);
    free(traces);
    free(results);
    return code;
}
