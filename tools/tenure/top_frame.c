/* SPDX-License-Identifier: Apache-2.0 */
/* What a process said, as lines of text: see top.h. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "table.h"
#include "top.h"

const char *const top_view_names[TOP_VIEWS] = {"pool", "tag", "stream", "device", "account"};

/* ---- lines ---------------------------------------------------------------------------------- */

void top_frame_start(top_frame *frame, size_t columns)
{
    if (columns < TOP_COLUMNS_MIN)
        columns = TOP_COLUMNS_MIN;
    if (columns > TOP_COLUMNS_MAX)
        columns = TOP_COLUMNS_MAX;
    *frame = (top_frame){.columns = columns};
}

void top_frame_release(top_frame *frame)
{
    free(frame->lines);
    *frame = (top_frame){.columns = frame->columns};
}

void top_line(top_frame *frame, const char *format, ...)
{
    va_list arguments;
    if (frame->count == frame->room) {
        size_t room = frame->room * 2 + 32;
        void *grown = realloc(frame->lines, room * sizeof(*frame->lines));
        if (!grown) {
            frame->is_lost = 1;
            return;
        }
        frame->lines = grown;
        frame->room = room;
    }
    char *line = frame->lines[frame->count++];
    va_start(arguments, format);
    vsnprintf(line, TOP_LINE_BYTES, format, arguments);
    va_end(arguments);
    line[frame->columns] = '\0';
    /* Widths are counted in bytes, and a terminal may know ASCII only. */
    for (; *line; line++)
        if ((unsigned char)*line < 0x20 || (unsigned char)*line >= 0x7f)
            *line = '?';
}

/* ---- rows ----------------------------------------------------------------------------------- */

typedef enum column {
    COLUMN_RESERVED,
    COLUMN_LIVE,
    COLUMN_WAITING,
    COLUMN_MOVING,
    COLUMN_ASLEEP,
    COLUMN_PEAK,
    COLUMN_LIMIT,
    COLUMN_COUNT
} column;

/* The most telling first: narrow terminals have no room for the others. */
static const struct {
    const char *title, *key;
} columns[COLUMN_COUNT] = {
    [COLUMN_RESERVED] = {"reserved", "reserved_bytes"},
    [COLUMN_LIVE] = {"live", "live_bytes"},
    [COLUMN_WAITING] = {"waiting", "waiting_bytes"},
    [COLUMN_MOVING] = {"moving", "moving_chunks"},
    [COLUMN_ASLEEP] = {"asleep", "asleep_bytes"},
    [COLUMN_PEAK] = {"peak", "reserved_peak_bytes"},
    [COLUMN_LIMIT] = {"limit", "limit_bytes"},
};

enum { BAR_WIDTH_MIN = 30, BAR_WIDTH_MAX = 80, PROCESS_BAR = 20 };
enum { CELL_WIDTH = 10, NAME_WIDTH_MIN = 10, NAME_WIDTH_GOOD = 20, NAME_WIDTH_MAX = 40 };

typedef struct row {
    uint64_t device;
    char name[96];
    uint64_t values[COLUMN_COUNT]; /* UINT64_MAX: it has none */
} row;

typedef struct rows {
    row *items;
    size_t count, room;
} rows;

static row *row_add(rows *to, uint64_t device, const char *name)
{
    if (to->count == to->room) {
        size_t room = to->room * 2 + 32;
        row *grown = realloc(to->items, room * sizeof(*grown));
        if (!grown)
            return NULL;
        to->items = grown;
        to->room = room;
    }
    row *made = &to->items[to->count++];
    made->device = device;
    snprintf(made->name, sizeof(made->name), "%.95s", name);
    for (int i = 0; i < COLUMN_COUNT; i++)
        made->values[i] = UINT64_MAX;
    return made;
}

static void row_read(row *to, const ctl_line *answer, value from)
{
    for (int i = 0; to && i < COLUMN_COUNT; i++)
        if (!ctl_has_number(answer, from, columns[i].key, &to->values[i]))
            to->values[i] = UINT64_MAX;
}

