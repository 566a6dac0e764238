/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every file must hold to, whatever is in it: a harness for libFuzzer, and for replay.c.
 *
 * Reading ends with a model or with a sentence, within its budget, and gives all memory back. From
 * a model everything can be made; and what is written in either format is read again, with the
 * same segments, blocks and waits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "advice.h"
#include "diff.h"
#include "encode_chrome.h"
#include "encode_trace.h"
#include "fuzz.h"
#include "holders.h"
#include "json_read.h"
#include "read.h"
#include "thin.h"

enum { BUDGET_BYTES = 64 << 20 };

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* A file in memory, and an output onto it. */
static int file_begin(output *out)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    MUST(fd >= 0 && output_open_fd(out, dup(fd), 0) == 0);
    return fd;
}

/* Reads what was written, which must succeed, and compares it with where it came from. */
static void read_again(int fd, output *out, const model *from)
{
    char error[READ_ERROR_BYTES] = "";
    budget limits;
    model again;
    size_t length = (size_t)lseek(fd, 0, SEEK_END);
    MUST(!out->failed && length > 0);
    char *bytes = mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 0);
    MUST(bytes != MAP_FAILED);
    budget_start(&limits, (size_t)BUDGET_BYTES * 16);
    model_start(&again, &limits);
    read_result result = snapshot_read_memory(&again, "again", bytes, length, error, sizeof(error));
    if (result != READ_OK)
        fprintf(stderr, "%s\n", error);
    MUST(result == READ_OK);
    MUST(again.segments.count == from->segments.count);
    MUST(again.blocks.count == from->blocks.count);
    MUST(again.waits.count == from->waits.count);
    /* A record becomes two at most, or one for each segment that its memory is in later, and a
     * history without the moment of its snapshot is given one. */
    MUST(again.records.count <= from->records.count * (2 + from->segments.count) + 1);
    model_release(&again);
    MUST(limits.used_bytes == 0);
    munmap(bytes, length);
    close(fd);
}

static void holders_try(const model *in)
{
    array rows;
    scatter free_memory;
    char label[80];
    for (int kind = HOLDER_POOL; kind <= HOLDER_SIZE; kind++) {
        (void)holders_find(in, (holder_kind)kind, &rows);
        for (size_t i = 0; i < rows.count && kind == HOLDER_STACK; i++)
            (void)stack_label(in, MODEL_AT(rows, holder, i)->key, label, sizeof(label));
        array_release(&rows, in->limits, sizeof(holder));
    }
    scatter_find(in, &free_memory);
    MUST(free_memory.free_bytes <= free_memory.reserved_bytes);
    (void)waiting_find(in, &rows);
    array_release(&rows, in->limits, sizeof(waiting));
}

static void advice_try(const model *in)
{
    array found, peaks;
    if (advice_find(in, &found, &peaks) == 0)
        for (size_t i = 0; i < found.count; i++)
            MUST(MODEL_AT(found, advice, i)->device < in->devices.count);
    advice_release(in, &found, &peaks);
}

static void thin_count(void *context, const record *one, size_t stands_for,
                       const course_sums *after)
{
    (void)after;
    MUST((one->kind == RECORD_KINDS_COUNT) == (stands_for > 0));
    *(size_t *)context += stands_for > 0 ? stands_for : 1;
}

/* Each record is written, or stood for, once. */
static void thin_try(const model *in)
{
    thin plan;
    size_t written = 0;
    if (thin_start(&plan, in, in->records.count / 2, (thin_window){0, -1}) == 0 &&
        thin_run(&plan, thin_count, &written) == 0)
        MUST(written == in->records.count);
    thin_release(&plan);
}

/* A snapshot compared with itself has not grown. */
static void diff_try(const model *in)
{
    diff found;
    if (diff_run(in, in, &found) == 0) {
        for (size_t i = 0; i < found.rows.count; i++) {
            const diff_row *row = MODEL_AT(found.rows, diff_row, i);
            MUST(row->before.bytes == row->after.bytes && row->new_count == 0);
        }
    }
    diff_release(&found);
}

/* Trace events are JSON, however odd the history is. */
static void chrome_try(const model *in, output *out)
{
    losses lost = {.count = 0};
    budget limits;
    value_heap heap;
    value document, events;
    input from;
    int fd = file_begin(out);
    int code = encode_chrome(in, 1000, out, &lost);
    MUST(output_close(out, 1) == 0);
    size_t length = (size_t)lseek(fd, 0, SEEK_END);
    if (code == 0) {
        char *bytes = mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 0);
        MUST(bytes != MAP_FAILED);
        budget_start(&limits, (size_t)BUDGET_BYTES * 16);
        MUST(value_heap_start(&heap, &limits) == 0);
        input_open_memory(&from, "events", bytes, length);
        MUST(json_read(&from, &heap, NULL, &document) == 0);
        MUST(value_get(&heap, document, "traceEvents", &events));
        input_close(&from);
        value_heap_release(&heap);
        munmap(bytes, length);
    }
    close(fd);
}

static void all_try(const model *in)
{
    losses lost = {.count = 0};
    trace_counts counts;
    output *out = malloc(sizeof(*out));
    MUST(out);
    holders_try(in);
    advice_try(in);
    thin_try(in);
    diff_try(in);
    int fd = file_begin(out);
    encode_tenure(in, out);
    MUST(output_close(out, 1) == 0);
    read_again(fd, out, in);
    fd = file_begin(out);
    int code = encode_torch(in, out, &lost);
    MUST(output_close(out, 1) == 0);
    if (code == 0)
        read_again(fd, out, in);
    else
        close(fd);
    chrome_try(in, out);
    for (size_t i = 0; i < in->devices.count; i++) {
        fd = file_begin(out);
        (void)encode_trace(in, i, out, &counts, &lost);
        MUST(output_close(out, 1) == 0);
        MUST(counts.frees <= counts.allocations);
        close(fd);
    }
    free(out);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t count)
{
    char error[READ_ERROR_BYTES] = "";
    budget limits;
    model snapshot;
    budget_start(&limits, BUDGET_BYTES);
    model_start(&snapshot, &limits);
    read_result result =
        snapshot_read_memory(&snapshot, "input", bytes, count, error, sizeof(error));
    if (result == READ_OK)
        all_try(&snapshot);
    else
        MUST(strncmp(error, "input: ", 7) == 0 && strlen(error) > 10);
    MUST(limits.peak_bytes <= limits.limit_bytes);
    model_release(&snapshot);
    MUST(limits.used_bytes == 0);
    return 0;
}
