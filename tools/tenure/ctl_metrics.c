/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers to `status` as OpenMetrics text: see ctl.h. In that format all samples of a metric stand
 * together, so answers are kept until the last process has answered. No two samples of a metric
 * have the same labels: a pool has its number; a process has its number here, or its socket's name.
 */
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "shown.h"

/* What a sample is of. */
typedef enum subject { OF_DEVICE, OF_POOL, OF_TAG, OF_HELD, OF_IMPORTED, OF_STREAM } subject;

typedef struct metric {
    subject of;
    const char *key;  /* of the answer; also the end of the metric's name */
    const char *type; /* gauge or counter */
    const char *unit; /* null: none */
    const char *help;
} metric;

static const metric metrics[] = {
    {OF_DEVICE, "memory_bytes", "gauge", "bytes", "Memory that the device has."},
    {OF_DEVICE, "reserved_bytes", "gauge", "bytes", "Memory reserved by the process."},
    {OF_DEVICE, "reserved_peak_bytes", "gauge", "bytes", "The most that was reserved."},
    {OF_DEVICE, "live_bytes", "gauge", "bytes", "Bytes of live blocks, as asked for."},
    {OF_DEVICE, "live_blocks", "gauge", NULL, "Live blocks."},
    {OF_DEVICE, "waiting_bytes", "gauge", "bytes", "Freed, and waiting for the last use."},
    {OF_DEVICE, "moving_chunks", "gauge", NULL, "Old mappings of moved chunks that wait."},
    {OF_DEVICE, "asleep_bytes", "gauge", "bytes", "Given back until the wake."},
    {OF_DEVICE, "limit_bytes", "gauge", "bytes", "The most that may be reserved."},
    {OF_DEVICE, "chunks_created", "counter", NULL, "Chunks of memory taken from the driver."},
    {OF_DEVICE, "chunks_moved", "counter", NULL, "Chunks given another address."},
    {OF_DEVICE, "retries", "counter", NULL, "Allocations that had to reclaim memory."},
    {OF_DEVICE, "ooms", "counter", NULL, "Allocations that failed for lack of memory."},
    {OF_DEVICE, "group_members", "gauge", NULL, "Processes in its group, itself among them."},
    {OF_DEVICE, "group_floor_bytes", "gauge", "bytes", "What it keeps when others ask."},
    {OF_DEVICE, "group_ceiling_bytes", "gauge", "bytes", "The most that it may have reserved."},
    {OF_DEVICE, "group_limit_bytes", "gauge", "bytes", "The most that all may have reserved."},
    {OF_DEVICE, "group_given_bytes", "counter", "bytes", "Given back since others asked."},
    {OF_DEVICE, "group_taken_bytes", "counter", "bytes", "Given by others when it asked."},
    {OF_DEVICE, "group_asks", "counter", NULL, "Times that it was short, and asked."},
    {OF_DEVICE, "group_yields", "counter", NULL,
     "Published blocks that ended as memory was short."},
    {OF_DEVICE, "group_yielded_bytes", "counter", "bytes", "Their bytes."},
    {OF_DEVICE, "cgroup_given_bytes", "counter", "bytes", "Given back for a control group."},
    {OF_DEVICE, "streams_left_out", "gauge", NULL, "Streams that are in no row."},
    {OF_POOL, "reserved_bytes", "gauge", "bytes", "Memory reserved for the pool."},
    {OF_POOL, "reserved_peak_bytes", "gauge", "bytes", "The most that was reserved for it."},
    {OF_POOL, "live_bytes", "gauge", "bytes", "Bytes of its live blocks, as asked for."},
    {OF_POOL, "live_blocks", "gauge", NULL, "Its live blocks."},
    {OF_POOL, "waiting_bytes", "gauge", "bytes", "Freed, and waiting for the last use."},
    {OF_POOL, "moving_chunks", "gauge", NULL, "Old mappings of moved chunks that wait."},
    {OF_POOL, "asleep_bytes", "gauge", "bytes", "Given back until the wake."},
    {OF_POOL, "limit_bytes", "gauge", "bytes", "The most that may be reserved."},
    {OF_TAG, "reserved_bytes", "gauge", "bytes", "Memory reserved for pools with the tag."},
    {OF_TAG, "live_bytes", "gauge", "bytes", "Bytes of live blocks with the tag."},
    {OF_TAG, "waiting_bytes", "gauge", "bytes", "Freed, and waiting for the last use."},
    {OF_TAG, "asleep_bytes", "gauge", "bytes", "Given back until the wake."},
    {OF_TAG, "limit_bytes", "gauge", "bytes", "The most that may be reserved."},
    {OF_HELD, "bytes", "gauge", "bytes", "Published blocks that it holds."},
    {OF_HELD, "importers", "gauge", NULL, "Processes that have them open through it."},
    {OF_IMPORTED, "bytes", "gauge", "bytes", "Blocks of other processes that it has open."},
    {OF_STREAM, "held_bytes", "gauge", "bytes", "Memory that the stream has of the pool."},
    {OF_STREAM, "live_bytes", "gauge", "bytes", "Bytes of its live blocks, as asked for."},
    {OF_STREAM, "live_blocks", "gauge", NULL, "Its live blocks."},
    {OF_STREAM, "waiting_bytes", "gauge", "bytes", "Freed, and waiting for the last use."},
};

