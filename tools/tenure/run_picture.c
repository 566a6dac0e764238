/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a journal to a snapshot: see run_picture.h. A journal knows what the program asked for, but
 * not the chunks below. So each block is a segment of its own, and nothing is free.
 */
#include "run_picture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tenure/alloc.h>

#include "encode.h"
#include "model.h"
#include "shown.h"

enum { GRAIN = 512, POOLS = 2 }; /* what blocks are rounded to; a pool for each kind */

typedef struct maker {
    const journal *book;
    model out;
    uint32_t modules[JOURNAL_MODULES]; /* strings */
    uint32_t stacks[JOURNAL_STACKS];   /* index in the model + 1; 0: not there yet */
    const journal_block **live;        /* in the order of addresses */
    size_t live_count;
} maker;

/* ---- names ---------------------------------------------------------------------------------- */

static int string_add(maker *self, const char *text, uint32_t *number)
{
    const char *copy = model_text(&self->out, text, strlen(text));
    const char **made = copy ? MODEL_ADD(&self->out, &self->out.strings, const char *) : NULL;
    if (!made)
        return -1;
    *made = copy;
    *number = (uint32_t)self->out.strings.count - 1;
    return 0;
}

static int modules_add(maker *self)
{
    for (int i = 0; i < JOURNAL_MODULES; i++) {
        const journal_module *one = &self->book->modules[i];
        if (atomic_load(&one->base) == 0 || one->path[0] == '\0')
            continue;
        module_file *made = MODEL_ADD(&self->out, &self->out.modules, module_file);
        if (!made || string_add(self, one->path, &self->modules[i]) != 0)
            return -1;
        made->path = self->modules[i];
        if (one->build_id[0] != '\0' && string_add(self, one->build_id, &made->build_id) != 0)
            return -1;
    }
    self->out.has_modules = 1;
    return 0;
}

/* The stack's index in the model; 0: none. -1 without memory. */
static int64_t stack_add(maker *self, uint32_t number)
{
    model *out = &self->out;
    if (number == 0 || number >= JOURNAL_STACKS)
        return 0;
    if (self->stacks[number] != 0)
        return self->stacks[number] - 1;
    const journal_stack *from = &self->book->stacks[number];
    stack *made = MODEL_ADD(out, &out->stacks, stack);
    if (!made)
        return -1;
    made->first = (uint32_t)out->stack_frames.count;
    for (uint32_t i = 0; i < from->count && i < JOURNAL_FRAMES; i++) {
        frame *one = MODEL_ADD(out, &out->frames, frame);
        uint32_t *at = one ? MODEL_ADD(out, &out->stack_frames, uint32_t) : NULL;
        if (!at)
            return -1;
        *at = (uint32_t)out->frames.count - 1;
        if (from->modules[i] > 0 && from->modules[i] <= JOURNAL_MODULES)
            one->module = self->modules[from->modules[i] - 1];
        one->offset = from->offsets[i] & (UINT64_MAX >> 2);
        made = MODEL_AT(out->stacks, stack, out->stacks.count - 1);
        made->count++;
    }
    self->stacks[number] = (uint32_t)out->stacks.count;
    return (int64_t)out->stacks.count - 1;
}

/* ---- places --------------------------------------------------------------------------------- */

/* The index of the pool of a device, made if it is not there; -1 without memory. */
static int32_t pool_of(maker *self, uint32_t device_index, int is_at_once)
{
    model *out = &self->out;
    for (size_t i = 0; i < out->pools.count; i++) {
        const pool *one = MODEL_AT(out->pools, pool, i);
        if (one->device == device_index && one->number == (uint64_t)is_at_once)
            return (int32_t)i;
    }
    for (uint64_t number = 0; number < POOLS; number++) {
        pool *made = MODEL_ADD(out, &out->pools, pool);
        if (!made)
            return -1;
        *made = (pool){.device = device_index,
                       .number = number,
                       .limit_bytes = -1,
                       .name = number ? "cudaMalloc" : "default",
                       .kind = "plain",
                       .state = "awake",
                       .torch_id = {-1, -1}};
    }
    device *made = MODEL_ADD(out, &out->devices, device);
    if (!made)
        return -1;
    *made = (device){.index = device_index, .name = "", .memory_free_bytes = -1, .limit_bytes = -1};
    return (int32_t)out->pools.count - POOLS + is_at_once;
}

