/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace reader: see trace.h for the format.
 *
 * Three parts, each of which knows only the one before it: lines (zlib, which also passes plain
 * text through), fields (five unsigned numbers and a letter), and meaning (ids, streams, sizes).
 * Whatever a file holds, the outcome is a trace or one sentence with file and line.
 */
#include "trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zlib.h>

#include <tenure/alloc.h>

/* ---- the reader's state --------------------------------------------------------------------- */

#define SLOT_NONE UINT32_MAX /* the id is known, but not live */

enum {
    READ_BYTES = 1 << 16,
    FIELDS_COUNT = 5,
};

/* Open addressing from ids to what is known of them; ids may be any 64-bit number but the largest,
 * which marks an empty place. Never more than half full. */
typedef struct id_entry {
    uint64_t id;
    uint64_t bytes; /* once freed: the index of the free among the operations */
    uint32_t slot;  /* SLOT_NONE once freed */
    uint16_t stream;
} id_entry;

#define ID_EMPTY UINT64_MAX

typedef struct reader {
    trace *out;
    const char *path;
    gzFile file;
    uint64_t line; /* of the line being looked at, counted from 1 */
    char *error;
    size_t error_bytes;

    char buffer[READ_BYTES];
    size_t buffer_length, buffer_at;

    id_entry *ids; /* ids_capacity of them, a power of two */
    size_t ids_capacity, ids_count;
    uint32_t *free_slots; /* slots to use again; as many places as ops_capacity */
    size_t free_slots_count;
    size_t ops_capacity, completions_capacity;
    uint64_t live_bytes;
    size_t live_count;
    int is_of_torch; /* the first line says so */
    int is_of_tenure, has_completions;
} reader;

/* One line, taken apart. */
typedef struct fields {
    char op;
    uint64_t id, bytes, stream, us;
} fields;

/* Writes "path:line: " and the sentence. Always returns -1. */
__attribute__((format(printf, 2, 3))) static int fail(reader *in, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    snprintf(in->error, in->error_bytes, "%s:%" PRIu64 ": %s", in->path, in->line, text);
    return -1;
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Fills the buffer. Returns 1 if there is something in it, 0 at the end, -1 on a bad file. */
static int buffer_fill(reader *in)
{
    int got = gzread(in->file, in->buffer, sizeof(in->buffer));
    int status = Z_OK;
    const char *reason = gzerror(in->file, &status);
    if (got < 0 || (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)) {
        if (status == Z_ERRNO)
            return fail(in, "cannot be read: %s", strerror(errno));
        return fail(in, "the gzip data are damaged here (%s); fetch the file again", reason);
    }
    if (status == Z_BUF_ERROR && got < (int)sizeof(in->buffer))
        return fail(in, "the gzip data end too early: the file is truncated; fetch it again");
    in->buffer_length = (size_t)got;
    in->buffer_at = 0;
    in->out->crc32 = (uint32_t)crc32(in->out->crc32, (const Bytef *)in->buffer, (uInt)got);
    return got > 0;
}

/* A byte that a trace can hold. Anything else means that the file is something else. */
static int is_text(unsigned char byte)
{
    return byte == '\t' || byte == '\r' || (byte >= 0x20 && byte < 0x7f);
}

/* Reads the next line, without its end, into `line`. Returns 1, 0 at the end, -1 on an error.
 * Comment lines may be of any length and hold any text; only their first bytes are kept. */
static int line_read(reader *in, char line[TRACE_LINE_BYTES_MAX + 1])
{
    size_t length = 0;
    in->line++;
    for (;;) {
        if (in->buffer_at == in->buffer_length) {
            int more = buffer_fill(in);
            if (more < 0)
                return -1;
            if (more == 0) {
                line[length] = '\0';
                return length > 0;
            }
        }
        unsigned char byte = (unsigned char)in->buffer[in->buffer_at++];
        if (byte == '\n')
            break;
        int is_comment = length > 0 && line[0] == '#';
        if (!is_text(byte) && !(is_comment && byte >= 0x80))
            return fail(in, "byte 0x%02x is not text: this is not a trace", byte);
        if (length < TRACE_LINE_BYTES_MAX)
            line[length++] = (char)byte;
        else if (!is_comment)
            return fail(in, "the line is longer than %d bytes: this is not a trace",
                        TRACE_LINE_BYTES_MAX);
    }
    if (length > 0 && line[length - 1] == '\r')
        length--;
    line[length] = '\0';
    return 1;
}

/* ---- fields --------------------------------------------------------------------------------- */

/* Reads one unsigned decimal number that fills the text. */
static int number_parse(reader *in, const char *text, const char *what, uint64_t *value)
{
    if (*text == '\0')
        return fail(in, "the field \"%s\" is empty", what);
    if (*text == '-')
        return fail(in, "%s is negative: %.40s", what, text);
    uint64_t sum = 0;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at < '0' || *at > '9')
            return fail(in, "%s is not a number: \"%.40s\"", what, text);
        uint64_t digit = (uint64_t)(*at - '0');
        if (__builtin_mul_overflow(sum, (uint64_t)10, &sum) ||
            __builtin_add_overflow(sum, digit, &sum))
            return fail(in, "%s is too large for 64 bits: %.40s", what, text);
    }
    *value = sum;
    return 0;
}

