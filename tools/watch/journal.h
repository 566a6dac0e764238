/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal: what a program under `tenure run` has allocated, in a file. The program maps the
 * file, and the waiting command reads it. So after the program has died of a signal or by abort,
 * the command can tell what was allocated, and no signal handler has to do anything.
 *
 * TENURE_PRELOAD_JOURNAL names the file; each process adds a dot and its number. A process makes
 * its file at the first allocation that Tenure serves. Root's opens it when it begins, and leaves
 * it empty until then: it may become another user, or change its root. A process that ends by
 * itself writes its own snapshot and statistics, and says so (`is_over`); if no snapshot lies where
 * it should, the command writes that from the journal, too.
 *
 * Any thread writes entries, without a lock. They are read only when the process is gone. An entry
 * exists once its address is there: the address is written last. An entry that was being written
 * when the process died is BUSY, and the reader skips it.
 */
#ifndef TENURE_PRELOAD_JOURNAL_H
#define TENURE_PRELOAD_JOURNAL_H

#include <stdatomic.h>
#include <stdint.h>

enum {
    JOURNAL_LIVE = 1 << 18,  /* entries; a power of two, as the others are */
    JOURNAL_FREED = 1 << 14, /* the latest frees */
    JOURNAL_STACKS = 1 << 14,
    JOURNAL_FRAMES = 16,
    JOURNAL_MODULES = 1024,
    JOURNAL_PATH = 512,
    JOURNAL_LAUNCHES = 64, /* the latest launches */
    JOURNAL_WORDS = 16,    /* addresses of ours that one named */
    JOURNAL_NAME = 128,
    JOURNAL_ID = 81,
    JOURNAL_COUNTS = 32,
};

#define JOURNAL_MAGIC UINT64_C(0x316c6e6a72756e74) /* "tnurjnl1" */

/* Instead of an address: free; was used; is being written. */
enum { JOURNAL_FREE = 0, JOURNAL_GONE = 1, JOURNAL_BUSY = 2 };

typedef struct journal_block {
    _Atomic uint64_t address;
    uint64_t bytes, stream;
    int64_t time_ns; /* since the process's first entry */
    uint32_t stack;  /* index in stacks; 0: none */
    uint32_t thread;
    uint32_t device;
    uint32_t is_at_once; /* 1: cudaMalloc's, of no stream */
} journal_block;

typedef struct journal_freed {
    journal_block was;
    int64_t freed_ns;
    uint32_t freed_stack, thread;
} journal_freed;

typedef struct journal_stack {
    _Atomic uint64_t hash; /* 0: none */
    uint32_t count;
    uint32_t modules[JOURNAL_FRAMES]; /* index + 1; 0: of no file */
    uint64_t offsets[JOURNAL_FRAMES]; /* in the module; else the address */
} journal_stack;

typedef struct journal_module {
    _Atomic uint64_t base; /* 0: none */
    char path[JOURNAL_PATH];
    char build_id[JOURNAL_ID]; /* in hexadecimal; empty: it has none */
} journal_module;

typedef struct journal_launch {
    _Atomic uint64_t number; /* from 1; 0: none, or being written */
    char kernel[JOURNAL_NAME];
    uint64_t stream;
    int64_t time_ns;
    uint32_t stack, words_count;
    uint64_t words[JOURNAL_WORDS];
} journal_launch;

typedef struct journal {
    uint64_t magic;
    uint64_t bytes; /* sizeof(journal) */
    uint64_t pid;
    uint64_t began_us; /* of the epoch: the moment 0 */
    char program[JOURNAL_PATH];
    _Atomic uint64_t is_over;
    _Atomic uint64_t lost;                   /* blocks that found no place */
    _Atomic uint64_t counts[JOURNAL_COUNTS]; /* as service_count has them */
    _Atomic uint64_t live_blocks, live_bytes, peak_live_bytes;
    _Atomic uint64_t freed_count, stacks_count, launches_count;
    journal_module modules[JOURNAL_MODULES];
    journal_stack stacks[JOURNAL_STACKS]; /* a hash, by linear probing; 0 is not used */
    journal_launch launches[JOURNAL_LAUNCHES];
    journal_freed freed[JOURNAL_FREED]; /* a ring */
    journal_block live[JOURNAL_LIVE];   /* a hash, by linear probing */
} journal;

/* ---- in the program: journal.c -------------------------------------------------------------- */

/* -1: not asked yet; 0: there is none; 1: there is one. */
extern _Atomic int journal_state;
int journal_begin(void);

static inline int journal_is_on(void)
{
    int state = atomic_load_explicit(&journal_state, memory_order_relaxed);
    return __builtin_expect(state != 0, 0) && (state > 0 || journal_begin());
}

/* A block was handed out, or is about to be freed; `stream` is null with `is_at_once`. */
void journal_allocated(uint64_t address, uint64_t bytes, const void *stream, int device,
                       int is_at_once);
void journal_freeing(uint64_t address);
/* A free was refused. */
void journal_unfreed(uint64_t address);

struct check_stack; /* stack.h of the checker */

/* A kernel was launched from there that names these addresses; null: from where is not known. One
 * that names none is only counted: who reads the journal looks for what was freed. By one thread at
 * a time. */
void journal_launched(const char *kernel, const void *stream, const uint64_t *words, int count,
                      const struct check_stack *from);

/* The counts have changed. */
void journal_counted(void);

/* The process ends by itself. */
void journal_over(void);

#define JOURNAL_TELL(call)                                                                         \
    do {                                                                                           \
        if (journal_is_on())                                                                       \
            call;                                                                                  \
    } while (0)

#endif
