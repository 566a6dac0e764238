/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure fuzz`: random programs on the simulated device, checked by its race detector and a model;
 * see tools/fuzz. This is the command line.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/plural.h"
#include "cli.h"
#include "commands.h"
#include "exit_code.h"
#include "fuzz_report.h"
#include "progress.h"
#include "session.h"
#include "shown.h"
#include "shrink.h"

static const char *driver, *stall, *seeds, *seconds, *jobs, *ops, *replay, *out, *shrink_seconds;
static const char *traps;
static int illegal, no_shrink, no_faults, no_graphs, no_sleep, parks, odd, hosts, ranges,
    keep_going, is_json, is_verbose, progress_wanted, print_program, is_strict, gates_wanted, spin;

static const cli_option options[] = {
    {"seeds", "A..B",
     "programs to run: one for each seed (default 1..100); A for one,\n"
     "A.. without an end, with --time",
     &seeds, NULL},
    {"time", "SECONDS", "stop after so long", &seconds, NULL},
    {"jobs", "N", "programs at a time (default: as many as there are processors; with --gates 1)",
     &jobs, NULL},
    {"ops", "N", "operations in a program (default 20000)", &ops, NULL},
    {"illegal", NULL, "plant exactly one error in each program, and see it caught", NULL, &illegal},
    {"replay", "FILE", "run the program in a file, and nothing else", &replay, NULL},
    {"print", NULL, "with --replay or one seed: the program as it was run, on stdout", NULL,
     &print_program},
    {"strict", NULL, "with --replay: it is an error if an operation is skipped", NULL, &is_strict},
    {"verbose", NULL, "with --replay: every operation, and why one was skipped", NULL, &is_verbose},
    {"out", "DIR", "where the program that failed is written (default .)", &out, NULL},
    {"no-shrink", NULL, "write it as it is", NULL, &no_shrink},
    {"shrink-time", "SECONDS", "how long to look for a shorter one (default 60)", &shrink_seconds,
     NULL},
    {"keep-going", NULL, "run all seeds, whatever fails; report the first", NULL, &keep_going},
    {"no-faults", NULL, "make no driver call fail", NULL, &no_faults},
    {"no-graphs", NULL, "capture nothing", NULL, &no_graphs},
    {"traps", "SETTINGS",
     "settings that each program gets besides, of which it must not notice\n"
     "anything: guard:on, poison:on, canary:on and what limits them",
     &traps, NULL},
    {"no-sleep", NULL, "put no pool to sleep", NULL, &no_sleep},
    {"park", NULL, "park blocks too: other programs of the same seeds", NULL, &parks},
    {"odd", NULL,
     "captures that end without a graph, captures of other threads, frees in host\n"
     "functions, pools that end in a miss, graphs that reach the memory of another\n"
     "device: other programs of the same seeds",
     NULL, &odd},
    {"host", NULL, "pinned host memory too: other programs of the same seeds", NULL, &hosts},
    {"ranges", NULL,
     "ranges too, whose pages get memory and lose it: other programs of the same\n"
     "seeds",
     NULL, &ranges},
    {"driver", "WHAT",
     "sim (the default), cuda: a GPU, with --gates in any case, or the path of a\n"
     "driver's library",
     &driver, NULL},
    {"gates", NULL,
     "hold streams until the host lets each operation run, and check contents: what\n"
     "is done on a GPU, and can be done on any other driver",
     NULL, &gates_wanted},
    {"spin", NULL, "with --gates: hold them by kernels, not by stream memory operations", NULL,
     &spin},
    {"stall", "SECONDS", "with --gates: a call that takes longer has failed (default 20)", &stall,
     NULL},
    {"progress", NULL, "lines of progress where stderr is not a terminal", NULL, &progress_wanted},
    {"json", NULL, OPTION_JSON_HELP, NULL, &is_json},
    {NULL, NULL, NULL, NULL, NULL},
};

static const cli_syntax syntax = {
    "fuzz",
    "random programs on the simulated device or a GPU, checked",
    "[options]",
    "Each program is drawn from its seed: devices, settings, operations, schedule and failures. "
    "It\n"
    "is legal, so whatever goes wrong is the library's. A program that fails is shrunk and "
    "written\n"
    "to a file that --replay takes. See docs/fuzzing.md.\n\n"
    "Examples:\n"
    "  tenure fuzz --time 60\n"
    "  tenure fuzz --seeds 7 --print\n"
    "\n"
    "Exit codes: 0 nothing was found; 2 bad usage; 10 safety: something happened that must not;\n"
    "11 liveness: something that had to come did not; 12 a crash; 13 --illegal: an error was "
    "missed.\n",
    options,
    0,
    0,
};

/* ---- the command line ----------------------------------------------------------------------- */

/* "A..B", "A" or "A..". */
static int seeds_parse(fuzz_campaign_options *result)
{
    char *end;
    errno = 0;
    result->seed_first = strtoull(seeds, &end, 10);
    result->seed_last = result->seed_first;
    int good = errno == 0 && end != seeds && *seeds != '-';
    if (good && strncmp(end, "..", 2) == 0) {
        const char *last = end + 2;
        result->seed_last = *last == '\0' ? UINT64_MAX : strtoull(last, &end, 10);
        good = errno == 0 && *last != '-' && (*last == '\0' || (end != last && *end == '\0'));
    } else {
        good = good && *end == '\0';
    }
    if (good && result->seed_first <= result->seed_last &&
        (result->seed_last != UINT64_MAX || result->seconds_max > 0))
        return 0;
    (void)cli_usage_error(&syntax, "--seeds must be A..B, A, or with --time A.., not \"%s\"",
                          seeds);
    return -1;
}

static int number_parse(const char *option, const char *text, long otherwise, long max, long *value)
{
    *value = otherwise;
    return text == NULL ? 0 : cli_number(&syntax, option, text, 1, max, value);
}

static int options_parse(fuzz_campaign_options *result)
{
    long number;
    memset(result, 0, sizeof(*result));
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    processors = processors < 1 ? 1 : processors > FUZZ_JOBS_MAX ? FUZZ_JOBS_MAX : processors;
    if (number_parse("time", seconds, 0, 10000000, &number) != 0)
        return -1;
    result->seconds_max = (unsigned)number;
    if (number_parse("jobs", jobs, processors, FUZZ_JOBS_MAX, &number) != 0)
        return -1;
    result->jobs = (int)number;
    if (number_parse("ops", ops, 20000, 10000000, &number) != 0)
        return -1;
    result->limits.ops = (uint64_t)number;
    result->program_seconds_max = 60 + (unsigned)(number / 5000);
    result->limits.illegal = illegal;
    result->limits.no_faults = no_faults;
    result->limits.no_graphs = no_graphs;
    result->limits.no_sleep = no_sleep;
    result->limits.parks = parks;
    result->limits.odd = odd;
    result->limits.hosts = hosts;
    result->limits.ranges = ranges;
    result->limits.traps = traps;
    result->keep_going = keep_going;
    if (seeds == NULL)
        seeds = result->seconds_max > 0 ? "1.." : "1..100";
    return seeds_parse(result);
}

/* Opens the driver: the simulated device for its detector, any other for gates. It is initialised
 * in the processes that run programs and never in this one, which could not fork any more. */
static exit_code device_open(fuzz_device *device, gate_device_facts *facts)
{
    static session_choice choice;
    char error[1024];
    long seconds_max;
    int is_cuda = driver != NULL && strcmp(driver, "cuda") == 0;
    if (driver != NULL && !is_cuda && strchr(driver, '/') == NULL && strcmp(driver, "sim") != 0)
        return (exit_code)cli_usage_error(
            &syntax, "--driver must be sim, cuda or a path, not \"%s\"", driver);
    gates_wanted |= is_cuda;
    if (!gates_wanted && (spin || stall != NULL))
        return (exit_code)cli_usage_error(&syntax, "--spin and --stall are for --gates");
    if (number_parse("stall", stall, 20, 100000, &seconds_max) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (session_choose(&choice, driver != NULL ? driver : "sim", error, sizeof(error)) !=
        EXIT_CODE_OK) {
        fprintf(stderr, "tenure fuzz: %s\n", error);
        return EXIT_CODE_BAD_INPUT;
    }
    const char *path = is_cuda                             ? "libcuda.so.1"
                       : strcmp(choice.driver, "sim") == 0 ? "libtenure_simcuda.so"
                                                           : choice.driver;
    if (!gates_wanted && fuzz_device_open(device, path, error, sizeof(error)) == 0)
        return EXIT_CODE_OK;
    if (gates_wanted && gate_device_open(device, path, error, sizeof(error)) == 0) {
        device->spins = spin;
        device->stall_seconds = (unsigned)seconds_max;
        if (gate_device_ask(device, facts) == 0)
            return EXIT_CODE_OK;
        snprintf(error, sizeof(error), "%s", facts->error);
    }
    fprintf(stderr, "tenure fuzz: %s\n%s", error,
            is_cuda ? "Run `tenure doctor` for what is missing, or leave out --driver.\n" : "");
    return EXIT_CODE_NO_DEVICE;
}

static exit_code exit_code_of_verdict(fuzz_verdict verdict)
{
    switch (verdict) {
    case FUZZ_VERDICT_SAFETY:
        return EXIT_CODE_SAFETY;
    case FUZZ_VERDICT_LIVENESS:
        return EXIT_CODE_LIVENESS;
    case FUZZ_VERDICT_CRASH:
        return EXIT_CODE_CRASH;
    case FUZZ_VERDICT_MISSED:
        return EXIT_CODE_MISSED;
    case FUZZ_VERDICT_SETUP:
        return EXIT_CODE_BAD_INPUT;
    default:
        return EXIT_CODE_OK;
    }
}

/* ---- replaying ------------------------------------------------------------------------------ */

static exit_code program_load(fuzz_program *program)
{
    char error[256];
    FILE *file = fopen(replay, "r");
    if (file == NULL) {
        fprintf(stderr, "tenure fuzz: %s: %s\n", replay, strerror(errno));
        return EXIT_CODE_BAD_INPUT;
    }
    int result = fuzz_program_read(program, file, error, sizeof(error));
    fclose(file);
    if (result == 0)
        return EXIT_CODE_OK;
    say(stderr, "tenure fuzz: %s: %s\n", replay, error);
    return EXIT_CODE_BAD_INPUT;
}

/* What a replay found. The file may say what must be found: kept cases do. */
static exit_code replay_judge(const fuzz_program *program, const fuzz_result *result)
{
    const char *found = fuzz_verdict_name(result->verdict);
    const char *expected = program->setup.expect;
    printf("%s: %" PRIu64 " operation%s ran, %" PRIu64 " skipped: %s\n", replay, result->ran,
           tnri_plural(result->ran), result->skipped, found);
    if (result->verdict != FUZZ_VERDICT_OK)
        printf("%s, operation %" PRIu64 ": %s\n", result->check, result->step, result->text);
    if (is_strict && result->skipped > 0) {
        printf("not all of it was run: see --verbose\n");
        return EXIT_CODE_CHECK_FAILED;
    }
    if (expected[0] == '\0')
        return exit_code_of_verdict(result->verdict);
    if (strcmp(found, expected) == 0) {
        printf("as expected\n");
        return EXIT_CODE_OK;
    }
    printf("expected: %s\n", expected);
    exit_code code = exit_code_of_verdict(result->verdict);
    return code == EXIT_CODE_OK ? EXIT_CODE_MISSED : code; /* OK too where it is "caught" */
}

static exit_code replay_run(fuzz_device *device)
{
    fuzz_program program;
    fuzz_child child;
    char error[256];
    exit_code code = program_load(&program);
    if (code != EXIT_CODE_OK)
        return code;
    if (fuzz_child_open(&child, program.count + 64, error, sizeof(error)) != 0 ||
        fuzz_child_replay(&child, device, &program, 1, is_verbose, 600) != 0) {
        fprintf(stderr, "tenure fuzz: the program cannot be run: %s\n", strerror(errno));
        return EXIT_CODE_NO_MEMORY;
    }
    fuzz_child_wait(&child);
    if (print_program)
        fuzz_program_write(&program, NULL, stdout);
    code = replay_judge(&program, &child.shared->result);
    fuzz_child_close(&child);
    fuzz_program_release(&program);
    return code;
}

/* ---- many programs -------------------------------------------------------------------------- */

typedef struct watcher {
    progress bar;
    const fuzz_campaign_options *options;
} watcher;

static void campaign_watch(const fuzz_totals *totals, void *data)
{
    watcher *self = data;
    if (self->options->seconds_max > 0)
        progress_update(&self->bar, (size_t)(totals->elapsed_ns / 100000000));
    else
        progress_update(&self->bar, (size_t)totals->programs);
}

static void shrink_watch(size_t operations, uint64_t tries, void *data)
{
    (void)data;
    if (isatty(STDERR_FILENO) || progress_wanted)
        fprintf(stderr, "shrinking: %zu operation%s after %" PRIu64 " %s\n", operations,
                tnri_plural(operations), tries, tries == 1 ? "try" : "tries");
}

/* Shrinks the program that failed and writes it. Leaves report->file null if it cannot be. */
static void failure_write(fuzz_device *device, fuzz_totals *totals, fuzz_report *report)
{
    static char path[4096], comment[FUZZ_TEXT + 256];
    fuzz_child child;
    char error[256];
    long limit;
    report->before = report->after = totals->program.count;
    if (number_parse("shrink-time", shrink_seconds, 60, 1000000, &limit) != 0)
        return;
    /* Of a missed error a shorter program is missed as well, down to nothing. */
    if (!no_shrink && totals->failure.verdict != FUZZ_VERDICT_SETUP &&
        totals->failure.verdict != FUZZ_VERDICT_MISSED &&
        fuzz_child_open(&child, totals->program.count + 64, error, sizeof(error)) == 0) {
        fuzz_result shrunk = totals->failure;
        report->tries = fuzz_shrink(&totals->program, &shrunk, &child, device, (unsigned)limit,
                                    shrink_watch, NULL);
        fuzz_child_close(&child);
        if (report->tries > 0)
            totals->failure = shrunk;
        report->after = totals->program.count;
    }
    snprintf(path, sizeof(path), "%s/fuzz-%" PRIu64 ".txt", out != NULL ? out : ".",
             totals->program.setup.seed);
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        fprintf(stderr, "tenure fuzz: %s: %s\n", path, strerror(errno));
        return;
    }
    fuzz_report_comment(&totals->failure, comment, sizeof(comment));
    fuzz_program_write(&totals->program, comment, file);
    if (fclose(file) == 0)
        report->file = path;
}

static exit_code campaign_run(fuzz_device *device, const fuzz_campaign_options *campaign,
                              const char *command, const gate_device_facts *facts)
{
    static fuzz_totals totals;
    fuzz_report report = {.options = campaign, .totals = &totals, .command = command};
    static char replay_options[512];
    snprintf(replay_options, sizeof(replay_options), "%s%s%s%s%s",
             driver != NULL ? "--driver " : "", driver != NULL ? driver : "",
             driver != NULL ? " " : "", device->is_gated ? "--gates " : "",
             device->spins ? "--spin " : "");
    report.replay_options = replay_options;
    report.facts = device->is_gated ? facts : NULL;
    watcher watch = {.options = campaign};
    char error[256];
    if (!is_json)
        fuzz_report_begin(&report);
    progress_start(&watch.bar, "fuzzing",
                   campaign->seconds_max > 0
                       ? (size_t)campaign->seconds_max * 10
                       : (size_t)(campaign->seed_last - campaign->seed_first + 1),
                   progress_wanted);
    int result =
        fuzz_campaign(campaign, device, &totals, campaign_watch, &watch, error, sizeof(error));
    progress_end(&watch.bar);
    if (result != 0) {
        fprintf(stderr, "tenure fuzz: %s\n", error);
        return EXIT_CODE_NO_MEMORY;
    }
    if (totals.program.ops != NULL)
        failure_write(device, &totals, &report);
    if (is_json)
        fuzz_report_json(&report);
    else
        fuzz_report_text(&report);
    exit_code code =
        totals.program.ops == NULL ? EXIT_CODE_OK : exit_code_of_verdict(totals.failure.verdict);
    fuzz_program_release(&totals.program);
    return code;
}

/* One seed's program, as it was run, alone on standard output, so that --replay can have it; what
 * became of it on the other. */
static exit_code seed_print(fuzz_device *device, fuzz_campaign_options *campaign)
{
    static fuzz_totals totals;
    static char comment[FUZZ_TEXT + 256];
    char error[256];
    campaign->jobs = 1;
    campaign->keeps_program = 1;
    if (fuzz_campaign(campaign, device, &totals, NULL, NULL, error, sizeof(error)) != 0) {
        fprintf(stderr, "tenure fuzz: %s\n", error);
        return EXIT_CODE_NO_MEMORY;
    }
    if (totals.program.ops == NULL) {
        fprintf(stderr, "tenure fuzz: no host memory to keep the program\n");
        return EXIT_CODE_NO_MEMORY;
    }
    int has_failed = fuzz_is_failure(totals.failure.verdict);
    if (has_failed)
        fuzz_report_comment(&totals.failure, comment, sizeof(comment));
    fuzz_program_write(&totals.program, has_failed ? comment : NULL, stdout);
    fprintf(stderr, "seed %" PRIu64 ": %s%s%s\n", campaign->seed_first,
            fuzz_verdict_name(totals.failure.verdict), has_failed ? ": " : "",
            has_failed ? totals.failure.text : "");
    fuzz_program_release(&totals.program);
    return exit_code_of_verdict(totals.failure.verdict);
}

/* Programs on a device of their own take turns there, and each takes its time. */
static void campaign_gate(fuzz_campaign_options *campaign, const gate_device_facts *facts)
{
    if (jobs == NULL)
        campaign->jobs = 1;
    campaign->limits.gated = 1;
    campaign->limits.devices_max = facts->devices;
    campaign->program_seconds_max += 60 + (unsigned)(campaign->limits.ops / 200);
}

int command_fuzz(int argc, char **argv)
{
    static fuzz_device device;
    static gate_device_facts facts;
    fuzz_campaign_options campaign;
    cli_result parsed;
    char command[1024];
    cli_command_text("tenure fuzz", argc, argv, command, sizeof(command));
    if (cli_parse(&syntax, argc, argv, &parsed) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (parsed.help_wanted)
        return EXIT_CODE_OK;
    if (options_parse(&campaign) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (print_program && replay == NULL && campaign.seed_first != campaign.seed_last)
        return cli_usage_error(&syntax, "--print needs --replay FILE, or one seed: --seeds N");
    if (print_program && is_json)
        return cli_usage_error(&syntax, "--print and --json exclude each other");
    exit_code code = device_open(&device, &facts);
    if (code != EXIT_CODE_OK)
        return code;
    if (device.is_gated)
        campaign_gate(&campaign, &facts);
    if (print_program && replay == NULL)
        return seed_print(&device, &campaign);
    return replay != NULL ? replay_run(&device) : campaign_run(&device, &campaign, command, &facts);
}
