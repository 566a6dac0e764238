/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot in memory, whichever kind of file it came from.
 *
 * The model is that of docs/snapshots.md: tables that refer to each other by index, where -1 is
 * nothing. A snapshot of PyTorch is brought into the same form. What only PyTorch has is kept, too,
 * so that it can be written again.
 *
 * Invariants. The readers establish them, and all other code relies on them:
 *   - every index is -1 or refers to something, where -1 is allowed at all;
 *   - string 0 is empty, stack 0 has no frames, reason 0 is empty;
 *   - segments lie in the order of addresses and do not overlap, also of several devices; the
 *     blocks of a segment tile it exactly, and `first_block` is the number of blocks before it;
 *   - a live or retired block is at least as large as what was asked for; sizes and addresses are
 *     below 2^62, so that no sum over blocks overflows;
 *   - texts are UTF-8 without zero bytes.
 *
 * Everything is counted against one budget and freed by model_release.
 */
#ifndef TENURE_TOOLS_MODEL_H
#define TENURE_TOOLS_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "budget.h"
#include "map64.h"

typedef enum snapshot_origin { ORIGIN_TENURE, ORIGIN_TORCH } snapshot_origin;

typedef enum block_state {
    STATE_LIVE,
    STATE_RETIRED,
    STATE_BINNED,
    STATE_FREE,
    STATE_RELEASING,
    STATE_GROWING,
    STATES_COUNT,
} block_state;

typedef enum wait_kind {
    WAIT_USE,
    WAIT_FREE_SYNC,
    WAIT_EXPORT,
    WAIT_GRAPH,
    WAIT_CAPTURE,
    WAIT_KINDS_COUNT,
} wait_kind;

typedef enum record_kind {
    RECORD_ALLOC,
    RECORD_FREE,
    RECORD_RETIRE,
    RECORD_REUSE,
    RECORD_GROW,
    RECORD_MAP,
    RECORD_UNMAP,
    RECORD_MOVE_IN,
    RECORD_MOVE_OUT,
    RECORD_OOM,
    RECORD_POOL_MADE,
    RECORD_POOL_ENDED,
    RECORD_CAPTURE_BEGIN,
    RECORD_CAPTURE_END,
    RECORD_CAPTURE_ABORT,
    RECORD_LAUNCH,
    RECORD_LAUNCH_OVER,
    RECORD_SLEEP,
    RECORD_WAKE,
    RECORD_MARK,
    RECORD_SNAPSHOT,
    RECORD_KINDS_COUNT,
} record_kind;

/* The names of the enums above in files, in their order. */
extern const char *const state_names[STATES_COUNT];
extern const char *const wait_kind_names[WAIT_KINDS_COUNT];
extern const char *const record_kind_names[RECORD_KINDS_COUNT];

/* Texts below point into the model's strings. */
typedef struct setting {
    const char *key, *text;
} setting;

typedef struct frame {
    uint32_t function, file, module; /* strings */
    uint32_t line;
    uint64_t offset;
} frame;

/* A file that code was loaded from. */
typedef struct module_file {
    uint32_t path, build_id; /* strings; the build id in hexadecimal, or empty */
} module_file;

typedef struct stack {
    uint32_t first, count; /* in stack_frames, innermost first */
} stack;

typedef struct device {
    uint64_t index;
    const char *name;
    uint64_t memory_bytes, reserved_bytes, reserved_peak_bytes, asleep_bytes, ooms, retries;
    int64_t memory_free_bytes, limit_bytes; /* -1: null */
} device;

/* The sums over a pool's blocks. */
typedef struct pool_bytes {
    uint64_t live, slack, retired, binned, free, releasing, growing;
} pool_bytes;

typedef struct pool {
    uint64_t device, number;
    const char *name, *kind, *state;
    const char *tag; /* null: none */
    uint64_t reserved_bytes, asleep_bytes, chunks;
    int64_t limit_bytes; /* -1: null */
    int settled;
    pool_bytes bytes;
    int64_t torch_id[2]; /* PyTorch's name of the pool */
} pool;

typedef struct stream {
    uint64_t device, handle, thread;
    const char *kind;
    const char *name; /* what the program called it; null: nothing */
    int ended;
} stream;

/* The name for a table: cut off before `bytes`, not inside of a character, and control characters
 * as question marks. Returns `text`. */
const char *model_stream_name(const stream *one, char *text, size_t bytes);

typedef struct segment {
    uint64_t address, bytes;
    int32_t pool, stream;
    uint32_t stack; /* of its allocation, in snapshots of PyTorch */
    uint64_t arena; /* which the segments of one arena share */
    size_t first_block, blocks_count;
    unsigned char small, expandable;
} segment;