static int32_t stream_of(maker *self, uint32_t device_index, uint64_t handle)
{
    model *out = &self->out;
    for (size_t i = 0; i < out->streams.count; i++) {
        const stream *one = MODEL_AT(out->streams, stream, i);
        if (one->device == device_index && one->handle == handle)
            return (int32_t)i;
    }
    stream *made = MODEL_ADD(out, &out->streams, stream);
    if (!made)
        return -1;
    *made = (stream){.device = device_index, .handle = handle, .kind = "stream"};
    return (int32_t)out->streams.count - 1;
}

/* ---- blocks and records --------------------------------------------------------------------- */

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + GRAIN - 1) / GRAIN * GRAIN;
}

static int is_sane(const journal_block *one)
{
    uint64_t address = atomic_load(&one->address);
    return address > JOURNAL_BUSY && address < UINT64_MAX >> 2 && one->bytes > 0 &&
           one->bytes < UINT64_MAX >> 4 && one->device < DEVICES_MAX && one->time_ns >= 0;
}

static int by_address(const void *left, const void *right)
{
    uint64_t a = atomic_load(&(*(const journal_block *const *)left)->address);
    uint64_t b = atomic_load(&(*(const journal_block *const *)right)->address);
    return a < b ? -1 : a > b;
}

static int live_add(maker *self, const journal_block *from)
{
    model *out = &self->out;
    int64_t place = stack_add(self, from->stack);
    int32_t pool_index = pool_of(self, from->device, from->is_at_once != 0);
    int32_t stream_index = stream_of(self, from->device, from->stream);
    segment *around = MODEL_ADD(out, &out->segments, segment);
    block *one = around ? MODEL_ADD(out, &out->blocks, block) : NULL;
    if (!one || place < 0 || pool_index < 0 || stream_index < 0)
        return -1;
    *one = (block){.address = atomic_load(&from->address),
                   .bytes = rounded(from->bytes),
                   .requested_bytes = from->bytes,
                   .time_ns = from->time_ns,
                   .stack = (uint32_t)place,
                   .state = STATE_LIVE};
    *around = (segment){.address = one->address,
                        .bytes = one->bytes,
                        .pool = pool_index,
                        .stream = stream_index,
                        .arena = (uint64_t)stream_index + 1,
                        .first_block = out->blocks.count - 1,
                        .blocks_count = 1};
    return 0;
}

static int record_add(maker *self, const journal_block *from, record_kind kind, int64_t time_ns,
                      uint32_t stack_number, uint32_t thread)
{
    model *out = &self->out;
    int64_t place = stack_add(self, stack_number);
    int32_t pool_index = pool_of(self, from->device, from->is_at_once != 0);
    int32_t stream_index = stream_of(self, from->device, from->stream);
    record *one = MODEL_ADD(out, &out->records, record);
    if (!one || place < 0 || pool_index < 0 || stream_index < 0)
        return -1;
    *one = (record){.time_ns = time_ns,
                    .address = atomic_load(&from->address),
                    .bytes = rounded(from->bytes),
                    .requested_bytes = from->bytes,
                    .pool = pool_index,
                    .stream = stream_index,
                    .thread = thread,
                    .stack = (uint32_t)place,
                    .kind = (unsigned char)kind};
    return 0;
}

static int by_time(const void *left, const void *right)
{
    const record *a = left, *b = right;
    return a->time_ns < b->time_ns ? -1 : a->time_ns > b->time_ns;
}