/* Takes a line apart in place. */
static int fields_parse(reader *in, char *line, fields *result)
{
    char *parts[FIELDS_COUNT];
    size_t count = 0;
    for (char *at = line; at; count++) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma++ = '\0';
        if (count < FIELDS_COUNT)
            parts[count] = at;
        at = comma;
    }
    if (count != FIELDS_COUNT)
        return fail(in, "%zu field%s where \"op,id,bytes,stream,us\" has %d", count,
                    count == 1 ? "" : "s", FIELDS_COUNT);
    if (strcmp(parts[0], "a") != 0 && strcmp(parts[0], "F") != 0 && strcmp(parts[0], "f") != 0)
        return fail(in, "unknown operation \"%.40s\"; known are a, F and f", parts[0]);
    result->op = parts[0][0];
    if (number_parse(in, parts[1], "id", &result->id) != 0 ||
        number_parse(in, parts[2], "bytes", &result->bytes) != 0 ||
        number_parse(in, parts[3], "stream", &result->stream) != 0 ||
        number_parse(in, parts[4], "us", &result->us) != 0)
        return -1;
    if (result->id == ID_EMPTY)
        return fail(in, "id is too large: %" PRIu64 " is the largest", ID_EMPTY - 1);
    return 0;
}

/* ---- ids and streams ------------------------------------------------------------------------ */

/* Mixes all bits of an id, because ids are often addresses with the same low bits. */
static size_t id_hash(uint64_t id)
{
    id = (id ^ (id >> 32)) * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(id ^ (id >> 29));
}

/* The entry of an id, or the empty place where it belongs. */
static id_entry *id_place(id_entry *ids, size_t capacity, uint64_t id)
{
    size_t at = id_hash(id) & (capacity - 1);
    while (ids[at].id != ID_EMPTY && ids[at].id != id)
        at = (at + 1) & (capacity - 1);
    return &ids[at];
}

static int ids_grow(reader *in)
{
    size_t capacity = in->ids_capacity ? in->ids_capacity * 2 : 1024;
    id_entry *ids = malloc(capacity * sizeof(*ids));
    if (!ids)
        return fail(in, "no host memory for the ids of this trace");
    for (size_t i = 0; i < capacity; i++)
        ids[i].id = ID_EMPTY;
    for (size_t i = 0; i < in->ids_capacity; i++)
        if (in->ids[i].id != ID_EMPTY)
            *id_place(ids, capacity, in->ids[i].id) = in->ids[i];
    free(in->ids);
    in->ids = ids;
    in->ids_capacity = capacity;
    return 0;
}

/* The index of a stream's number in the trace, adding it if it is new. Traces have few streams
 * and come in runs of one, so the search from the front is short. */
static int stream_index(reader *in, uint64_t number, uint16_t *index)
{
    trace *out = in->out;
    for (size_t i = 0; i < out->streams_count; i++) {
        if (out->streams[i] == number) {
            *index = (uint16_t)i;
            return 0;
        }
    }
    if (out->streams_count == TRACE_STREAMS_MAX)
        return fail(in, "more than %d different streams", TRACE_STREAMS_MAX);
    out->streams[out->streams_count] = number;
    *index = (uint16_t)out->streams_count++;
    return 0;
}

/* ---- meaning -------------------------------------------------------------------------------- */

/* Notes when an operation is, and what is odd about that. */
static void time_accept(reader *in, uint64_t us)
{
    trace *out = in->out;
    if (out->ops_count == 0)
        out->us_first = out->us_last = us;
    if (us >= out->us_last) {
        if (us - out->us_last > out->pause_us_most) {
            out->pause_us_most = us - out->us_last;
            out->pause_line = in->line;
        }
        out->us_last = us;
        return;
    }
    if (out->back_count++ == 0)
        out->back_line = in->line;
    if (out->us_last - us > out->back_us_most)
        out->back_us_most = out->us_last - us;
}