typedef struct block {
    uint64_t address, bytes, requested_bytes;
    int64_t time_ns;
    uint32_t stack;
    unsigned char state; /* block_state */
} block;

typedef struct wait {
    size_t block;
    int64_t mark_number, since_ns, graph;
    int32_t stream;
    unsigned char kind; /* wait_kind */
} wait;

enum { AUDIT_COUNTS = 8 };
extern const char *const audit_names[AUDIT_COUNTS];

typedef struct graph {
    uint64_t number, device, blocks, reused, launches, kept_blocks, kept_bytes;
    const char *name, *state;
    int64_t pool;
    int audited;
    uint64_t audit[AUDIT_COUNTS];
} graph;

typedef struct record {
    int64_t time_ns; /* -1: not known */
    uint64_t address, bytes, requested_bytes;
    int64_t value;
    int32_t pool, stream;
    uint32_t thread, mark, stack;
    uint16_t reason;
    unsigned char kind;   /* record_kind */
    unsigned char device; /* index in devices, or DEVICE_NONE */
} record;

/* What a block of a `grow` record had before. */
static inline uint64_t record_grow_before(const record *event)
{
    uint64_t more = event->value > 0 ? (uint64_t)event->value : 0;
    return event->bytes > more ? event->bytes - more : 0;
}

enum { DEVICES_MAX = 255, DEVICE_NONE = 255, REASONS_MAX = 60000, NOTES_MAX = 16 };

/* How completely a table of history was kept. */
typedef struct history_counts {
    const char *mode;
    uint64_t capacity, written, overwritten, missed;
    uint64_t complete_since_ns; /* from when on no record is missing */
} history_counts;

typedef struct model {
    budget *limits;
    store place;
    snapshot_origin origin; /* whose memory it is */
    int is_torch_file;      /* 1 if it was read from PyTorch's format, whose ever it is */
    const char *writer_name, *writer_version, *reason, *program, *driver_path;
    uint64_t pid, driver_version;
    int simulated;
    int64_t taken_ns;
    uint64_t zero_epoch_us;
    history_counts history;

    array strings;      /* const char * */
    array modules;      /* module_file: each path once */
    int has_modules;    /* 0: an old file, without the table */
    array frames;       /* frame */
    array stacks;       /* stack */
    array stack_frames; /* uint32_t: indexes of frames */
    array shown;        /* stack: by which frames each is named (named.h); empty: by all */
    array settings;     /* setting */
    array devices;      /* device */
    array pools;        /* pool */
    array streams;      /* stream */
    array segments;     /* segment */
    array blocks;       /* block */
    array waits;        /* wait */
    array graphs;       /* graph */
    array reasons;      /* const char * */
    array records;      /* record */

    /* Sentences for the user: what a reader noticed. */
    char notes[NOTES_MAX][256];
    size_t notes_count;
} model;

/* Element `i` of a table. */
#define MODEL_AT(list, type, i) (&((type *)(list).items)[i])

void model_start(model *snapshot, budget *limits);
void model_release(model *snapshot);

/* Adds an element of zeros to a table. Null without memory. */
void *model_add(model *snapshot, array *table, size_t element_bytes);
#define MODEL_ADD(snapshot, table, type) ((type *)model_add((snapshot), (table), sizeof(type)))

/* A copy of the text in the model, made valid: bytes that are not UTF-8, and zero bytes, become
 * U+FFFD. Null without memory. */
const char *model_text(model *snapshot, const char *bytes, size_t length);

/* Adds a sentence for the user, once. */
__attribute__((format(printf, 2, 3))) void model_note(model *snapshot, const char *format, ...);

const char *model_string(const model *snapshot, uint32_t index);

/* Finds or makes strings, frames and stacks while a snapshot is being built. */
typedef struct interner {
    model *into;
    map64 by_pair;  /* (function, file) -> pair number */
    map64 by_frame; /* (pair, line) -> frame */
    map64 by_node;  /* (node of the outer frames, frame) -> node */
    map64 by_stack; /* node -> stack */
    uint32_t pairs_count, nodes_count;
} interner;

void interner_start(interner *names, model *into);
void interner_release(interner *names);
/* Both return -1 without memory. */
int64_t interner_frame(interner *names, uint32_t function, uint32_t file, uint32_t line);
int64_t interner_stack(interner *names, const uint32_t *frames, size_t count);

/* Computes `bytes` and `reserved_bytes` of pools, and the sums of devices, from the blocks. */
void model_sum(model *snapshot);

/* The segment that contains the address, or null. */
const segment *model_segment_at(const model *snapshot, uint64_t address);

#endif
