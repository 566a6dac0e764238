/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's dictionary of a snapshot, key by key, for the two writers that fill it: the library's
 * from a picture (pickle.c), the command's from a snapshot that it has read
 * (tools/snapshot/encode_torch.c). The tools compile this file, too.
 *
 * What PyTorch has no word for stands under the key "tenure", which its tools ignore.
 *
 * Words are written once and then named by their number in the memo. A writer's own things have
 * numbers from TNRI_TORCH_WORDS on.
 */
#ifndef TNRI_SNAPSHOT_TORCH_H
#define TNRI_SNAPSHOT_TORCH_H

#include "see/snapshot/pickle_write.h"

typedef enum tnri_torch_word {
#define WORD(word) TNRI_TORCH_##word,
#include "see/snapshot/torch_words.def"
#undef WORD
    TNRI_TORCH_none, /* "N/A" */
    TNRI_TORCH_WORDS
} tnri_torch_word;

/* What belongs to no stream, as memory of graph pools does, is on none that a program can have: 0
 * is the default stream's. */
enum { TNRI_TORCH_NO_STREAM = -1 };

typedef struct tnri_torch tnri_torch;
struct tnri_torch {
    tnri_pickle out;
    uint8_t numbers[TNRI_TORCH_WORDS]; /* in the memo, and 1; 0: not written yet */
    uint8_t words_count;
    uint64_t allocated, active, requested;         /* of the segment's blocks so far */
    void (*stack)(tnri_torch *to, uint32_t stack); /* writes a list of frames */
    void (*mark)(tnri_torch *to, uint32_t mark);   /* writes the text of a mark */
};

typedef struct tnri_torch_segment {
    int64_t device, stream;
    uint64_t address, bytes;
    int is_small, is_expandable;
    int64_t pool[2];
    const char *tag; /* null: none */
    uint32_t stack;
} tnri_torch_segment;

typedef struct tnri_torch_block {
    uint64_t address, bytes, requested;
    tnri_torch_word state;
    uint32_t stack;
} tnri_torch_block;

typedef struct tnri_torch_entry {
    tnri_torch_word action;
    uint64_t address; /* of TNRI_TORCH_oom: the free bytes of the device */
    uint64_t bytes;
    int64_t stream;
    int64_t time_us;     /* below 0: not known */
    int64_t stack, mark; /* below 0: none */
    const int64_t *pool; /* two numbers; null: not said */
} tnri_torch_entry;

/* What a block waits for; what is below 0 is not said. */
typedef struct tnri_torch_wait {
    uint64_t address;
    const char *kind;
    int has_stream;
    int64_t stream, mark_number, since_us, graph;
} tnri_torch_wait;

void tnri_torch_word_put(tnri_torch *to, tnri_torch_word word);
void tnri_torch_int(tnri_torch *to, tnri_torch_word key, int64_t number);
void tnri_torch_text(tnri_torch *to, tnri_torch_word key, const char *text);
/* A key, and the list that follows it: tnri_pickle_list_end ends it. */
void tnri_torch_list(tnri_torch *to, tnri_torch_word key);

/* Each of these is an item of the list that is open. A segment's blocks come between its begin and
 * its end. */
void tnri_torch_segment_begin(tnri_torch *to, const tnri_torch_segment *segment);
void tnri_torch_block_put(tnri_torch *to, const tnri_torch_block *block);
void tnri_torch_segment_end(tnri_torch *to);
void tnri_torch_entry_put(tnri_torch *to, const tnri_torch_entry *entry);
void tnri_torch_pool_put(tnri_torch *to, const char *kind, const char *name,
                         const uint64_t numbers[4]); /* device, number, reserved, asleep */
void tnri_torch_stream_put(tnri_torch *to, int64_t device, int64_t stream, const char *name);
void tnri_torch_wait_put(tnri_torch *to, const tnri_torch_wait *wait);

#endif
