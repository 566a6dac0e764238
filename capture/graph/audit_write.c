/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Audits as text for people and as JSON: see audit.h. What the JSON says is fixed by
 * docs/audit.schema.json; VERSION grows when a key changes its meaning or goes away.
 */
#include "base/plural.h"
#include "graph/audit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/prim/file.h"
#include "base/prim/process.h"
#include "base/prim/socket.h"
#include "memory/pool/handle.h"
#include "memory/pool/pool.h"

enum {
    VERSION = 1,
    BUFFER_BYTES = 16384,
    FORMAT_MAX = 512 /* bytes of one formatted piece; names are not formatted */
};

/* The name of a pool. 0: it is the default one, or has just ended. */
static int pool_name(tnr_pool handle, char name[TNRI_POOL_NAME_BYTES])
{
    tnr_pool pool = tnri_pool_find(handle);
    if (pool == NULL)
        return 0;
    memcpy(name, pool->account.name, TNRI_POOL_NAME_BYTES);
    tnri_pool_drop(pool);
    return 1;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* A file with a buffer before it. After an error it swallows what it is given. */
typedef struct writer {
    int file;
    int error; /* errno; 0: none */
    size_t used;
    char buffer[BUFFER_BYTES];
} writer;

static void writer_flush(writer *to)
{
    size_t done = 0;
    while (done < to->used && to->error == 0) {
        int64_t wrote = tnri_file_write(to->file, to->buffer + done, to->used - done);
        if (wrote > 0) {
            done += (size_t)wrote;
        } else if (wrote < 0 && errno == EAGAIN) {
            tnri_file_wait wait = {.file = to->file, .wanted = TNRI_WAIT_WRITE};
            if (tnri_wait_any(&wait, 1, -1) < 0 && errno != EINTR)
                to->error = errno;
        } else if (wrote == 0) {
            to->error = EIO;
        } else if (errno != EINTR) {
            to->error = errno;
        }
    }
    to->used = 0;
}

static void write_bytes(writer *to, const char *text, size_t bytes)
{
    while (bytes > 0) {
        size_t piece = bytes < BUFFER_BYTES - to->used ? bytes : BUFFER_BYTES - to->used;
        memcpy(to->buffer + to->used, text, piece);
        to->used += piece;
        text += piece;
        bytes -= piece;
        if (to->used == BUFFER_BYTES)
            writer_flush(to);
    }
}

static void write_text(writer *to, const char *text)
{
    write_bytes(to, text, strlen(text));
}

static void write_format(writer *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void write_format(writer *to, const char *format, ...)
{
    char piece[FORMAT_MAX];
    va_list arguments;
    va_start(arguments, format);
    int bytes = vsnprintf(piece, sizeof(piece), format, arguments);
    va_end(arguments);
    if (bytes > 0)
        write_bytes(to, piece, (size_t)bytes < sizeof(piece) ? (size_t)bytes : sizeof(piece) - 1);
}

/* ---- names ---------------------------------------------------------------------------------- */

static const char *const verdict_names[] = {
#define VERDICT_NAME(name, text) #name,
    TNR_AUDIT_VERDICT_LIST(VERDICT_NAME)
#undef VERDICT_NAME
};

static const char *const verdict_texts[] = {
#define VERDICT_TEXT(name, text) text,
    TNR_AUDIT_VERDICT_LIST(VERDICT_TEXT)
#undef VERDICT_TEXT
};

static const char *place_name(tnr_audit_place place)
{
    return place == TNR_AUDIT_KERNEL ? "kernel" : place == TNR_AUDIT_COPY ? "copy" : "set";
}

/* How many of the unread nodes are told one by one. */
static size_t unread_told(const tnri_report *report)
{
    return report->sums.unread < TNRI_UNREAD_MAX ? (size_t)report->sums.unread : TNRI_UNREAD_MAX;
}

static const char *node_kind(int type)
{
    static const char *const kinds[] = {
        [CU_GRAPH_NODE_TYPE_KERNEL] = "kernel",
        [CU_GRAPH_NODE_TYPE_MEMCPY] = "copy",
        [CU_GRAPH_NODE_TYPE_MEMSET] = "set",
        [CU_GRAPH_NODE_TYPE_GRAPH] = "child graph",
        [CU_GRAPH_NODE_TYPE_BATCH_MEM_OP] = "batch of memory operations",
        [CU_GRAPH_NODE_TYPE_CONDITIONAL] = "conditional",
    };
    int is_known = type >= 0 && (size_t)type < sizeof(kinds) / sizeof(kinds[0]);
    return is_known && kinds[type] != NULL ? kinds[type] : "of an unknown kind";
}

static int is_proved(const tnr_audit *sums)
{
    return sums->unproved == 0 && sums->unread == 0;
}

/* ---- text ----------------------------------------------------------------------------------- */

/* Columns of the table; a kernel's name follows them, because it may be very long. */
typedef enum column {
    COLUMN_NODE,
    COLUMN_DEPTH,
    COLUMN_PLACE,
    COLUMN_ADDRESS,
    COLUMN_VERDICT,
    COLUMN_SAFE,
    COLUMN_BLOCK,
    COLUMN_BYTES,
    COLUMN_POOL,
    COLUMN_OWNER,
    COLUMNS
} column;

enum { CELL_BYTES = 96 };
typedef char cells[COLUMNS][CELL_BYTES];

static const char *const headings[COLUMNS] = {"node", "depth", "where", "address", "verdict",
                                              "safe", "block", "bytes", "pool",    "graph"};
static const char is_number[COLUMNS] = {
    [COLUMN_NODE] = 1, [COLUMN_DEPTH] = 1, [COLUMN_BYTES] = 1, [COLUMN_OWNER] = 1};

/* Where in its node an address stands. */
static void place_say(const tnr_audit_finding *finding, char *text)
{
    if (finding->place == TNR_AUDIT_KERNEL)
        snprintf(text, CELL_BYTES, "kernel +%zu", finding->offset);
    else if (finding->place == TNR_AUDIT_COPY)
        snprintf(text, CELL_BYTES, finding->offset == 0 ? "copy to" : "copy from");
    else
        snprintf(text, CELL_BYTES, "set");
}

static void row_say(const tnr_audit_finding *finding, cells row)
{
    snprintf(row[COLUMN_NODE], CELL_BYTES, "%" PRIu64, finding->node);
    snprintf(row[COLUMN_DEPTH], CELL_BYTES, "%u", finding->depth);
    place_say(finding, row[COLUMN_PLACE]);
    snprintf(row[COLUMN_ADDRESS], CELL_BYTES, "0x%" PRIxPTR, finding->address);
    snprintf(row[COLUMN_VERDICT], CELL_BYTES, "%s", verdict_names[finding->verdict]);
    snprintf(row[COLUMN_SAFE], CELL_BYTES, "%s", finding->is_safe ? "yes" : "NO");
    if (finding->block != 0) {
        snprintf(row[COLUMN_BLOCK], CELL_BYTES, "0x%" PRIxPTR, finding->block);
        snprintf(row[COLUMN_BYTES], CELL_BYTES, "%zu", finding->bytes);
    } else {
        snprintf(row[COLUMN_BLOCK], CELL_BYTES, "-");
        snprintf(row[COLUMN_BYTES], CELL_BYTES, "-");
    }
    char name[TNRI_POOL_NAME_BYTES];
    snprintf(row[COLUMN_POOL], CELL_BYTES, "%s", pool_name(finding->pool, name) ? name : "-");
    if (finding->owner != 0)
        snprintf(row[COLUMN_OWNER], CELL_BYTES, "%" PRIu64, finding->owner);
    else
        snprintf(row[COLUMN_OWNER], CELL_BYTES, "-");
}

/* One line of the table. */
static void row_write(writer *to, cells row, const int *widths, const char *kernel)
{
    for (int c = 0; c < COLUMNS; c++)
        write_format(to, "  %*s", is_number[c] ? widths[c] : -widths[c], row[c]);
    write_text(to, "  ");
    write_text(to, kernel);
    write_text(to, "\n");
}

static void table_write(writer *to, const tnri_report *report)
{
    cells row;
    int widths[COLUMNS];
    for (int c = 0; c < COLUMNS; c++)
        widths[c] = (int)strlen(headings[c]);
    for (size_t i = 0; i < report->findings_count; i++) {
        row_say(&report->findings[i], row);
        for (int c = 0; c < COLUMNS; c++)
            if ((int)strlen(row[c]) > widths[c])
                widths[c] = (int)strlen(row[c]);
    }
    for (int c = 0; c < COLUMNS; c++)
        snprintf(row[c], CELL_BYTES, "%s", headings[c]);
    row_write(to, row, widths, "kernel");
    for (size_t i = 0; i < report->findings_count; i++) {
        const char *kernel = report->findings[i].kernel;
        row_say(&report->findings[i], row);
        row_write(to, row, widths, kernel == NULL ? "-" : kernel);
    }
    write_text(to, "\n");
}

/* How often each verdict was given, and what it means. */
static void verdicts_write(writer *to, const tnri_report *report)
{
    uint64_t given[TNR_AUDIT_VERDICT_COUNT] = {0};
    for (size_t i = 0; i < report->findings_count; i++)
        given[report->findings[i].verdict]++;
    for (int v = 0; v < TNR_AUDIT_VERDICT_COUNT; v++)
        if (given[v] > 0)
            write_format(to, "  %-8s  %8" PRIu64 "  %s\n", verdict_names[v], given[v],
                         verdict_texts[v]);
    if (report->findings_count > 0)
        write_text(to, "\n");
}

/* The nodes that the driver does not tell. */
static void unread_write(writer *to, const tnri_report *report)
{
    size_t told = unread_told(report);
    for (size_t i = 0; i < told; i++) {
        const tnri_unread *node = &report->unread[i];
        write_format(to, "  not read: node %" PRIu64 ", %s%s", node->node, node_kind(node->type),
                     node->kernel == NULL ? "" : " ");
        write_text(to, node->kernel == NULL ? "" : node->kernel);
        write_text(to, "\n");
    }
    if (report->sums.unread > told)
        write_format(to, "  and %" PRIu64 " more\n", report->sums.unread - told);
    if (told > 0)
        write_text(to, "\n");
}

static void sums_write(writer *to, const tnr_audit *sums)
{
    write_format(to,
                 "%" PRIu64 " node%s: %" PRIu64 " kernel%s, %" PRIu64 " cop%s, %" PRIu64
                 " set%s, %" PRIu64 " other%s; %" PRIu64 " child graph%s walked into\n",
                 sums->nodes, tnri_plural(sums->nodes), sums->kernels, tnri_plural(sums->kernels),
                 sums->copies, sums->copies == 1 ? "y" : "ies", sums->sets, tnri_plural(sums->sets),
                 sums->others, tnri_plural(sums->others), sums->children,
                 tnri_plural(sums->children));
    write_format(to,
                 "%" PRIu64 " address%s found, %" PRIu64 " proved, %" PRIu64 " unproved; %" PRIu64
                 " node%s unread\n",
                 sums->found, sums->found == 1 ? "" : "es", sums->proved, sums->unproved,
                 sums->unread, tnri_plural(sums->unread));
    if (is_proved(sums)) {
        write_text(to, "The guarantee holds for every address found.\n");
        return;
    }
    write_text(to, "The guarantee is NOT proved:");
    if (sums->unproved > 0)
        write_format(to, " it does not hold for %" PRIu64 " address%s", sums->unproved,
                     sums->unproved == 1 ? "" : "es");
    if (sums->unread > 0)
        write_format(to, "%s the driver does not tell what %" PRIu64 " node%s refer%s to",
                     sums->unproved > 0 ? ", and" : "", sums->unread, tnri_plural(sums->unread),
                     sums->unread == 1 ? "s" : "");
    write_text(to, ".\n");
}

static void report_say(writer *to, const tnri_report *report)
{
    if (report->graph == 0)
        write_text(to, "Audit of a CUDA graph that Tenure keeps nothing for\n\n");
    else
        write_format(to, "Audit of \"%s\" (graph %" PRIu64 " on device %d)\n\n", report->name,
                     report->graph, report->device);
    if (report->findings_count > 0)
        table_write(to, report);
    verdicts_write(to, report);
    unread_write(to, report);
    sums_write(to, &report->sums);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void json_put(void *to, const char *bytes, size_t count)
{
    write_bytes(to, bytes, count);
}

static void json_text(writer *to, const char *text)
{
    tnri_json_quote(json_put, to, text);
}

static void json_text_or_null(writer *to, const char *text)
{
    if (text == NULL)
        write_text(to, "null");
    else
        json_text(to, text);
}

static void json_finding(writer *to, const tnr_audit_finding *finding)
{
    write_format(to,
                 "    {\"node\": %" PRIu64 ", \"depth\": %u, \"place\": \"%s\", \"offset\": %zu",
                 finding->node, finding->depth, place_name(finding->place), finding->offset);
    write_format(to, ", \"address\": \"0x%" PRIxPTR "\"", finding->address);
    if (finding->block != 0)
        write_format(to, ", \"block\": \"0x%" PRIxPTR "\", \"bytes\": %zu", finding->block,
                     finding->bytes);
    else
        write_text(to, ", \"block\": null, \"bytes\": null");
    write_text(to, ", \"pool\": ");
    char name[TNRI_POOL_NAME_BYTES];
    json_text_or_null(to, pool_name(finding->pool, name) ? name : NULL);
    if (finding->owner != 0)
        write_format(to, ", \"owner\": %" PRIu64, finding->owner);
    else
        write_text(to, ", \"owner\": null");
    write_format(to, ", \"verdict\": \"%s\", \"is_safe\": %s, \"kernel\": ",
                 verdict_names[finding->verdict], finding->is_safe ? "true" : "false");
    json_text_or_null(to, finding->kernel);
    write_text(to, "}");
}

static void json_unread(writer *to, const tnri_report *report)
{
    size_t told = unread_told(report);
    write_text(to, ",\n  \"unread\": [");
    for (size_t i = 0; i < told; i++) {
        const tnri_unread *node = &report->unread[i];
        write_format(to,
                     "%s\n    {\"node\": %" PRIu64 ", \"depth\": %u, \"kind\": \"%s\", "
                     "\"type\": %d, \"kernel\": ",
                     i == 0 ? "" : ",", node->node, node->depth, node_kind(node->type), node->type);
        json_text_or_null(to, node->kernel);
        write_text(to, "}");
    }
    write_text(to, told == 0 ? "]" : "\n  ]");
}

static void report_json(writer *to, const tnri_report *report)
{
    const tnr_audit *sums = &report->sums;
    write_format(to, "{\n  \"tenure_audit_version\": %d,\n  \"graph\": ", VERSION);
    if (report->graph == 0) {
        write_text(to, "null");
    } else {
        write_format(to, "{\"number\": %" PRIu64 ", \"name\": ", report->graph);
        json_text(to, report->name);
        write_format(to, ", \"device\": %d}", report->device);
    }
    write_format(to, ",\n  \"is_proved\": %s", is_proved(sums) ? "true" : "false");
    write_format(
        to,
        ",\n  \"sums\": {\"nodes\": %" PRIu64 ", \"kernels\": %" PRIu64 ", \"copies\": %" PRIu64
        ", \"sets\": %" PRIu64 ", \"others\": %" PRIu64 ", \"children\": %" PRIu64,
        sums->nodes, sums->kernels, sums->copies, sums->sets, sums->others, sums->children);
    write_format(to,
                 ", \"unread\": %" PRIu64 ", \"found\": %" PRIu64 ", \"proved\": %" PRIu64
                 ", \"unproved\": %" PRIu64 "}",
                 sums->unread, sums->found, sums->proved, sums->unproved);
    json_unread(to, report);
    write_text(to, ",\n  \"findings\": [");
    for (size_t i = 0; i < report->findings_count; i++) {
        write_text(to, i == 0 ? "\n" : ",\n");
        json_finding(to, &report->findings[i]);
    }
    write_text(to, report->findings_count == 0 ? "]\n}\n" : "\n  ]\n}\n");
}

tnr_status tnri_report_write(const tnri_report *report, tnr_audit_format format, int file)
{
    writer to = {.file = file};
    if (format == TNR_AUDIT_JSON)
        report_json(&to, report);
    else
        report_say(&to, report);
    writer_flush(&to);
    if (to.error == 0)
        return TNR_OK;
    char why[128];
    const char *text = tnri_system_text(to.error, why, sizeof(why));
    return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                      "writing the audit to file descriptor %d failed: %s. What is there is not "
                      "complete.",
                      file, text);
}
