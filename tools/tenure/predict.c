/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure predict`: will it fit? For snapshots and traces: what Tenure and PyTorch's allocator
 * would reserve for the same requests, on devices of other sizes, and how much larger a batch could
 * be. See predict.h.
 */
#include "predict.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <zlib.h>

#include "base/plural.h"
#include "cli.h"
#include "commands.h"
#include "encode_trace.h"
#include "json.h"
#include "shown.h"
#include "snapshot.h"
#include "table.h"

#define GIB (UINT64_C(1) << 30)
/* Where no device limits it, Tenure's peak is taken on one of this size, or twice what is live. */
#define ROOMY_BYTES (139 * GIB)
/* The context and the code of a PyTorch program took 632 to 706 MiB of an H200
 * (docs/benchmarks/account.json). */
#define OTHER_BYTES (7 * GIB / 10)

static const char *const allocator_names[PREDICT_COUNT] = {"Tenure", "PyTorch, expandable segments",
                                                           "PyTorch"};
static const char *const allocator_keys[PREDICT_COUNT] = {"tenure", "torch_expandable", "torch"};

static const char *device_option, *other_option, *settings_option, *from_option, *driver_option;
static int is_json;

static const cli_option options[] = {
    {"device", "LIST",
     "sizes or names of devices, with commas: 24GiB,A100-40GB.\nKnown are T4, V100-16GB, "
     "V100-32GB, A10, A30, L4, L40, L40S,\nA6000, RTX-3090, RTX-4090, RTX-5090, A100-40GB, "
     "A100-80GB,\nH100-80GB, H200, B200",
     &device_option, NULL},
    {"other", "SIZE",
     "what contexts, code and other programs take of the\ndevice, before any allocator (default "
     "0.7GiB, as measured\nfor PyTorch programs)",
     &other_option, NULL},
    {"from", "N", "the device whose history it is, if a snapshot has several", &from_option, NULL},
    {"conf", "STR", OPTION_CONF_HELP ", of Tenure", &settings_option, NULL},
    {"driver", "NAME", "where PROGRAM runs: cuda or sim, as for `tenure run`", &driver_option,
     NULL},
    {"json", NULL, OPTION_JSON_HELP, NULL, &is_json},
    {NULL, NULL, NULL, NULL, NULL},
};

static const cli_syntax syntax = {
    "predict",
    "will it fit: what a recorded program needs on other devices",
    "[options] FILE...\n[options] -- PROGRAM [ARGUMENT...]",
    "FILE is a snapshot with a history, of PyTorch (pickle or JSON) or of Tenure, or a trace\n"
    "(`tenure snapshot trace`). No GPU is needed. Tenure runs the same requests on the simulated\n"
    "device; PyTorch's allocator is played by its rules, with its default settings and with\n"
    "expandable segments. On a device that is too small each gives back what it can, as it would\n"
    "there. Freed memory counts as live until other streams have finished with it.\n"
    "\n"
    "\"2.1 x\" means: everything that comes and goes (activations, and with them the batch) could\n"
    "be 2.1 times as large while the rest stays as it is. \"tight\" means: it fits, but gives\n"
    "memory back to the device and takes it again, which costs time. If a program asks for other\n"
    "sizes on another device, predict can't know. Blocks of graph pools count like all others.\n"
    "\n"
    "PROGRAM runs here under `tenure run`; each of its processes is predicted. For a PyTorch\n"
    "program take a snapshot instead: `tenure run` sees only the segments that PyTorch's own\n"
    "allocator asks for.\n"
    "\n"
    "Examples:\n"
    "  tenure predict --device A100-40GB,24GiB memory.pickle\n"
    "  tenure predict --device 16GiB -- ./engine --batch 8\n"
    "  tenure predict tests/traces/gpt2_train.csv.gz\n"
    "\n"
    "Exit codes: 0 with Tenure it fits on each device; 1 it does not, or an allocator failed;\n"
    "2 a file or an option is bad; 3 there is no simulated device; 4 out of memory.\n",
    options,
    0,
    1000,
};

/* What is known of one allocator on one device. */
typedef struct forecast {
    torch_outcome outcome;
    int fits;
    int is_tight;  /* it fits, but only as memory goes back to the device and is taken again */
    double growth; /* negative: nothing comes and goes */
} forecast;

/* One file. */
typedef struct prediction {
    trace source;
    predict_peak peak;
    torch_outcome roomy[PREDICT_COUNT]; /* where there is room enough */
    forecast on[PREDICT_DEVICES_MAX][PREDICT_COUNT];
} prediction;

static predict_device devices[PREDICT_DEVICES_MAX];
static int devices_count;

/* ---- files ---------------------------------------------------------------------------------- */

/* 1 if the file begins as a trace does, and no snapshot: a comment, an operation or the heading. */
static int is_trace(const char *path)
{
    if (strcmp(path, "-") == 0)
        return 1;
    gzFile file = gzopen(path, "rb");
    int first = file ? gzgetc(file) : -1;
    if (file)
        gzclose_r(file);
    return first < 0 || strchr("#aFfo", first) != NULL;
}

/* The snapshot's history as a trace, by way of a file in memory. */
static exit_code history_read(const char *path, const model *snapshot, trace *result)
{
    trace_counts counts;
    losses lost = {.count = 0};
    size_t device_at = 0;
    char error[512], name[32];
    exit_code code =
        snapshot_device_choose(&syntax, snapshot, path, from_option, "from", &device_at);
    if (code != EXIT_CODE_OK)
        return code;
    int file = memfd_create("trace", MFD_CLOEXEC), copy = file >= 0 ? dup(file) : -1;
    output *out = malloc(sizeof(*out));
    if (copy < 0 || !out || output_open_fd(out, copy, 0) != 0) {
        fprintf(stderr, "tenure predict: no host memory for the history\n");
        code = EXIT_CODE_NO_MEMORY;
    } else {
        if (encode_trace(snapshot, device_at, out, &counts, &lost) != 0)
            code = snapshot_no_memory(&syntax, snapshot->limits);
        else if (counts.allocations == 0)
            code = snapshot_trace_empty(&syntax, snapshot, path);
        if (output_close(out, code == EXIT_CODE_OK) != 0 && code == EXIT_CODE_OK) {
            fprintf(stderr, "tenure predict: %s\n", out->error);
            code = EXIT_CODE_NO_MEMORY;
        }
    }
    snprintf(name, sizeof(name), "/proc/self/fd/%d", file);
    if (code == EXIT_CODE_OK && lseek(file, 0, SEEK_SET) == 0 &&
        trace_read(result, name, error, sizeof(error)) != 0) {
        fprintf(stderr, "tenure predict: %s: %s\n", path, error);
        code = EXIT_CODE_BAD_INPUT;
    }
    if (code == EXIT_CODE_OK)
        snapshot_losses(&syntax, &lost);
    if (file >= 0)
        close(file);
    free(out);
    return code;
}

static exit_code file_read(const char *path, trace *result)
{
    char error[PATH_MAX + 512];
    budget limits;
    model snapshot;
    if (is_trace(path)) {
        if (trace_read(result, path, error, sizeof(error)) == 0)
            return EXIT_CODE_OK;
        say(stderr, "tenure predict: %s\n", error);
        return EXIT_CODE_BAD_INPUT;
    }
    exit_code code = snapshot_budget(&syntax, &limits);
    if (code != EXIT_CODE_OK)
        return code;
    code = snapshot_load(&syntax, path, &limits, &snapshot);
    if (code == EXIT_CODE_OK)
        code = history_read(path, &snapshot, result);
    model_release(&snapshot);
    if (code == EXIT_CODE_OK) {
        const char *slash = strrchr(path, '/');
        snprintf(result->name, sizeof(result->name), "%s", slash ? slash + 1 : path);
    }
    return code;
}

/* ---- runs ----------------------------------------------------------------------------------- */

static exit_code allocator_run(prediction *of, predict_allocator allocator)
{
    char error[2200];
    uint64_t roomy = 2 * of->peak.live_bytes;
    roomy = allocator != PREDICT_TENURE ? UINT64_MAX : roomy > ROOMY_BYTES ? roomy : ROOMY_BYTES;
    exit_code code = predict_run(&of->source, allocator, settings_option, roomy,
                                 &of->roomy[allocator], error, sizeof(error));
    for (int i = 0; i < devices_count && code == EXIT_CODE_OK; i++) {
        forecast *one = &of->on[i][allocator];
        code = predict_run(&of->source, allocator, settings_option, devices[i].usable_bytes,
                           &one->outcome, error, sizeof(error));
        one->fits = one->outcome.refused_op == of->source.ops_count;
        one->growth = predict_growth(&of->peak, of->roomy[allocator].peak_reserved_bytes,
                                     devices[i].usable_bytes);
        one->is_tight =
            one->fits && of->roomy[allocator].peak_reserved_bytes > devices[i].usable_bytes;
        if (one->fits && one->growth >= 0 && one->growth < 1)
            one->growth = 1;
    }
    if (code != EXIT_CODE_OK)
        say(stderr, "tenure predict: %s: %s: %s\n", of->source.name, allocator_names[allocator],
            error);
    return code;
}

static exit_code prediction_make(prediction *of, const char *path)
{
    exit_code code = file_read(path, &of->source);
    if (code != EXIT_CODE_OK)
        return code;
    if (predict_peak_of(&of->source, &of->peak) != 0) {
        fputs("tenure predict: no host memory\n", stderr);
        return EXIT_CODE_NO_MEMORY;
    }
    for (int k = 0; k < PREDICT_COUNT && code == EXIT_CODE_OK; k++)
        code = allocator_run(of, (predict_allocator)k);
    return code;
}

/* ---- what is printed ------------------------------------------------------------------------ */

static void table_show(const prediction *of)
{
    table rows;
    char amount[32];
    static const char *const words[] = {"allocator", "reserved", "of live", NULL};
    table_head(&rows, words, (size_t)devices_count);
    for (int i = 0; i < devices_count; i++)
        table_cell(&rows, "%s", devices[i].name);
    for (int k = 0; k < PREDICT_COUNT; k++) {
        uint64_t reserved = of->roomy[k].peak_reserved_bytes;
        table_row(&rows);
        table_cell(&rows, "%s", allocator_names[k]);
        table_cell(&rows, "%s", format_bytes_binary(reserved, amount));
        table_cell(&rows, "%.3f", (double)reserved / (double)of->peak.live_bytes);
        for (int i = 0; i < devices_count; i++) {
            const forecast *one = &of->on[i][k];
            if (!one->fits)
                table_cell(&rows, "does not fit");
            else if (one->is_tight)
                table_cell(&rows, "fits, tight");
            else if (one->growth < 0)
                table_cell(&rows, "fits");
            else
                table_cell(&rows, "fits, %.2f x", one->growth);
            if (!one->fits)
                table_cell_bad(&rows);
        }
    }
    table_print(&rows, stdout);
    table_release(&rows);
}

static void refusal_show(const prediction *of, int device_at, int allocator)
{
    const forecast *one = &of->on[device_at][allocator];
    size_t at = one->outcome.refused_op;
    const trace_op *op = &of->source.ops[at];
    char asked[32], live[32], usable[32];
    printf("%s, %s: %s is refused at %.1f s, with %s live, of %s for allocations.\n",
           devices[device_at].name, allocator_names[allocator], format_size(op->bytes, asked),
           (double)(op->us - of->source.us_first) / 1e6,
           format_bytes_binary(predict_live_before(&of->source, &of->peak, at), live),
           format_bytes_binary(devices[device_at].usable_bytes, usable));
}

static void prediction_show(const prediction *of)
{
    char live[32], passing[32];
    const trace *source = &of->source;
    format_page(of->peak.live_bytes);
    say(stdout,
        "%s: %zu allocation%s on %zu stream%s; %s live at the peak, %s of it come and "
        "go\n",
        source->name, source->allocs_count, tnri_plural(source->allocs_count),
        source->streams_count, tnri_plural(source->streams_count),
        format_bytes_binary(of->peak.live_bytes, live),
        format_bytes_binary(of->peak.passing_bytes, passing));
    table_show(of);
    for (int i = 0; i < devices_count; i++)
        for (int k = 0; k < PREDICT_COUNT; k++)
            if (!of->on[i][k].fits)
                refusal_show(of, i, k);
    putchar('\n');
    fflush(stdout);
}

static void device_json(json_writer *json, const prediction *of, int at)
{
    json_object_begin(json, NULL);
    json_text(json, "name", devices[at].name);
    json_unsigned(json, "bytes", devices[at].bytes);
    json_unsigned(json, "usable_bytes", devices[at].usable_bytes);
    for (int k = 0; k < PREDICT_COUNT; k++) {
        const forecast *one = &of->on[at][k];
        json_object_begin(json, allocator_keys[k]);
        json_boolean(json, "fits", one->fits);
        json_boolean(json, "tight", one->is_tight);
        json_unsigned(json, "peak_reserved_bytes", one->outcome.peak_reserved_bytes);
        if (one->growth >= 0)
            json_real(json, "growth", one->growth, 4);
        if (!one->fits) {
            const trace_op *op = &of->source.ops[one->outcome.refused_op];
            json_unsigned(json, "refused_op", one->outcome.refused_op);
            json_unsigned(json, "refused_bytes", op->bytes);
            json_unsigned(json, "refused_us", op->us);
            json_unsigned(json, "live_bytes",
                          predict_live_before(&of->source, &of->peak, one->outcome.refused_op));
        }
        json_object_end(json);
    }
    json_object_end(json);
}

static void prediction_json(const prediction *of)
{
    json_writer json;
    json_start(&json, stdout);
    json_object_begin(&json, NULL);
    json_text(&json, "trace", of->source.name);
    json_unsigned(&json, "allocations", of->source.allocs_count);
    json_unsigned(&json, "streams", of->source.streams_count);
    json_unsigned(&json, "peak_live_bytes", of->peak.live_bytes);
    json_unsigned(&json, "passing_bytes", of->peak.passing_bytes);
    json_object_begin(&json, "peak_reserved_bytes");
    for (int k = 0; k < PREDICT_COUNT; k++)
        json_unsigned(&json, allocator_keys[k], of->roomy[k].peak_reserved_bytes);
    json_object_end(&json);
    json_array_begin(&json, "devices");
    for (int i = 0; i < devices_count; i++)
        device_json(&json, of, i);
    json_array_end(&json);
    json_object_end(&json);
    json_end(&json);
    fflush(stdout);
}

/* ---- the command ---------------------------------------------------------------------------- */

static int options_read(void)
{
    char error[512];
    uint64_t other = OTHER_BYTES;
    if (other_option && strcmp(other_option, "0") == 0)
        other = 0;
    else if (other_option && cli_bytes(other_option, &other) != 0)
        return cli_usage_error(&syntax, "--other must be a size, as 700MiB, not \"%s\"",
                               other_option);
    devices_count =
        device_option ? predict_devices_read(device_option, devices, error, sizeof(error)) : 0;
    if (devices_count < 0)
        return cli_usage_error(&syntax, "%s", error);
    for (int i = 0; i < devices_count; i++) {
        if (other + (1 << 22) > devices[i].bytes)
            return cli_usage_error(&syntax, "--other leaves nothing of %s for allocations",
                                   devices[i].name);
        devices[i].usable_bytes = devices[i].bytes - other;
    }
    return 0;
}

static exit_code file_predict(const char *path)
{
    prediction of = {.peak = {0}};
    exit_code code = prediction_make(&of, path);
    if (code == EXIT_CODE_OK && is_json)
        prediction_json(&of);
    else if (code == EXIT_CODE_OK)
        prediction_show(&of);
    for (int k = 0; k < devices_count && code == EXIT_CODE_OK; k++)
        code = of.on[k][PREDICT_TENURE].fits ? EXIT_CODE_OK : EXIT_CODE_CHECK_FAILED;
    free(of.peak.ends);
    trace_release(&of.source);
    return code;
}

/* All snapshots in the folder, in the order of their names. */
static exit_code folder_predict(const char *folder)
{
    struct dirent **all;
    char path[PATH_MAX + 512];
    int worst = EXIT_CODE_OK;
    int count = scandir(folder, &all, NULL, alphasort), seen = 0;
    for (int i = 0; i < count; i++) {
        if (all[i]->d_name[0] != '.') {
            snprintf(path, sizeof(path), "%s/%s", folder, all[i]->d_name);
            exit_code code = file_predict(path);
            worst = worst == EXIT_CODE_OK ? (int)code : worst;
            seen++;
        }
        free(all[i]);
    }
    if (count >= 0)
        free(all);
    if (seen == 0) {
        fputs("tenure predict: the program has not used a GPU, so nothing is known of it\n",
              stderr);
        return EXIT_CODE_BAD_INPUT;
    }
    return (exit_code)worst;
}

static exit_code program_predict(char **program)
{
    char folder[PATH_MAX], error[PATH_MAX + 256];
    int ended =
        predict_program_run(driver_option, program, folder, sizeof(folder), error, sizeof(error));
    exit_code code = EXIT_CODE_CHECK_FAILED;
    if (ended < 0)
        say(stderr, "tenure predict: %s\n", error);
    else if (ended == 126 || ended == 127)
        code = EXIT_CODE_BAD_INPUT; /* `tenure run` has said that there is no such program */
    else
        code = folder_predict(folder);
    if (ended > 0 && ended != 126 && ended != 127)
        fprintf(stderr,
                "tenure predict: the program ended with %d: this is what it did until then\n",
                ended);
    predict_folder_remove(folder);
    return code;
}

int command_predict(int argc, char **argv)
{
    cli_result arguments;
    int end = 0;
    while (end < argc && strcmp(argv[end], "--") != 0)
        end++;
    char **program = end < argc ? argv + end + 1 : NULL;
    if (cli_parse(&syntax, end, argv, &arguments) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (arguments.help_wanted)
        return EXIT_CODE_OK;
    if (options_read() != 0)
        return EXIT_CODE_BAD_INPUT;
    if (program && (arguments.positionals_count > 0 || !program[0]))
        return cli_usage_error(&syntax, "files, or -- and a program with its arguments");
    if (!program && arguments.positionals_count == 0)
        return cli_usage_error(&syntax, "missing FILE, or -- PROGRAM");
    if (driver_option && !program)
        return cli_usage_error(&syntax, "--driver is for a PROGRAM");
    if (program)
        return program_predict(program);
    int worst = EXIT_CODE_OK;
    for (int i = 0; i < arguments.positionals_count; i++) {
        exit_code code = file_predict(arguments.positionals[i]);
        worst = worst == EXIT_CODE_OK ? (int)code : worst;
    }
    return worst;
}