static int rows_order(const void *one, const void *other)
{
    const row *a = one, *b = other;
    uint64_t own = a->values[COLUMN_RESERVED] + 1; /* none: 0 */
    uint64_t others = b->values[COLUMN_RESERVED] + 1;
    if (own != others)
        return own < others ? 1 : -1;
    return a->device != b->device ? (a->device < b->device ? -1 : 1) : strcmp(a->name, b->name);
}

/* "0 name": the device stands before what it has, where there are several. */
static void named_add(rows *to, const ctl_line *answer, value from, uint64_t device,
                      const char *name, int has_devices)
{
    char text[160];
    if (has_devices)
        snprintf(text, sizeof(text), "%llu %s", (unsigned long long)device, name ? name : "-");
    else
        snprintf(text, sizeof(text), "%s", name ? name : "-");
    row_read(row_add(to, device, text), answer, from);
}

static int stream_order(const void *one, const void *other)
{
    const row *a = one, *b = other;
    return a->device != b->device ? (a->device < b->device ? -1 : 1) : strcmp(a->name, b->name);
}

/* A stream comes once for each pool that it has memory of: they are one row. */
static void streams_join(rows *to)
{
    size_t kept = 0;
    if (to->count == 0)
        return;
    qsort(to->items, to->count, sizeof(*to->items), stream_order);
    for (size_t i = 1; i < to->count; i++) {
        row *last = &to->items[kept];
        if (stream_order(last, &to->items[i]) != 0) {
            to->items[++kept] = to->items[i];
            continue;
        }
        for (int c = 0; c < COLUMN_COUNT; c++)
            if (to->items[i].values[c] != UINT64_MAX)
                last->values[c] += to->items[i].values[c];
    }
    to->count = kept + 1;
}

static void streams_add(rows *to, const ctl_line *answer, value device, uint64_t number,
                        int has_devices)
{
    const value_list *list = ctl_list(answer, device, "streams");
    for (uint32_t i = 0; list && i < list->count; i++) {
        const char *handle = ctl_text(answer, list->items[i], "stream");
        const char *called = ctl_text(answer, list->items[i], "name");
        char name[96];
        snprintf(name, sizeof(name), "%s",
                 !handle                    ? "(graphs)"
                 : strcmp(handle, "0") == 0 ? "default"
                                            : handle);
        if (called)
            snprintf(name, sizeof(name), "%.60s (%.24s)", called,
                     handle && strcmp(handle, "0") == 0 ? "default"
                     : handle                           ? handle
                                                        : "graphs");
        size_t before = to->count;
        named_add(to, answer, list->items[i], number, name, has_devices);
        if (to->count > before)
            to->items[before].values[COLUMN_RESERVED] =
                ctl_number(answer, list->items[i], "held_bytes");
    }
}

/* What the view is of, the largest first. */
static void rows_read(rows *to, const ctl_line *answer, top_view view)
{
    const value_list *devices = ctl_list(answer, answer->parsed, "devices");
    const value_list *tags = ctl_list(answer, answer->parsed, "tags");
    int has_devices = devices && devices->count > 1;
    for (uint32_t i = 0; view == TOP_TAGS && tags && i < tags->count; i++)
        named_add(to, answer, tags->items[i], ctl_number(answer, tags->items[i], "device"),
                  ctl_text(answer, tags->items[i], "tag"), has_devices);
    for (uint32_t d = 0; devices && d < devices->count; d++) {
        value one = devices->items[d];
        uint64_t number = ctl_number(answer, one, "device");
        const value_list *pools = ctl_list(answer, one, "pools");
        for (uint32_t i = 0; view == TOP_POOLS && pools && i < pools->count; i++)
            named_add(to, answer, pools->items[i], number,
                      ctl_text(answer, pools->items[i], "name"), has_devices);
        if (view == TOP_STREAMS)
            streams_add(to, answer, one, number, has_devices);
    }
    if (view == TOP_STREAMS)
        streams_join(to);
    if (to->count > 0)
        qsort(to->items, to->count, sizeof(*to->items), rows_order);
}

/* ---- frames --------------------------------------------------------------------------------- */