/* A process that has answered. It stays where it is: lines have pointers into themselves. */
typedef struct told {
    const ctl_peer *peer;
    ctl_line greeting, answer;
    struct told *next; /* in the order of their answers */
} told;

static told *all, **all_end = &all;

exit_code ctl_metrics_add(const ctl_peer *peer, const ctl_line *greeting, const ctl_line *answer,
                          char *error)
{
    told *one = calloc(1, sizeof(*one));
    if (!one) {
        snprintf(error, CTL_ERROR_BYTES, "no host memory");
        return EXIT_CODE_NO_MEMORY;
    }
    one->peer = peer;
    exit_code code = ctl_line_copy(&one->greeting, greeting, peer, error);
    if (code == EXIT_CODE_OK)
        code = ctl_line_copy(&one->answer, answer, peer, error);
    if (code != EXIT_CODE_OK) {
        ctl_line_release(&one->greeting);
        free(one);
        return code;
    }
    *all_end = one;
    all_end = &one->next;
    return EXIT_CODE_OK;
}

/* A label with its value. The format knows three escapes; everything else that a
 * terminal may be shown stands as it is. */
static void label_print(FILE *file, const char *separator, const char *name, const char *text)
{
    fprintf(file, "%s%s=\"", separator, name);
    for (size_t bytes; text && *text; text += bytes) {
        int is_harmless = shown_is_harmless(text, &bytes);
        if (*text == '\\' || *text == '"')
            fputc('\\', file);
        if (*text == '\n')
            fputs("\\n", file);
        else if (is_harmless)
            fwrite(text, 1, bytes, file);
        else
            fputc('?', file);
    }
    fputc('"', file);
}

static void label_print_number(FILE *file, const char *separator, const char *name, uint64_t number)
{
    char text[32];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    label_print(file, separator, name, text);
}

static void process_print(FILE *file, const told *one)
{
    long pid = one->peer->pid_here > 0 ? one->peer->pid_here : one->peer->pid;
    label_print_number(file, "", "pid", (uint64_t)pid);
    if (one->peer->pid_here <= 0)
        label_print(file, ",", "socket", one->peer->name);
    label_print(file, ",", "program", ctl_text(&one->greeting, one->greeting.parsed, "program"));
}

/* One sample, of the `number_of`th of its list; none where the process does not say, as of a limit
 * that there is not. */
static void sample_print(FILE *file, const metric *which, const char *kind, const told *one,
                         value holder, uint64_t device, uint32_t number_of)
{
    uint64_t number;
    if (!ctl_has_number(&one->answer, holder, which->key, &number))
        return;
    fprintf(file, "tenure_%s_%s%s{", kind, which->key,
            strcmp(which->type, "counter") == 0 ? "_total" : "");
    process_print(file, one);
    if (which->of != OF_HELD)
        label_print_number(file, ",", "device", device);
    if (which->of == OF_POOL) {
        label_print(file, ",", "pool", ctl_text(&one->answer, holder, "name"));
        label_print_number(file, ",", "number", ctl_number(&one->answer, holder, "number"));
        label_print(file, ",", "kind", ctl_text(&one->answer, holder, "kind"));
    }
    if (which->of == OF_POOL || which->of == OF_TAG)
        label_print(file, ",", "tag", ctl_text(&one->answer, holder, "tag"));
    if (which->of == OF_HELD || which->of == OF_IMPORTED) {
        label_print(file, ",", "published", ctl_text(&one->answer, holder, "name"));
        label_print_number(file, ",", "generation", ctl_number(&one->answer, holder, "generation"));
    }
    if (which->of == OF_IMPORTED) { /* one may be open twice */
        label_print_number(file, ",", "from", ctl_number(&one->answer, holder, "process"));
        label_print_number(file, ",", "number", number_of);
    }
    fprintf(file, "} %llu\n", (unsigned long long)number);
}

/* ---- streams -------------------------------------------------------------------------------- */

/* What one stream has of one pool. */
typedef struct stream_row {
    uint64_t pool;    /* its number */
    const char *name; /* what the rows are told apart by */
    value item;
} stream_row;