static int blocks_add(maker *self)
{
    const journal *book = self->book;
    uint64_t end = 0;
    for (size_t i = 0; i < JOURNAL_LIVE; i++)
        if (is_sane(&book->live[i]))
            self->live[self->live_count++] = &book->live[i];
    qsort(self->live, self->live_count, sizeof(self->live[0]), by_address);
    for (size_t i = 0; i < self->live_count; i++) {
        const journal_block *one = self->live[i];
        if (atomic_load(&one->address) < end)
            continue; /* two at one place: the journal was written over */
        end = atomic_load(&one->address) + rounded(one->bytes);
        if (live_add(self, one) != 0 ||
            record_add(self, one, RECORD_ALLOC, one->time_ns, one->stack, one->thread) != 0)
            return -1;
    }
    for (size_t i = 0; i < JOURNAL_FREED; i++) {
        const journal_freed *one = &book->freed[i];
        if (!is_sane(&one->was) || one->freed_ns < one->was.time_ns)
            continue;
        if (record_add(self, &one->was, RECORD_ALLOC, one->was.time_ns, one->was.stack,
                       one->was.thread) != 0 ||
            record_add(self, &one->was, RECORD_FREE, one->freed_ns, one->freed_stack,
                       one->thread) != 0)
            return -1;
    }
    if (self->out.records.count > 0)
        qsort(self->out.records.items, self->out.records.count, sizeof(record), by_time);
    return 0;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static int model_fill(maker *self, const char *reason)
{
    model *out = &self->out;
    const journal *book = self->book;
    struct timespec now;
    uint32_t empty;
    char text[128];
    const char **none;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    snprintf(text, sizeof(text), "%u.%u.%u", tnr_version() / 10000, tnr_version() / 100 % 100,
             tnr_version() % 100);
    out->writer_name = "tenure run";
    out->writer_version = model_text(out, text, strlen(text));
    out->reason = model_text(out, reason, strlen(reason));
    out->program = model_text(out, book->program, strlen(book->program));
    out->pid = book->pid;
    out->zero_epoch_us = book->began_us;
    out->taken_ns =
        ((int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 - (int64_t)book->began_us) * 1000;
    uint64_t freed = atomic_load(&book->freed_count);
    uint64_t lost = freed > JOURNAL_FREED ? freed - JOURNAL_FREED : 0;
    out->history = (history_counts){.mode = "light",
                                    .capacity = JOURNAL_FREED,
                                    .written = freed,
                                    .overwritten = lost,
                                    .missed = atomic_load(&book->lost)};
    if (!out->writer_version || !out->reason || !out->program ||
        string_add(self, "", &empty) != 0 || !MODEL_ADD(out, &out->stacks, stack) ||
        !(none = MODEL_ADD(out, &out->reasons, const char *)))
        return -1;
    *none = "";
    if (out->taken_ns < 0)
        out->taken_ns = 0;
    if (modules_add(self) != 0 || blocks_add(self) != 0)
        return -1;
    model_sum(out);
    return 0;
}

int run_picture_write(const journal *book, const char *path, const char *reason)
{
    static maker self;
    static output out;
    budget limits;
    budget_start(&limits, (size_t)4 << 30);
    memset(&self, 0, sizeof(self));
    self.book = book;
    self.live = malloc(JOURNAL_LIVE * sizeof(self.live[0]));
    model_start(&self.out, &limits);
    int code = self.live ? model_fill(&self, reason) : -1;
    if (code != 0) {
        fputs("tenure run: no host memory for the snapshot\n", stderr);
    } else if (output_open(&out, path, output_wants_gzip(path)) != 0) {
        fprintf(stderr, "tenure run: %s\n", out.error);
        code = -1;
    } else {
        encode_tenure(&self.out, &out);
        code = output_close(&out, 1);
        if (code != 0)
            fprintf(stderr, "tenure run: %s\n", out.error);
    }
    free(self.live);
    model_release(&self.out);
    return code;
}

void run_picture_stack_print(const journal *book, const char *what, uint32_t number)
{
    const journal_stack *from =
        number > 0 && number < JOURNAL_STACKS ? &book->stacks[number] : NULL;
    if (!from || from->count == 0) {
        fprintf(stderr, "    %s: the stack was not recorded (--history full)\n", what);
        return;
    }
    fprintf(stderr, "    %s at\n", what);
    for (uint32_t i = 0; i < from->count && i < JOURNAL_FRAMES; i++) {
        uint32_t module = from->modules[i];
        const char *path =
            module > 0 && module <= JOURNAL_MODULES ? book->modules[module - 1].path : "?";
        say(stderr, "      %s+0x%" PRIx64 "\n", path, from->offsets[i]);
    }
}