static const char *cell_text(const row *from, int which, char *text)
{
    uint64_t number = from->values[which];
    if (number == UINT64_MAX)
        snprintf(text, 32, "-");
    else if (which == COLUMN_MOVING)
        snprintf(text, 32, "%llu", (unsigned long long)number);
    else
        format_bytes_binary(number, text);
    return text;
}

/* A line of a table: a name, and as many cells as there is room for. Null: the titles. */
static void row_line(top_frame *frame, const char *name, const row *from)
{
    char line[TOP_LINE_BYTES], cell[32];
    size_t least = frame->columns < 60 ? NAME_WIDTH_MIN : NAME_WIDTH_GOOD;
    size_t cells = (frame->columns - least) / CELL_WIDTH;
    cells = cells < COLUMN_COUNT ? cells : COLUMN_COUNT;
    size_t width = frame->columns - cells * CELL_WIDTH;
    width = width < NAME_WIDTH_MAX ? width : NAME_WIDTH_MAX;
    size_t at = (size_t)snprintf(line, sizeof(line), "%-*.*s", (int)width, (int)width, name);
    for (size_t i = 0; i < cells && at < sizeof(line); i++)
        at += (size_t)snprintf(line + at, sizeof(line) - at, "%*s", CELL_WIDTH,
                               from ? cell_text(from, (int)i, cell) : columns[i].title);
    top_line(frame, "%s", line);
}

/* The group that it shares the device with, if it does. */
static void group_line(top_frame *frame, const ctl_line *answer, value device)
{
    char floor[32], ceiling[32] = "none", given[32], taken[32], text[80];
    const char *group = ctl_text(answer, device, "group");
    uint64_t most;
    if (!group)
        return;
    if (ctl_has_number(answer, device, "group_ceiling_bytes", &most))
        format_size(most, ceiling);
    uint64_t members = ctl_number(answer, device, "group_members");
    format_size(ctl_number(answer, device, "group_floor_bytes"), floor);
    format_bytes_binary(ctl_number(answer, device, "group_given_bytes"), given);
    format_bytes_binary(ctl_number(answer, device, "group_taken_bytes"), taken);
    top_line(frame, "  group %s: %llu member%s, given %s, taken %s, floor %s, ceiling %s",
             ctl_shown(group, text, sizeof(text)), (unsigned long long)members,
             tnri_plural(members), given, taken, floor, ceiling);
}

/* What it holds for others, and has of them. */
static void shared_line(top_frame *frame, const ctl_line *answer)
{
    const value_list *held = ctl_list(answer, answer->parsed, "held");
    const value_list *imports = ctl_list(answer, answer->parsed, "imports");
    uint64_t importers = 0;
    uint32_t held_count = held ? held->count : 0, imports_count = imports ? imports->count : 0;
    for (uint32_t i = 0; i < held_count; i++)
        importers += ctl_number(answer, held->items[i], "importers");
    if (held_count + imports_count > 0)
        top_line(frame, "  holds %u published block%s, open %llu time%s; has %u of others",
                 held_count, tnri_plural(held_count), (unsigned long long)importers,
                 tnri_plural(importers), imports_count);
}

/* What of a device is live, is reserved beyond that, and is neither: a bar as wide as the table. */
static void bar_line(top_frame *frame, const row *of, uint64_t memory)
{
    char line[TOP_LINE_BYTES];
    size_t width = frame->columns < BAR_WIDTH_MAX ? frame->columns : BAR_WIDTH_MAX, at = 2;
    uint64_t live = of->values[COLUMN_LIVE], reserved = of->values[COLUMN_RESERVED];
    if (memory == 0 || live == UINT64_MAX || reserved == UINT64_MAX || width < BAR_WIDTH_MIN)
        return;
    double cell = (double)memory / (double)(width - 4);
    snprintf(line, sizeof(line), " [");
    for (; at < width - 2; at++) {
        double from = (double)(at - 2) * cell; /* so what there is has a cell */
        line[at] = from < (double)live ? '#' : from < (double)reserved ? '=' : '.';
    }
    snprintf(line + at, sizeof(line) - at, "]");
    top_line(frame, "%s", line);
}

