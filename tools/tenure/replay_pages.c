/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure replay --reports DIR`: from the snapshots that the replay has written there, a report of
 * each trace, and index.html: a row for each trace, with a bar for what was live, for what Tenure
 * reserved, and for what PyTorch did when the trace was recorded; those without PyTorch's figures
 * come last. The bars of a row have one scale, all amounts of the page one unit. Reports that lie
 * in the folder already are named, too. No script: a page that is only read needs none.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "output.h"
#include "replay.h"
#include "shown.h"
#include "table.h"

enum { FIGURES_MAX = 5, FIGURES_TEXT = 512 };

typedef struct figure {
    const char *name, *kind; /* the kind is its class in the style */
    uint64_t bytes;
} figure;

int replay_pages_folder(const char *folder, char *error, size_t error_bytes)
{
    struct stat is = {.st_mode = 0};
    int code = mkdir(folder, 0777) == 0 || errno == EEXIST ? stat(folder, &is) : -1;
    if (code == 0 && !S_ISDIR(is.st_mode)) {
        errno = ENOTDIR;
        code = -1;
    }
    if (code == 0)
        code = access(folder, W_OK | X_OK);
    if (code != 0)
        snprintf(error, error_bytes, "%.400s: no folder to write reports to: %s", folder,
                 strerror(errno));
    return code;
}

/* What is compared, with what was live first. Returns how many. */
static size_t figures_of(const replay_result *one, figure figures[FIGURES_MAX])
{
    replay_recorded recorded = replay_recorded_of(one);
    int is_known = recorded.expandable_bytes > 0;
    const figure all[FIGURES_MAX] = {
        {"live", "live", one->peak_live_bytes},
        {"Tenure", "tenure", one->stats.reserved_bytes.peak},
        {"PyTorch expandable", "expandable", recorded.expandable_bytes},
        {is_known ? "PyTorch default" : "PyTorch as recorded", "default", recorded.native_bytes},
        {"PyTorch cudaMallocAsync", "async", recorded.malloc_async_bytes},
    };
    size_t count = 0;
    for (size_t i = 0; i < FIGURES_MAX; i++)
        if (all[i].bytes > 0)
            figures[count++] = all[i];
    return count;
}

static int has_report(const replay_result *one)
{
    return one->source != NULL && one->code == EXIT_CODE_OK;
}

/* ---- the report of a trace ------------------------------------------------------------------ */

static exit_code report_write(const replay_result *one, const char *folder)
{
    char snapshot[PATH_MAX], report[PATH_MAX], title[256], list[FIGURES_TEXT] = "";
    char html[] = "html", title_option[] = "--title", figures_option[] = "--figures", end[] = "--";
    figure figures[FIGURES_MAX];
    size_t count = figures_of(one, figures);
    const trace *source = one->source;
    snprintf(snapshot, sizeof(snapshot), "%s/%s.json.gz", folder, source->name);
    snprintf(report, sizeof(report), "%s/%s.html", folder, source->name);
    snprintf(title, sizeof(title), "%s%s%s%s", source->name, source->recorded[0] ? " (" : "",
             source->recorded, source->recorded[0] ? ")" : "");
    for (size_t i = 0; i < count; i++)
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s=%" PRIu64,
                 i > 0 ? "," : "", figures[i].name, figures[i].bytes);
    char *arguments[] = {html,     title_option, title, figures_option, list, end,
                         snapshot, report,       NULL};
    return (exit_code)command_snapshot(8, arguments);
}

/* ---- the index ------------------------------------------------------------------------------ */

static const char head[] =
    "<!doctype html>\n<!-- SPDX-License-Identifier: Apache-2.0 -->\n<html lang=\"en\"><head>"
    "<meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, "
    "initial-scale=1\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'\">\n"
    "<title>Tenure: replayed traces</title>\n<style>\n"
    ":root { color-scheme: light dark; }\n"
    "body { margin: 0 auto; max-width: 1000px; padding: 24px; font: 15px/1.5 system-ui, "
    "\"Segoe UI\", Roboto, \"Noto Sans\", \"DejaVu Sans\", sans-serif;\n"
    "  background: light-dark(#f5f6f8, #12151a); color: light-dark(#1b2029, #e8ebf0); }\n"
    "h1 { font-size: 24px; margin: 0 0 4px; } p { margin: 0 0 16px; }\n"
    "section { display: grid; grid-template-columns: 220px minmax(0, 1fr); gap: 0 20px;\n"
    "  padding: 12px 16px; margin-bottom: 10px; border-radius: 10px; align-items: center;\n"
    "  background: light-dark(#fff, #1a1e25); border: 1px solid light-dark(#d9dde3, #343b46); }\n"
    "h2 { font-size: 16px; margin: 0; overflow-wrap: anywhere; }\n"
    "a { color: light-dark(#0060a8, #6cb8f0); }\n"
    "small { color: light-dark(#565f6d, #a3adbb); font-size: 13px; }\n"
    "ul { list-style: none; margin: 0; padding: 0; }\n"
    "li { display: grid; grid-template-columns: 190px minmax(0, 1fr) 90px 52px; gap: 10px;\n"
    "  align-items: center; font-size: 14px; line-height: 22px; "
    "font-variant-numeric: tabular-nums; }\n"
    "li i { display: block; height: 11px; border-radius: 3px; min-width: 2px; }\n"
    "li b, li small { text-align: right; font-weight: 400; white-space: nowrap; }\n"
    ".live i { background: light-dark(#8a93a0, #7d8796); }\n"
    ".tenure i { background: light-dark(#0072b2, #3d9be0); } .tenure { font-weight: 600; }\n"
    ".tenure b { font-weight: 600; }\n"
    ".expandable i { background: light-dark(#e69f00, #f0a830); }\n"
    ".default i { background: light-dark(#d55e00, #ff8a50); }\n"
    ".async i { background: light-dark(#cc79a7, #d78bb4); }\n"
    "@media (max-width: 760px) { section { grid-template-columns: minmax(0, 1fr); }\n"
    "  li { grid-template-columns: 110px minmax(0, 1fr) 84px 48px; } }\n"
    "</style></head>\n<body>\n<h1>Memory at the peak</h1>\n"
    "<p>What each program had live at its peak, and what allocators reserved for it. The number "
    "behind is reserved over live. PyTorch's figures were recorded with the traces. A name leads "
    "to the report of Tenure's memory at that moment.</p>\n";

/* Bytes of a file's name that may stand in a link as they are. */
static int is_plain(unsigned char byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
           (byte >= 'A' && byte <= 'Z') || strchr("-_.~", byte) != NULL;
}

static void link_write(output *out, const char *name)
{
    char code[4];
    output_text(out, "<a href=\"");
    for (const char *at = name; *at; at++)
        if (is_plain((unsigned char)*at)) {
            output_bytes(out, at, 1);
        } else {
            snprintf(code, sizeof(code), "%%%02X", (unsigned char)*at);
            output_text(out, code);
        }
    output_text(out, ".html\">");
}

static void text_write(output *out, const char *text)
{
    char copy[128];
    snprintf(copy, sizeof(copy), "%s", text);
    for (const char *at = shown(copy); *at; at++)
        if (*at == '<')
            output_text(out, "&lt;");
        else if (*at == '&')
            output_text(out, "&amp;");
        else
            output_bytes(out, at, 1);
}

static void bar_write(output *out, const figure *one, const figure *live, uint64_t row_most,
                      uint64_t most)
{
    char line[512], amount[32], ratio[16] = "";
    if (one != live)
        snprintf(ratio, sizeof(ratio), "%.3f", (double)one->bytes / (double)live->bytes);
    snprintf(line, sizeof(line),
             "<li class=\"%s\"><span>%s</span><i style=\"width: %.2f%%\"></i><b>%s %s</b>"
             "<small>%s</small></li>\n",
             one->kind, one->name, 100.0 * (double)one->bytes / (double)row_most,
             format_in_unit(one->bytes, most, amount), format_unit(most), ratio);
    output_text(out, line);
}

/* Why PyTorch has no bars. */
static void note_write(output *out, const replay_result *one, uint64_t most)
{
    char line[256], amount[32];
    replay_recorded recorded = replay_recorded_of(one);
    if (recorded.held_bytes > 0) {
        snprintf(line, sizeof(line),
                 "<small>PyTorch held %s %s when it was recorded: freed blocks waited for other "
                 "streams. The replay frees at once, so the two are not compared.</small>\n",
                 format_in_unit(recorded.held_bytes, most, amount), format_unit(most));
        output_text(out, line);
    } else if (recorded.native_bytes == 0) {
        output_text(out, "<small>PyTorch's figures were not recorded.</small>\n");
    }
}

static void row_write(output *out, const replay_result *one, uint64_t most)
{
    figure figures[FIGURES_MAX];
    size_t count = figures_of(one, figures);
    uint64_t row_most = 1;
    for (size_t i = 0; i < count; i++)
        row_most = figures[i].bytes > row_most ? figures[i].bytes : row_most;
    output_text(out, "<section><div><h2>");
    link_write(out, one->source->name);
    text_write(out, one->source->name);
    output_text(out, "</a></h2><small>");
    text_write(out, one->source->recorded);
    output_text(out, "</small></div><div><ul>\n");
    for (size_t i = 0; i < count; i++)
        bar_write(out, &figures[i], &figures[0], row_most, most);
    output_text(out, "</ul>");
    note_write(out, one, most);
    output_text(out, "</div></section>\n");
}

/* 1 for a report that was there already: none of these traces'. */
static int is_other(const char *file, const replay_result *results, size_t count)
{
    size_t length = strlen(file);
    if (length <= 5 || strcmp(file + length - 5, ".html") != 0 || strcmp(file, "index.html") == 0)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (has_report(&results[i]) && strlen(results[i].source->name) == length - 5 &&
            strncmp(results[i].source->name, file, length - 5) == 0)
            return 0;
    return 1;
}

/* Links to the other reports in the folder, by name: no page of a folder is missing in its index.
 */
static void others_write(output *out, const replay_result *results, size_t count,
                         const char *folder)
{
    struct dirent **files = NULL;
    int files_count = scandir(folder, &files, NULL, alphasort), links = 0;
    for (int i = 0; i < files_count; i++) {
        char *file = files[i]->d_name;
        if (is_other(file, results, count)) {
            file[strlen(file) - 5] = '\0';
            output_text(out, links++ == 0 ? "<p>Other reports in this folder: " : ", ");
            link_write(out, file);
            text_write(out, file);
            output_text(out, "</a>");
        }
        free(files[i]);
    }
    free(files);
    if (links > 0)
        output_text(out, "</p>\n");
}

static exit_code index_write(const replay_result *results, size_t count, const char *folder)
{
    char path[PATH_MAX];
    figure figures[FIGURES_MAX];
    uint64_t most = 1;
    output *out = malloc(sizeof(*out));
    snprintf(path, sizeof(path), "%s/index.html", folder);
    if (!out || output_open(out, path, 0) != 0) {
        say(stderr, "tenure replay: %s\n", out ? out->error : "no host memory");
        free(out);
        return out ? EXIT_CODE_CHECK_FAILED : EXIT_CODE_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++)
        for (size_t k = has_report(&results[i]) ? figures_of(&results[i], figures) : 0; k > 0; k--)
            most = figures[k - 1].bytes > most ? figures[k - 1].bytes : most;
    output_text(out, head);
    others_write(out, results, count, folder);
    for (int is_compared = 1; is_compared >= 0; is_compared--)
        for (size_t i = 0; i < count; i++)
            if (has_report(&results[i]) &&
                (replay_recorded_of(&results[i]).native_bytes > 0) == is_compared)
                row_write(out, &results[i], most);
    output_text(out, "</body></html>\n");
    exit_code code = output_close(out, 1) == 0 ? EXIT_CODE_OK : EXIT_CODE_CHECK_FAILED;
    if (code == EXIT_CODE_OK)
        say(stderr, "tenure replay: open %s in a browser\n", path);
    else
        say(stderr, "tenure replay: %s\n", out->error);
    free(out);
    return code;
}

exit_code replay_pages(const replay_result *results, size_t count, const char *folder)
{
    exit_code code = EXIT_CODE_OK;
    size_t written = 0;
    for (size_t i = 0; i < count && code == EXIT_CODE_OK; i++)
        if (has_report(&results[i])) {
            code = report_write(&results[i], folder);
            written++;
        }
    return code == EXIT_CODE_OK && written > 0 ? index_write(results, count, folder) : code;
}