/* Appends one operation. */
static int op_append(reader *in, trace_op op)
{
    trace *out = in->out;
    time_accept(in, op.us);
    if (out->ops_count == in->ops_capacity) {
        size_t capacity = in->ops_capacity ? in->ops_capacity * 2 : 4096;
        trace_op *ops = realloc(out->ops, capacity * sizeof(*ops));
        if (ops)
            out->ops = ops;
        uint32_t *slots = realloc(in->free_slots, capacity * sizeof(*slots));
        if (slots)
            in->free_slots = slots;
        if (!ops || !slots)
            return fail(in, "no host memory for the operations of this trace");
        in->ops_capacity = capacity;
    }
    out->ops[out->ops_count++] = op;
    return 0;
}

static int alloc_accept(reader *in, const fields *line)
{
    trace *out = in->out;
    if (line->bytes == 0)
        return fail(in, "allocation of 0 bytes");
    if (line->bytes > TNR_BYTES_MAX)
        return fail(in, "allocation of %" PRIu64 " bytes: the most is 2^60", line->bytes);
    if (in->ids_count * 2 >= in->ids_capacity && ids_grow(in) != 0)
        return -1;
    id_entry *entry = id_place(in->ids, in->ids_capacity, line->id);
    if (entry->id == line->id && entry->slot != SLOT_NONE)
        return fail(in, "id %" PRIu64 " is allocated while it is still live", line->id);
    uint16_t stream = 0;
    if (stream_index(in, line->stream, &stream) != 0)
        return -1;
    if (__builtin_add_overflow(in->live_bytes, line->bytes, &in->live_bytes))
        return fail(in, "the live bytes exceed 64 bits");
    if (out->slots_count == SLOT_NONE)
        return fail(in, "more than %" PRIu32 " blocks live at once", SLOT_NONE);
    uint32_t slot = in->free_slots_count ? in->free_slots[--in->free_slots_count]
                                         : (uint32_t)out->slots_count++;
    if (entry->id == ID_EMPTY)
        in->ids_count++;
    *entry = (id_entry){.id = line->id, .bytes = line->bytes, .slot = slot, .stream = stream};
    in->live_count++;
    out->allocs_count++;
    if (in->live_bytes > out->peak_live_bytes) {
        out->peak_live_bytes = in->live_bytes;
        out->peak_op = out->ops_count;
    }
    return op_append(in, (trace_op){line->bytes, line->us, slot, stream, 1, 0});
}

/* The line f: of a free that is not directly before it, when it comes is kept. An id that is live
 * again is another block's by now. */
static int completion_accept(reader *in, const id_entry *entry)
{
    trace *out = in->out;
    if (entry->slot != SLOT_NONE)
        return 0;
    trace_op *freed = &out->ops[entry->bytes];
    if (entry->bytes + 1 == out->ops_count)
        freed->is_late = 0;
    if (!freed->is_late)
        return 0;
    if (out->completions_count == in->completions_capacity) {
        size_t capacity = in->completions_capacity ? in->completions_capacity * 2 : 1024;
        trace_completion *more = realloc(out->completions, capacity * sizeof(*more));
        if (!more)
            return fail(in, "no host memory for the operations of this trace");
        out->completions = more;
        in->completions_capacity = capacity;
    }
    out->completions[out->completions_count++] =
        (trace_completion){out->ops_count, (size_t)entry->bytes};
    return 0;
}

static int free_accept(reader *in, const fields *line)
{
    id_entry *entry = in->ids_capacity ? id_place(in->ids, in->ids_capacity, line->id) : NULL;
    if (!entry || entry->id == ID_EMPTY)
        return fail(in, "id %" PRIu64 " is freed but was never allocated", line->id);
    if (line->op == 'f') {
        in->has_completions = 1;
        return completion_accept(in, entry);
    }
    if (entry->slot == SLOT_NONE)
        return fail(in, "id %" PRIu64 " is freed twice", line->id);
    trace_op op = {entry->bytes, line->us, entry->slot, entry->stream, 0, 1};
    entry->slot = SLOT_NONE;
    entry->bytes = in->out->ops_count;
    in->live_bytes -= op.bytes;
    in->live_count--;
    if (op_append(in, op) != 0)
        return -1;
    in->free_slots[in->free_slots_count++] = op.slot;
    return 0;
}