static void devices_fill(top_frame *frame, const ctl_line *answer)
{
    const value_list *devices = ctl_list(answer, answer->parsed, "devices");
    if (!devices || devices->count == 0) {
        top_line(frame, "it uses no device");
        return;
    }
    row_line(frame, "device", NULL);
    for (uint32_t i = 0; i < devices->count; i++) {
        row one;
        char name[192];
        const char *called = ctl_text(answer, devices->items[i], "name");
        snprintf(name, sizeof(name), "%llu %.150s",
                 (unsigned long long)ctl_number(answer, devices->items[i], "device"),
                 called ? called : "");
        row_read(&one, answer, devices->items[i]);
        row_line(frame, name, &one);
        bar_line(frame, &one, ctl_number(answer, devices->items[i], "memory_bytes"));
        group_line(frame, answer, devices->items[i]);
        char limits[256];
        if (ctl_limits(answer, devices->items[i], 0, limits, sizeof(limits)))
            top_line(frame, "  limits: %s", limits);
    }
    shared_line(frame, answer);
}

/* ---- the account ---------------------------------------------------------------------------- */

/* A line of a name, how much, and what part of the whole; the name ends where the numbers begin. */
static void share_line(top_frame *frame, const char *name, const char *sign, uint64_t bytes,
                       uint64_t whole)
{
    char line[TOP_LINE_BYTES], cell[32];
    size_t width = frame->columns - 2 * CELL_WIDTH;
    width = width < NAME_WIDTH_MAX ? width : NAME_WIDTH_MAX;
    snprintf(line, sizeof(line), "%-*.*s%s%*s%8.1f %%", (int)width, (int)width, name, sign,
             CELL_WIDTH - (int)strlen(sign), format_bytes_binary(bytes, cell),
             whole > 0 ? 100.0 * (double)bytes / (double)whole : 0.0);
    top_line(frame, "%s", line);
}

/* What the driver says is used, by what it is. What Tenure has is told apart by whether a block has
 * it; what is in no row is said. */
static void account_fill(top_frame *frame, const ctl_line *answer, value device)
{
    value account;
    uint64_t number = ctl_number(answer, device, "device");
    if (!value_get(&answer->heap, device, "account", &account)) {
        top_line(frame, "%s", "");
        top_line(frame, "device %llu: no account. It comes with `tenure run --account`",
                 (unsigned long long)number);
        return;
    }
    const value_list *outside = ctl_list(answer, account, "outside");
    uint64_t used = ctl_number(answer, account, "used_bytes");
    uint64_t explained = ctl_number(answer, account, "explained_bytes");
    uint64_t held = ctl_number(answer, account, "tenure_bytes");
    uint64_t live = ctl_number(answer, device, "live_bytes");
    char title[64];
    snprintf(title, sizeof(title), "used on device %llu%s", (unsigned long long)number,
             ctl_is_true(answer, account, "from_start") ? "" : ", by all processes");
    top_line(frame, "%s", "");
    share_line(frame, title, "", used, used);
    share_line(frame, "  Tenure: live", "", live < held ? live : held, used);
    share_line(frame, "  Tenure: kept for the next", "", live < held ? held - live : 0, used);
    for (uint32_t i = 0; outside && i < outside->count; i++) {
        char name[96];
        const char *called = ctl_text(answer, outside->items[i], "name");
        snprintf(name, sizeof(name), "  %.80s", called ? called : "-");
        share_line(frame, name, "", ctl_number(answer, outside->items[i], "bytes"), used);
    }
    share_line(frame, "  unexplained", explained > used ? "-" : "",
               explained > used ? explained - used : used - explained, used);
}

/* ---- several processes ---------------------------------------------------------------------- */

/* The sum over the devices; UINT64_MAX: it has not answered. */
static uint64_t devices_sum(const ctl_line *answer, const char *key)
{
    const value_list *devices = answer->text ? ctl_list(answer, answer->parsed, "devices") : NULL;
    uint64_t sum = 0;
    for (uint32_t i = 0; devices && i < devices->count; i++)
        sum += ctl_number(answer, devices->items[i], key);
    return answer->text ? sum : UINT64_MAX;
}

static const char *amount_text(uint64_t bytes, char *text)
{
    return bytes == UINT64_MAX ? "-" : format_bytes_binary(bytes, text);
}

