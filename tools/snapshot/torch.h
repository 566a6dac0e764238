/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What PyTorch calls things in its snapshots, and what the two halves of their reader share:
 * decode_torch.c takes segments and blocks, decode_torch_trace.c the traces.
 */
#ifndef TENURE_TOOLS_TORCH_H
#define TENURE_TOOLS_TORCH_H

#include "decode.h"

typedef enum torch_action {
    TORCH_ALLOC,
    TORCH_FREE_REQUESTED,
    TORCH_FREE_COMPLETED,
    TORCH_SEGMENT_ALLOC,
    TORCH_SEGMENT_FREE,
    TORCH_SEGMENT_MAP,
    TORCH_SEGMENT_UNMAP,
    TORCH_SNAPSHOT,
    TORCH_OOM,
    TORCH_ANNOTATE,
    TORCH_ACTIONS_COUNT,
} torch_action;

extern const char *const torch_actions[TORCH_ACTIONS_COUNT];

/* The reason of `map` and `unmap` records that were a segment_alloc and a segment_free. */
#define TORCH_REASON_SEGMENT "segment"

enum {
    TORCH_FRAMES_MAX = 4096, /* of one call stack */
    TORCH_TABLE_MAX = 1024,  /* pools, and streams */
};

/* The pool of an entry that does not name its pool, until the segments have been read. */
#define TORCH_POOL_LATER (-2)

/* The stream of an entry that belongs to no stream, in Tenure's pickles: -1. */
#define TORCH_NO_STREAM UINT64_MAX

/* The places of the wanted keys in dictionaries of the shape seen last. Nearly all dictionaries of
 * a kind have one shape, so a key costs an index instead of a search. */
typedef struct torch_keys {
    const value_shape *shape;
    size_t count;
    const value_text *names[16];
    int at[16];
} torch_keys;

/* One device's trace. Its records are those from `first` on, `count` of them, until all devices'
 * are merged. */
typedef struct trace_cursor {
    const value_list
        *list;   /* of entries that were not taken while the document was read; or null */
    size_t next; /* entry */
    size_t first, count;
    int is_after_request; /* its latest record is of the entry before, a free_requested */
} trace_cursor;

typedef struct torch_reader {
    decoder *from;
    model *out;
    interner names;
    map64 by_frames; /* sum over a list's frames -> a stack that has it */
    torch_keys segment_keys, block_keys, frame_keys, entry_keys;
    const value_text *actions[TORCH_ACTIONS_COUNT];
    array sorted; /* segment_place */
    uint32_t scratch[TORCH_FRAMES_MAX];
    trace_cursor traces[DEVICES_MAX + 1]; /* the last may be of the annotations */
    size_t traces_count;
    uint64_t zero_us; /* the moment 0; until all records are there their times are from 1970 */
    int is_begun;     /* the tables are in the model */
    int has_segments; /* and the segments */
    int is_early;     /* entries were taken before those */
    int has_contexts, has_categories, has_unknown_actions;
    int host_segments; /* of device -1: pinned memory of the host */
} torch_reader;

/* Of decode_torch.c. Those that return int return -1 after a complaint. */

/* -1 without memory. */
int torch_keys_start(torch_keys *wanted, value_heap *heap, const char *const *names);
/* dict[key number]; VALUE_NONE if it is not there. */
value torch_keys_get(torch_keys *wanted, const value_dict *dict, size_t key);
int torch_number(torch_reader *in, place at, value any, const char *key, uint64_t *number);
int torch_dict(torch_reader *in, place at, value any, const value_dict **dict);
/* The string of a text, or string 0 for anything else. -1 without memory. */
int64_t torch_string(torch_reader *in, value any);
/* The stack of a list of frames; VALUE_NONE is the empty stack. */
int torch_stack(torch_reader *in, place at, value frames, uint32_t *result);
/* The place of the device in the model, or DEVICE_NONE. */
unsigned char torch_device(const torch_reader *in, uint64_t index);
int torch_device_add(torch_reader *in, uint64_t index);
/* The pool that the pair `any` names; nothing is the default pool. */
int torch_pool(torch_reader *in, place at, uint64_t device_index, value any, int32_t *result);
int torch_stream(torch_reader *in, place at, uint64_t device_index, value any, int32_t *result);
/* The number of a stream in PyTorch's format. */
uint64_t torch_stream_number(const stream *one);

/* The pool of an entry: the pool that it names, else the pool of the memory at the address, else
 * the default pool. */
int torch_pool_at(torch_reader *in, place at, uint64_t device_index, value named, uint64_t address,
                  int32_t *result);
/* The number of a pool on its device, counting the pools before it. */
uint64_t torch_pool_number(const model *out, size_t which);

/* Of decode_torch_early.c: entries that were taken before the segments get what they lack. */
int torch_early_settle(torch_reader *in);

/* Of decode_torch_extra.c: the settings, and what Tenure puts into PyTorch's format besides. */
int torch_settings_take(torch_reader *in, value document);
int torch_extra_take(torch_reader *in, value document);

/* Of decode_torch_trace.c. */

/* The keys of an entry, and which of them is "frames". */
extern const char *const torch_entry_names[];
extern const size_t torch_frames_key;

/* Finds the document's traces; then, once the segments are there, makes records of them. */
int torch_traces_open(torch_reader *in, value document);
int torch_traces_take(torch_reader *in, value document);
/* What stands before the name in the mark of an annotation's end. */
#define TORCH_ANNOTATION_END "end of "
/* Makes records of the next entries of a device. */
int torch_entries_take(torch_reader *in, size_t device_index, const value *entries, size_t count);
int torch_lives_complete(torch_reader *in);
void torch_peaks_find(model *out);

#endif