/* "torch=2.11.0 gpu=H200" in the first line of a recording. */
static void recorded_take(reader *in, const char *line)
{
    char version[32] = "", gpu[32] = "";
    const char *torch_at = strstr(line, " torch="), *gpu_at = strstr(line, " gpu=");
    if (torch_at)
        sscanf(torch_at, " torch=%31[^ ,;]", version);
    if (gpu_at)
        sscanf(gpu_at, " gpu=%31[^ ,;]", gpu);
    if (version[0] || in->is_of_torch)
        snprintf(in->out->recorded, sizeof(in->out->recorded), "PyTorch%s%s%s%s",
                 version[0] ? " " : "", version, gpu[0] ? ", " : "", gpu);
}

/* The comments that `tenure snapshot trace` writes say what PyTorch reserved. */
static void comment_take(reader *in, const char *line)
{
    uint64_t at_end, at_peak;
    if (in->line == 1) {
        in->is_of_torch = strncmp(line, "# From a snapshot of PyTorch;", 29) == 0;
        in->is_of_tenure = strstr(line, "enure") != NULL;
        recorded_take(in, line);
    }
    if (in->is_of_torch &&
        sscanf(line,
               "# Its allocator had %" SCNu64 " bytes reserved at the end and %" SCNu64 " at its",
               &at_end, &at_peak) == 2)
        in->out->recorded_peak_bytes = at_peak;
}

/* Without lines f, or with Tenure's, which come when the memory is handed out again, nothing is
 * known of when PyTorch would have considered a free complete: at once. */
static void completions_settle(reader *in)
{
    if (in->has_completions && !in->is_of_tenure)
        return;
    for (size_t i = 0; i < in->out->ops_count; i++)
        in->out->ops[i].is_late = 0;
    in->out->completions_count = 0;
}

/* Reads all lines. */
static int trace_parse(reader *in)
{
    char line[TRACE_LINE_BYTES_MAX + 1];
    int more;
    while ((more = line_read(in, line)) > 0) {
        if (line[0] == '#')
            comment_take(in, line);
        if (line[0] == '#' || (in->line == 1 && strcmp(line, TRACE_HEADER) == 0))
            continue;
        fields parsed;
        if (fields_parse(in, line, &parsed) != 0)
            return -1;
        int status = parsed.op == 'a' ? alloc_accept(in, &parsed) : free_accept(in, &parsed);
        if (status != 0)
            return -1;
    }
    if (more == 0 && in->out->allocs_count == 0)
        return fail(in, "the file ends without any allocation");
    in->out->live_at_end = in->live_count;
    completions_settle(in);
    return more;
}

/* "/some/where/gpt2_train.csv.gz" is the trace gpt2_train. */
static void trace_name_set(trace *out, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (strcmp(path, "-") == 0)
        path = "stdin";
    snprintf(out->name, sizeof(out->name), "%s", slash ? slash + 1 : path);
    static const char *const suffixes[] = {".gz", ".csv"};
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        size_t length = strlen(out->name);
        size_t suffix = strlen(suffixes[i]);
        if (length > suffix && strcmp(out->name + length - suffix, suffixes[i]) == 0)
            out->name[length - suffix] = '\0';
    }
}

int trace_read(trace *result, const char *path, char *error, size_t error_bytes)
{
    memset(result, 0, sizeof(*result));
    trace_name_set(result, path);
    reader *in = calloc(1, sizeof(*in));
    if (!in) {
        snprintf(error, error_bytes, "%s: no host memory to read it", path);
        return -1;
    }
    int is_input = strcmp(path, "-") == 0;
    if (is_input)
        path = "standard input";
    in->out = result;
    in->path = path;
    in->error = error;
    in->error_bytes = error_bytes;
    int status = -1;
    int copy = is_input ? dup(STDIN_FILENO) : -1; /* for gzclose to close */
    in->file = !is_input ? gzopen(path, "rb") : copy >= 0 ? gzdopen(copy, "rb") : NULL;
    if (!in->file) {
        if (copy >= 0)
            close(copy);
        snprintf(error, error_bytes, "%s: cannot be opened: %s", path,
                 errno ? strerror(errno) : "no host memory");
    } else {
        status = trace_parse(in);
        gzclose_r(in->file);
    }
    free(in->ids);
    free(in->free_slots);
    free(in);
    if (status != 0)
        trace_release(result);
    return status;
}

void trace_release(trace *result)
{
    free(result->ops);
    free(result->completions);
    memset(result, 0, sizeof(*result));
}