void top_processes_fill(top_frame *frame, const top_process *all, size_t count, size_t chosen,
                        size_t rows_max)
{
    uint64_t most = 1;
    size_t first = rows_max > 2 && chosen >= rows_max - 2 ? chosen - (rows_max - 3) : 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t reserved = devices_sum(&all[i].answer, "reserved_bytes");
        most = reserved != UINT64_MAX && reserved > most ? reserved : most;
    }
    format_page(most);
    top_line(frame, "  %8s  %-20s %10s %10s  # live, = reserved", "process", "program", "reserved",
             "live");
    for (size_t i = first; i < count && (rows_max == 0 || i - first + 1 < rows_max); i++) {
        char reserved_text[32], live_text[32], bar[PROCESS_BAR + 1] = "";
        uint64_t reserved = devices_sum(&all[i].answer, "reserved_bytes");
        uint64_t live = devices_sum(&all[i].answer, "live_bytes");
        for (size_t k = 0; reserved != UINT64_MAX && k < PROCESS_BAR; k++) {
            uint64_t at = (most / PROCESS_BAR) * k + most / (2 * PROCESS_BAR);
            bar[k] = at < live ? '#' : at < reserved ? '=' : '.';
        }
        top_line(frame, "%c %8ld  %-20.20s %10s %10s%s%s", i == chosen ? '>' : ' ', all[i].pid,
                 all[i].program, amount_text(reserved, reserved_text), amount_text(live, live_text),
                 bar[0] ? "  " : "", bar);
    }
}

static const char reserved_line[] = "reserved  physical memory that Tenure has from the driver",
                  live_line[] = "live      what blocks have of it";

static void lines_fill(top_frame *frame, const char *const *lines, size_t count)
{
    for (size_t i = 0; i < count; i++)
        top_line(frame, "%s", lines[i]);
}

void top_help_fill(top_frame *frame)
{
    static const char *const lines[] = {
        reserved_line,
        live_line,
        "waiting   freed before its last use was over",
        "moving    old mappings of moved chunks that wait for that",
        "asleep    given back until the wake",
        "bar       # live   = reserved beyond that   . the rest of the device",
        "",
        "p t s d a   by pool, tag, stream, device, account",
        "l           the list of processes, if there are several",
        "S           writes a snapshot into this folder",
        "T           gives idle memory back, after a question",
        "q           ends;  any other key goes back",
    };
    lines_fill(frame, lines, sizeof(lines) / sizeof(lines[0]));
}

void top_processes_help_fill(top_frame *frame)
{
    static const char *const lines[] = {
        reserved_line,
        live_line,
        "bar       # live   = reserved beyond that; as long as the largest process has reserved",
        "-         the process has not answered yet, or has ended",
        "",
        "up down     choose, as k and j",
        "Enter       watches the process; l comes back here",
        "q           ends;  any other key goes back",
    };
    lines_fill(frame, lines, sizeof(lines) / sizeof(lines[0]));
}

/* ---- the whole ------------------------------------------------------------------------------ */

void top_frame_fill(top_frame *frame, const ctl_line *answer, top_view view, size_t rows_max)
{
    rows found = {0};
    ctl_page(answer);
    devices_fill(frame, answer);
    const value_list *devices = ctl_list(answer, answer->parsed, "devices");
    for (uint32_t i = 0; view == TOP_ACCOUNT && devices && i < devices->count; i++)
        account_fill(frame, answer, devices->items[i]);
    if (view == TOP_DEVICES || view == TOP_ACCOUNT)
        return;
    rows_read(&found, answer, view);
    top_line(frame, "%s", "");
    row_line(frame, top_view_names[view], NULL);
    size_t fit = rows_max > frame->count + 1 ? rows_max - frame->count : 1;
    if (rows_max == 0 || fit > found.count)
        fit = found.count;
    else if (fit < found.count)
        fit--; /* for the line that says so */
    for (size_t i = 0; i < fit; i++)
        row_line(frame, found.items[i].name, &found.items[i]);
    if (fit < found.count)
        top_line(frame, "and %zu more", found.count - fit);
    free(found.items);
}
