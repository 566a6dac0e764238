/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure snapshot convert`, `trace` and `html`: from one file to another. What they say of it goes
 * to stderr as sentences, and with --json to stdout as one object.
 */
#include "base/plural.h"
#include "snapshot.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/alloc.h>

#include "beside.h"
#include "encode_chrome.h"
#include "encode_html.h"
#include "findings.h"
#include "named.h"
#include "encode_trace.h"
#include "json.h"
#include "rewind.h"
#include "shown.h"
#include "table.h"

/* ---- files ---------------------------------------------------------------------------------- */

/* Completes the output, or removes it if `code` says that it is no good. */
static exit_code output_finish(const cli_syntax *syntax, output *out, exit_code code)
{
    if (output_close(out, code == EXIT_CODE_OK) == 0 || code != EXIT_CODE_OK)
        return code;
    say(stderr, "tenure %s: %s\n", syntax->command, out->error);
    return EXIT_CODE_CHECK_FAILED;
}

/* Opens the output, which may be null without host memory. */
static exit_code output_start(const cli_syntax *syntax, output *out, const char *path, int gzip)
{
    if (out && output_open(out, path, gzip) == 0)
        return EXIT_CODE_OK;
    say(stderr, "tenure %s: %s\n", syntax->command, out ? out->error : "no host memory");
    return out ? EXIT_CODE_CHECK_FAILED : EXIT_CODE_NO_MEMORY;
}

/* ---- --json ---------------------------------------------------------------------------------- */

static int is_json;

#define CONVERT_JSON_OPTION                                                                        \
    {                                                                                              \
        "json", NULL, "what was written, as one object on stdout", NULL, &is_json                  \
    }

/* OUT is no input, and standard output is for one of the two. 0, or -1 after a usage error. */
static int out_check(const cli_syntax *syntax, const char *out, const char *in)
{
    if (is_json && strcmp(out, "-") == 0)
        return cli_usage_error(syntax, "with --json, OUT must be a file: standard output is for "
                                       "the object");
    return cli_spares_input(syntax, out, in);
}

/* What each of them says first. */
static void written_json_begin(json_writer *json, const char *from, const char *out)
{
    json_start(json, stdout);
    json_object_begin(json, NULL);
    json_text(json, "file", from);
    json_text(json, "out", out);
}

static void written_json_end(json_writer *json, const losses *lost)
{
    json_array_begin(json, "not_kept");
    for (size_t i = 0; i < lost->count; i++)
        json_text(json, NULL, lost->sentences[i]);
    json_array_end(json);
    json_object_end(json);
    json_end(json);
}

/* ---- convert -------------------------------------------------------------------------------- */

static const char *convert_to, *convert_slices;

static const cli_option convert_options[] = {
    {"to", "FORMAT",
     "tenure, torch or chrome (default: torch for a file of\nTenure's, and tenure for one of "
     "PyTorch's)",
     &convert_to, NULL},
    {"slices", "N", "for chrome: draw the N largest blocks (default 50000)", &convert_slices, NULL},
    CONVERT_JSON_OPTION,
    SNAPSHOT_FRAMES_OPTION,
    SNAPSHOT_SYMBOLS_OPTION,
    SNAPSHOT_COMMON_OPTIONS,
};

static const cli_syntax convert_syntax = {
    "snapshot convert",
    "to Tenure's format, to PyTorch's, or to events of Perfetto",
    "[options] FILE OUT",
    SNAPSHOT_FILES
    "OUT is compressed if its name ends in .gz; \"-\" is standard output. PyTorch's format is a\n"
    "pickle that its viewer (pytorch.org/memory_viz, _memory_viz.py) opens. chrome is the history\n"
    "as trace events in JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing open. What a\n"
    "format cannot hold is listed on stderr.\n\n"
    "Examples:\n"
    "  tenure snapshot convert memory.json memory.pickle\n"
    "  tenure snapshot convert --to chrome memory.json trace.json\n"
    "\n" SNAPSHOT_EXIT_CODES,
    convert_options,
    2,
    2,
};

/* In the order of their names. */
typedef enum convert_format { TO_TENURE, TO_TORCH, TO_CHROME, FORMATS_COUNT } convert_format;
static const char *const format_names[FORMATS_COUNT] = {"tenure", "torch", "chrome"};

/* The wanted format, or FORMATS_COUNT if it is left to the file. */
static exit_code options_read(convert_format *wanted, long *slices)
{
    int format = FORMATS_COUNT;
    for (int i = 0; convert_to && i < FORMATS_COUNT; i++)
        if (strcmp(convert_to, format_names[i]) == 0)
            format = i;
    *wanted = (convert_format)format;
    *slices = CHROME_SLICES;
    if (convert_to && format == FORMATS_COUNT)
        return cli_usage_error(&convert_syntax, "--to must be tenure, torch or chrome, not \"%s\"",
                               convert_to);
    if (convert_slices && format != TO_CHROME)
        return cli_usage_error(&convert_syntax, "--slices is for --to chrome");
    if (snapshot_common.frames && format != TO_CHROME)
        return cli_usage_error(&convert_syntax, "--frames is for --to chrome; the other formats "
                                                "keep all frames");
    if (snapshot_frames_read(&convert_syntax) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (convert_slices &&
        cli_number(&convert_syntax, "slices", convert_slices, 0, 100000000, slices) != 0)
        return EXIT_CODE_BAD_INPUT;
    return EXIT_CODE_OK;
}

/* Events are what happened: a snapshot says nothing of that without a history. */
static exit_code history_wanted(const model *snapshot, const char *path)
{
    for (size_t i = 0; i < snapshot->records.count; i++)
        if (MODEL_AT(snapshot->records, record, i)->kind != RECORD_SNAPSHOT)
            return EXIT_CODE_OK;
    fprintf(stderr,
            "tenure snapshot convert: %s: there is no history. With Tenure, set history:light; "
            "with PyTorch, call torch.cuda.memory._record_memory_history()\n",
            path);
    return EXIT_CODE_BAD_INPUT;
}

static exit_code convert_write(const model *snapshot, convert_format format, size_t slices,
                               output *out, losses *lost)
{
    int code = 0;
    if (format == TO_TENURE)
        encode_tenure(snapshot, out);
    else if (format == TO_TORCH)
        code = encode_torch(snapshot, out, lost);
    else
        code = encode_chrome(snapshot, slices, out, lost);
    if (code != 0)
        return snapshot_no_memory(&convert_syntax, snapshot->limits);
    return EXIT_CODE_OK;
}

/* Writes the file, and says what it is. */
static exit_code convert_finish(const model *snapshot, convert_format format, size_t slices,
                                char *const paths[2])
{
    losses lost = {.count = 0};
    output *out = malloc(sizeof(*out));
    exit_code code = output_start(&convert_syntax, out, paths[1], output_wants_gzip(paths[1]));
    if (code == EXIT_CODE_OK)
        code = output_finish(&convert_syntax, out,
                             convert_write(snapshot, format, slices, out, &lost));
    free(out);
    if (code != EXIT_CODE_OK)
        return code;
    snapshot_losses(&convert_syntax, &lost);
    if (is_json) {
        json_writer json;
        written_json_begin(&json, paths[0], paths[1]);
        json_text(&json, "format", format_names[format]);
        written_json_end(&json, &lost);
    }
    return EXIT_CODE_OK;
}

int snapshot_convert(int argc, char **argv)
{
    cli_result parsed;
    budget limits;
    model snapshot;
    convert_format format;
    long slices;
    if (cli_parse(&convert_syntax, argc, argv, &parsed) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (parsed.help_wanted)
        return EXIT_CODE_OK;
    if (out_check(&convert_syntax, parsed.positionals[1], parsed.positionals[0]) != 0)
        return EXIT_CODE_BAD_INPUT;
    exit_code code = options_read(&format, &slices);
    if (code == EXIT_CODE_OK)
        code = snapshot_budget(&convert_syntax, &limits);
    if (code != EXIT_CODE_OK)
        return code;
    code = (format == TO_CHROME ? snapshot_load_short : snapshot_load_named)(
        &convert_syntax, parsed.positionals[0], &limits, &snapshot);
    if (format == FORMATS_COUNT)
        format = snapshot.is_torch_file ? TO_TENURE : TO_TORCH;
    if (code == EXIT_CODE_OK && format == TO_CHROME)
        code = history_wanted(&snapshot, parsed.positionals[0]);
    if (code == EXIT_CODE_OK)
        code = convert_finish(&snapshot, format, (size_t)slices, parsed.positionals);
    model_release(&snapshot);
    return code;
}

/* ---- trace ---------------------------------------------------------------------------------- */

static const char *trace_device;

static const cli_option trace_options[] = {
    {"device", "N", "the device whose history it is, if there are several", &trace_device, NULL},
    CONVERT_JSON_OPTION,
    SNAPSHOT_COMMON_OPTIONS,
};

static const cli_syntax trace_syntax = {
    "snapshot trace",
    "the history as a trace that `tenure replay` runs",
    "[options] FILE OUT",
    SNAPSHOT_FILES
    "Replay the trace to see what Tenure would need for requests that another allocator served.\n"
    "Blocks that were allocated before the history begins come first in the trace. The command\n"
    "finds them by reading the history backwards from the blocks at its end. OUT is compressed if\n"
    "its name ends in .gz; \"-\" is standard output.\n\n"
    "Examples:\n"
    "  tenure snapshot trace memory.pickle trace.csv.gz\n"
    "\n" SNAPSHOT_EXIT_CODES,
    trace_options,
    2,
    2,
};

static uint64_t records_of(const model *snapshot, size_t device_at)
{
    uint64_t count = 0;
    for (size_t i = 0; i < snapshot->records.count; i++) {
        const record *event = MODEL_AT(snapshot->records, record, i);
        count += event->device == device_at && event->kind == RECORD_ALLOC;
    }
    return count;
}

/* The device to write: the one that was asked for, or the only one that has a history. */
exit_code snapshot_device_choose(const cli_syntax *syntax, const model *snapshot, const char *path,
                                 const char *asked, const char *option, size_t *chosen)
{
    long index = -1;
    size_t with_history = 0;
    if (asked && cli_number(syntax, option, asked, 0, DEVICES_MAX, &index) != 0)
        return EXIT_CODE_BAD_INPUT;
    for (size_t i = 0; i < snapshot->devices.count; i++) {
        const device *one = MODEL_AT(snapshot->devices, device, i);
        if (index >= 0 ? one->index == (uint64_t)index : records_of(snapshot, i) > 0) {
            *chosen = i;
            with_history++;
        }
    }
    if (with_history == 1 && records_of(snapshot, *chosen) > 0)
        return EXIT_CODE_OK;
    if (index >= 0)
        fprintf(stderr, "tenure %s: %s: no allocation of device %ld is in the history\n",
                syntax->command, path, index);
    else if (with_history == 0)
        fprintf(stderr,
                "tenure %s: %s: there is no history. With Tenure, set "
                "history:light; with PyTorch, call torch.cuda.memory._record_memory_history()\n",
                syntax->command, path);
    else
        fprintf(stderr, "tenure %s: %s: %zu devices have a history; choose one with --%s\n",
                syntax->command, path, with_history, option);
    return EXIT_CODE_BAD_INPUT;
}

static void trace_report(const trace_counts *counts, const char *path)
{
    char peak[32];
    fprintf(stderr,
            "%s: %" PRIu64 " allocation%s, %" PRIu64 " of them from before the history, %" PRIu64
            " stream%s, peak %s; %" PRIu64 " block%s stay%s\n",
            path, counts->allocations, tnri_plural(counts->allocations), counts->early,
            counts->streams, tnri_plural(counts->streams),
            format_bytes_binary(counts->peak_live_bytes, peak), counts->live_at_end,
            tnri_plural(counts->live_at_end), counts->live_at_end == 1 ? "s" : "");
}

static void trace_json(const trace_counts *counts, uint64_t device_index, const losses *lost,
                       char *const paths[2])
{
    json_writer json;
    written_json_begin(&json, paths[0], paths[1]);
    json_unsigned(&json, "device", device_index);
    json_unsigned(&json, "allocations", counts->allocations);
    json_unsigned(&json, "early_allocations", counts->early);
    json_unsigned(&json, "frees", counts->frees);
    json_unsigned(&json, "streams", counts->streams);
    json_unsigned(&json, "peak_live_bytes", counts->peak_live_bytes);
    json_unsigned(&json, "live_blocks_at_end", counts->live_at_end);
    written_json_end(&json, lost);
}

exit_code snapshot_trace_empty(const cli_syntax *syntax, const model *snapshot, const char *path)
{
    fprintf(stderr,
            "tenure %s: %s: there is no trace, as no record of the history fits what is there at "
            "the end%s\n",
            syntax->command, path,
            snapshot->segments.count == 0
                ? ", where the snapshot has no segments; take it with them "
                  "(torch.cuda.memory._dump_snapshot)"
                : "");
    return EXIT_CODE_BAD_INPUT;
}

static exit_code trace_write(const model *snapshot, size_t device_at, char *const paths[2])
{
    trace_counts counts;
    losses lost = {.count = 0};
    output *out = malloc(sizeof(*out));
    exit_code code = output_start(&trace_syntax, out, paths[1], output_wants_gzip(paths[1]));
    if (code == EXIT_CODE_OK) {
        if (encode_trace(snapshot, device_at, out, &counts, &lost) != 0)
            code = snapshot_no_memory(&trace_syntax, snapshot->limits);
        else if (counts.allocations == 0)
            code = snapshot_trace_empty(&trace_syntax, snapshot, paths[0]);
        code = output_finish(&trace_syntax, out, code);
    }
    free(out);
    if (code == EXIT_CODE_OK) {
        snapshot_losses(&trace_syntax, &lost);
        trace_report(&counts, paths[1]);
        if (is_json)
            trace_json(&counts, MODEL_AT(snapshot->devices, device, device_at)->index, &lost,
                       paths);
    }
    return code;
}

int snapshot_trace(int argc, char **argv)
{
    cli_result parsed;
    budget limits;
    model snapshot;
    size_t device_at = 0;
    if (cli_parse(&trace_syntax, argc, argv, &parsed) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (parsed.help_wanted)
        return EXIT_CODE_OK;
    if (out_check(&trace_syntax, parsed.positionals[1], parsed.positionals[0]) != 0)
        return EXIT_CODE_BAD_INPUT;
    exit_code code = snapshot_budget(&trace_syntax, &limits);
    if (code != EXIT_CODE_OK)
        return code;
    code = snapshot_load(&trace_syntax, parsed.positionals[0], &limits, &snapshot);
    if (code == EXIT_CODE_OK)
        code = snapshot_device_choose(&trace_syntax, &snapshot, parsed.positionals[0], trace_device,
                                      "device", &device_at);
    if (code == EXIT_CODE_OK)
        code = trace_write(&snapshot, device_at, parsed.positionals);
    model_release(&snapshot);
    return code;
}

/* ---- html ----------------------------------------------------------------------------------- */

static const char *html_template, *html_compare, *html_findings, *html_records;
static const char *html_from, *html_to, *html_title, *html_figures;
static long html_most = 1000000;
static thin_window html_window = {.from_ns = 0, .to_ns = -1};

static const cli_option html_options[] = {
    {"compare", "FILE2", "a second snapshot, to be compared with the first", &html_compare, NULL},
    {"findings", "FILE", "what `tenure run --check --findings FILE` found, to be shown beside it",
     &html_findings, NULL},
    {"records", "N",
     "keep at most N records of a history, and leave out those\nof the smallest blocks (default "
     "1000000)",
     &html_records, NULL},
    {"from", "S",
     "of a longer history, prefer to keep what begins or ends\nfrom this second on (with --to)",
     &html_from, NULL},
    {"to", "S", "up to this second; both as the report's time axis has them", &html_to, NULL},
    {"title", "TEXT", "the page's heading (default: the program's name)", &html_title, NULL},
    {"figures", "LIST",
     "amounts to compare, in bytes: NAME=BYTES,NAME=BYTES; the\nothers are shown as shares of the "
     "first",
     &html_figures, NULL},
    {"template", "HTML", "the report to fill (default: the one installed with this\ncommand)",
     &html_template, NULL},
    CONVERT_JSON_OPTION,
    SNAPSHOT_SYMBOLS_OPTION,
    SNAPSHOT_COMMON_OPTIONS,
};

static const cli_syntax html_syntax = {
    "snapshot html",
    "a report to look at in a browser, in one file",
    "[options] FILE OUT",
    SNAPSHOT_FILES "OUT is one HTML file that needs no network and no other file.\n\n"
                   "Examples:\n"
                   "  tenure snapshot html memory.pickle memory.html\n"
                   "\n" SNAPSHOT_EXIT_CODES,
    html_options,
    2,
    2,
};

/* Where the report lies: beside the installed command, or in the build's own folders. */
static exit_code template_find(char path[PATH_MAX])
{
    static const char *const places[] = {TENURE_REPORT_DIR "/report.html",
                                         "../share/tenure/report.html"};
    if (html_template) {
        snprintf(path, PATH_MAX, "%s", html_template);
        return EXIT_CODE_OK;
    }
    if (beside_find(path, places, sizeof(places) / sizeof(places[0])) == 0)
        return EXIT_CODE_OK;
    fputs("tenure snapshot html: the report was not built with this command. Install Node.js 18 or "
          "newer and npm, configure and build again; or name a report with --template\n",
          stderr);
    return EXIT_CODE_BAD_INPUT;
}

/* --figures, in place: names and bytes. Returns 0, or -1 after a message. */
static int html_figures_read(html_beside *beside, char *text)
{
    for (char *next = text; next; beside->figures_count++) {
        char *name = next, *end;
        next = strchr(name, ',');
        if (next)
            *next++ = '\0';
        char *equals = strchr(name, '=');
        if (!equals || equals == name || equals[1] < '0' || equals[1] > '9')
            return cli_usage_error(&html_syntax, "--figures wants NAME=BYTES, not \"%s\"", name);
        errno = 0;
        uint64_t bytes = strtoull(equals + 1, &end, 10);
        if (*end != '\0' || errno != 0 || bytes > TNR_BYTES_MAX)
            return cli_usage_error(&html_syntax, "--figures wants a number of bytes, not \"%s\"",
                                   equals + 1);
        if (beside->figures_count == HTML_FIGURES_MAX)
            return cli_usage_error(&html_syntax, "--figures takes %d at most", HTML_FIGURES_MAX);
        *equals = '\0';
        beside->figures[beside->figures_count] = (html_figure){shown(name), bytes};
    }
    return 0;
}

/* --title and --figures. 0, or -1 after a message. */
static int html_beside_read(html_beside *beside)
{
    static char title[256], figures[1024];
    memset(beside, 0, sizeof(*beside));
    if (html_title) {
        snprintf(title, sizeof(title), "%s", html_title);
        beside->title = shown(title);
    }
    if (!html_figures)
        return 0;
    if (strlen(html_figures) >= sizeof(figures))
        return cli_usage_error(&html_syntax, "--figures is longer than %zu bytes",
                               sizeof(figures) - 1);
    snprintf(figures, sizeof(figures), "%s", html_figures);
    return html_figures_read(beside, figures);
}

static void html_json(const html_part *parts, size_t count, const html_beside *beside,
                      const char *path)
{
    json_writer json;
    losses none = {.count = 0};
    written_json_begin(&json, parts[0].name, path);
    json_text(&json, "compared_with", count > 1 ? parts[1].name : NULL);
    json_unsigned(&json, "records", parts[0].snapshot->records.count);
    json_unsigned(&json, "records_left_out", parts[0].plan ? parts[0].plan->left_out : 0);
    json_unsigned(&json, "contradictions", beside->contradictions);
    written_json_end(&json, &none);
}

static exit_code html_write(const html_part *parts, size_t count, const html_beside *beside,
                            const char *template_path, const char *path)
{
    char error[OUTPUT_ERROR_BYTES];
    output *out = malloc(sizeof(*out));
    exit_code code = output_start(&html_syntax, out, path, 0);
    if (code == EXIT_CODE_OK) {
        if (encode_html(template_path, parts, count, beside, out, error, sizeof(error)) != 0) {
            say(stderr, "tenure snapshot html: %s\n", error);
            code = EXIT_CODE_CHECK_FAILED;
        }
        code = output_finish(&html_syntax, out, code);
    }
    free(out);
    if (code == EXIT_CODE_OK && is_json)
        html_json(parts, count, beside, path);
    return code;
}

static exit_code html_findings_load(findings *found, budget *limits)
{
    char error[FINDINGS_ERROR_BYTES];
    int code = findings_read(found, html_findings, limits, error);
    if (code == 0 && found->is_cut_off)
        say(stderr, "tenure snapshot html: note: %s; it is left out\n", error);
    if (code == 0 && !snapshot_common.no_symbols && found->lines.count > 0 &&
        !snapshot_names_missing(&html_syntax))
        code = findings_look_up(found);
    if (code == 0)
        return EXIT_CODE_OK;
    if (limits->refused)
        return snapshot_no_memory(&html_syntax, limits);
    say(stderr, "tenure snapshot html: %s\n", error);
    return EXIT_CODE_BAD_INPUT;
}

/* OUT is none of what is read. What the caller names comes first: that is refused whether there is
 * a report or not. */
static exit_code html_template_choose(char path[PATH_MAX], const cli_result *parsed)
{
    const char *const inputs[] = {parsed->positionals[0], html_compare, html_findings,
                                  html_template};
    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++)
        if (out_check(&html_syntax, parsed->positionals[1], inputs[i]) != 0)
            return EXIT_CODE_BAD_INPUT;
    exit_code code = template_find(path);
    if (code == EXIT_CODE_OK && cli_spares_input(&html_syntax, parsed->positionals[1], path) != 0)
        code = EXIT_CODE_BAD_INPUT;
    return code;
}

/* A time in seconds, with a point. 0, or -1 after a message. */
static int html_time(int64_t *ns, const char *name, const char *text)
{
    char *end;
    double seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !(seconds >= 0 && seconds <= 9e9))
        return cli_usage_error(&html_syntax, "--%s must be a time in seconds, not \"%s\"", name,
                               text);
    *ns = (int64_t)(seconds * 1e9 + 0.5);
    return 0;
}

/* --records, --from and --to. */
static int html_numbers(void)
{
    if (html_records &&
        cli_number(&html_syntax, "records", html_records, 0, INT32_MAX, &html_most) != 0)
        return -1;
    if (html_from || html_to)
        html_window = (thin_window){.from_ns = 0, .to_ns = INT64_MAX};
    if ((html_from && html_time(&html_window.from_ns, "from", html_from) != 0) ||
        (html_to && html_time(&html_window.to_ns, "to", html_to) != 0))
        return -1;
    if ((html_from || html_to) && html_window.to_ns < html_window.from_ns)
        return cli_usage_error(&html_syntax, "--from %s is after --to %s", html_from, html_to);
    return 0;
}

/* How many records do not fit the picture; 0 also where there is no memory to tell. */
static size_t contradictions_count(const model *snapshot)
{
    rewind_result history;
    int code = rewind_run(snapshot, &history);
    size_t count = code == 0 ? history.contradictions_count : 0;
    rewind_release(&history);
    return count;
}

/* Plans what is left out of a history that no browser can hold. */
static exit_code html_thin(html_part *part, thin *plan)
{
    if (part->snapshot->records.count <= (size_t)html_most)
        return EXIT_CODE_OK;
    if (thin_start(plan, part->snapshot, (size_t)html_most, html_window) != 0)
        return snapshot_no_memory(&html_syntax, part->snapshot->limits);
    part->plan = plan;
    fprintf(
        stderr,
        "tenure snapshot html: note: %s: %zu of %zu records are left out of the report, those of "
        "the smallest and shortest-lived blocks; amounts stay exact (--records)\n",
        part->name, plan->left_out, part->snapshot->records.count);
    return EXIT_CODE_OK;
}

int snapshot_html(int argc, char **argv)
{
    cli_result parsed;
    budget limits;
    model snapshots[2];
    findings found = {.limits = NULL};
    html_beside beside;
    char template_path[PATH_MAX];
    if (cli_parse(&html_syntax, argc, argv, &parsed) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (parsed.help_wanted)
        return EXIT_CODE_OK;
    exit_code code = snapshot_budget(&html_syntax, &limits);
    if (code == EXIT_CODE_OK)
        code = html_template_choose(template_path, &parsed);
    if (code != EXIT_CODE_OK)
        return code;
    html_part parts[2] = {{&snapshots[0], parsed.positionals[0], NULL},
                          {&snapshots[1], html_compare, NULL}};
    thin plans[2] = {{.in = NULL}, {.in = NULL}};
    if (html_numbers() != 0 || html_beside_read(&beside) != 0)
        return EXIT_CODE_BAD_INPUT;
    beside.found = html_findings ? &found : NULL;
    code = snapshot_load_named(&html_syntax, parsed.positionals[0], &limits, &snapshots[0]);
    if (code == EXIT_CODE_OK) /* before anything else takes memory */
        beside.contradictions = contradictions_count(&snapshots[0]);
    model_start(&snapshots[1], &limits);
    if (code == EXIT_CODE_OK && html_compare)
        code = snapshot_load_named(&html_syntax, html_compare, &limits, &snapshots[1]);
    for (size_t i = 0; i < 2 && code == EXIT_CODE_OK; i++)
        code = stacks_show(&snapshots[i]) != 0 ? snapshot_no_memory(&html_syntax, &limits)
                                               : html_thin(&parts[i], &plans[i]);
    if (code == EXIT_CODE_OK)
        code = html_findings ? html_findings_load(&found, &limits) : EXIT_CODE_OK;
    if (code == EXIT_CODE_OK)
        code =
            html_write(parts, html_compare ? 2 : 1, &beside, template_path, parsed.positionals[1]);
    for (size_t i = 0; i < 2; i++)
        if (plans[i].in)
            thin_release(&plans[i]);
    if (found.limits)
        findings_release(&found);
    model_release(&snapshots[0]);
    model_release(&snapshots[1]);
    return code;
}