/* Handles come and go, names stay: a series is of a name. */
static const char *stream_called(const ctl_line *answer, value item)
{
    const char *handle = ctl_text(answer, item, "stream"), *name = ctl_text(answer, item, "name");
    if (name)
        return name;
    if (!handle)
        return "(graphs)";
    return strcmp(handle, "0") == 0 ? "default" : "(unnamed)";
}

static int stream_row_order(const void *one, const void *other)
{
    const stream_row *a = one, *b = other;
    if (a->pool != b->pool)
        return a->pool < b->pool ? -1 : 1;
    return strcmp(a->name, b->name);
}

static const char *pool_called(const ctl_line *answer, value device, uint64_t number)
{
    const value_list *pools = ctl_list(answer, device, "pools");
    for (uint32_t i = 0; pools && i < pools->count; i++)
        if (ctl_number(answer, pools->items[i], "number") == number)
            return ctl_text(answer, pools->items[i], "name");
    return NULL;
}

/* The rows of a device that have the same labels are one sample, with their sum. */
static void streams_print(FILE *file, const metric *which, const told *one, value device)
{
    const ctl_line *answer = &one->answer;
    const value_list *list = ctl_list(answer, device, "streams");
    uint32_t count = list ? list->count : 0;
    stream_row *rows = count ? calloc(count, sizeof(*rows)) : NULL;
    for (uint32_t i = 0; rows && i < count; i++)
        rows[i] = (stream_row){ctl_number(answer, list->items[i], "pool"),
                               stream_called(answer, list->items[i]), list->items[i]};
    if (rows)
        qsort(rows, count, sizeof(*rows), stream_row_order);
    const char *pool = NULL;
    for (uint32_t i = 0, next; rows && i < count; i = next) {
        uint64_t sum = 0;
        for (next = i; next < count && stream_row_order(&rows[i], &rows[next]) == 0; next++)
            sum += ctl_number(answer, rows[next].item, which->key);
        if (i == 0 || rows[i].pool != rows[i - 1].pool)
            pool = pool_called(answer, device, rows[i].pool);
        fprintf(file, "tenure_stream_%s{", which->key);
        process_print(file, one);
        label_print_number(file, ",", "device", ctl_number(answer, device, "device"));
        label_print(file, ",", "pool", pool);
        label_print_number(file, ",", "number", rows[i].pool);
        label_print(file, ",", "stream", rows[i].name);
        fprintf(file, "} %llu\n", (unsigned long long)sum);
    }
    free(rows);
}

/* ---- all of them ---------------------------------------------------------------------------- */

static void samples_print(FILE *file, const metric *which, const char *kind, const told *one)
{
    const ctl_line *answer = &one->answer;
    static const char *const keys[] = {"devices", "devices", "tags", "held", "imports", "devices"};
    const value_list *list = ctl_list(answer, answer->parsed, keys[which->of]);
    for (uint32_t i = 0; list && i < list->count; i++) {
        uint64_t device = ctl_number(answer, list->items[i], "device");
        if (which->of == OF_STREAM) {
            streams_print(file, which, one, list->items[i]);
            continue;
        }
        if (which->of != OF_POOL) {
            sample_print(file, which, kind, one, list->items[i], device, i);
            continue;
        }
        const value_list *pools = ctl_list(answer, list->items[i], "pools");
        for (uint32_t p = 0; pools && p < pools->count; p++)
            sample_print(file, which, kind, one, pools->items[p], device, p);
    }
}

static void processes_print(FILE *file)
{
    fputs("# TYPE tenure_process info\n# HELP tenure_process Processes that use Tenure.\n", file);
    for (const told *each = all; each; each = each->next) {
        fputs("tenure_process_info{", file);
        process_print(file, each);
        label_print(file, ",", "tenure",
                    ctl_text(&each->greeting, each->greeting.parsed, "tenure"));
        fputs("} 1\n", file);
    }
}

void ctl_metrics_print(FILE *file)
{
    static const char *const kinds[] = {"device", "pool", "tag", "held", "imported", "stream"};
    processes_print(file);
    for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++) {
        const metric *each = &metrics[i];
        const char *kind = kinds[each->of];
        fprintf(file, "# TYPE tenure_%s_%s %s\n", kind, each->key, each->type);
        if (each->unit)
            fprintf(file, "# UNIT tenure_%s_%s %s\n", kind, each->key, each->unit);
        fprintf(file, "# HELP tenure_%s_%s %s\n", kind, each->key, each->help);
        for (const told *one = all; one; one = one->next)
            samples_print(file, each, kind, one);
    }
    fputs("# EOF\n", file);
    for (told *next; all; all = next) {
        next = all->next;
        ctl_line_release(&all->greeting);
        ctl_line_release(&all->answer);
        free(all);
    }
    all_end = &all;
}
