/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record of the history: 64 bytes, a cache line, about one thing that happened to memory. Its
 * words are atomics because a reader may look at a record that is just being overwritten. The
 * reader finds that out by the number of the page (ring.h): if it sees a new word, it sees the new
 * number, too.
 */
#ifndef TNRI_HISTORY_RECORD_H
#define TNRI_HISTORY_RECORD_H

#include <stdatomic.h>
#include <stdint.h>

#include <tenure/alloc.h>

/* What happened; the text is the word in a snapshot. See docs/snapshots.md. */
#define TNRI_KIND_LIST(X)                                                                          \
    X(ALLOC, "alloc")                                                                              \
    X(FREE, "free")                                                                                \
    X(RETIRE, "retire")                                                                            \
    X(REUSE, "reuse")                                                                              \
    X(GROW, "grow")                                                                                \
    X(MAP, "map")                                                                                  \
    X(UNMAP, "unmap")                                                                              \
    X(MOVE_IN, "move_in")                                                                          \
    X(MOVE_OUT, "move_out")                                                                        \
    X(OOM, "oom")                                                                                  \
    X(POOL_MADE, "pool_made")                                                                      \
    X(POOL_ENDED, "pool_ended")                                                                    \
    X(CAPTURE_BEGIN, "capture_begin")                                                              \
    X(CAPTURE_END, "capture_end")                                                                  \
    X(CAPTURE_ABORT, "capture_abort")                                                              \
    X(LAUNCH, "launch")                                                                            \
    X(LAUNCH_OVER, "launch_over")                                                                  \
    X(SLEEP, "sleep")                                                                              \
    X(WAKE, "wake")                                                                                \
    X(MARK, "mark")                                                                                \
    X(SNAPSHOT, "snapshot")

typedef enum tnri_kind {
#define TNRI_KIND_ENUMERATOR(name, text) TNRI_NOTED_##name,
    TNRI_KIND_LIST(TNRI_KIND_ENUMERATOR)
#undef TNRI_KIND_ENUMERATOR
        TNRI_NOTED_COUNT
} tnri_kind;

/* Why: nothing, a step of the ladder, or a reason of reuse; one number for all. */
enum {
    TNRI_WHY_NONE = 0,
    TNRI_WHY_SERVED = 1,                                 /* + tnr_served */
    TNRI_WHY_REUSE = TNRI_WHY_SERVED + TNR_SERVED_COUNT, /* + tnr_reuse */
    TNRI_WHY_COUNT = TNRI_WHY_REUSE + TNR_REUSE_COUNT
};
const char *tnri_why_text(unsigned why);
const char *tnri_kind_text(unsigned kind);

/* The words of a record; they are written two by two. */
enum {
    TNRI_WORD_TICKS,
    TNRI_WORD_ADDRESS,
    TNRI_WORD_BYTES,
    TNRI_WORD_REQUESTED,
    TNRI_WORD_PLACE,  /* low half: origin (origins.h); high half: number in the arena's order */
    TNRI_WORD_CALLER, /* low half: thread; high half: mark */
    TNRI_WORD_WHAT,   /* low half: stack; then a byte of kind and a byte of why */
    TNRI_WORD_VALUE,
    TNRI_RECORD_WORDS
};

typedef struct tnri_record {
    _Atomic uint64_t words[TNRI_RECORD_WORDS];
} tnri_record;

/* A record's words, read. */
typedef struct tnri_recorded {
    uint64_t ticks, address, bytes, requested, value;
    uint32_t origin, order, thread, mark, stack;
    uint8_t kind, why;
} tnri_recorded;

static inline uint64_t tnri_word_of(uint32_t low, uint32_t high)
{
    return (uint64_t)high << 32 | low;
}

/* How the words are stored. Where the processor stores 16 aligned bytes at once in order, they are
 * stored in pairs; the next locked instruction then waits for half as much (2 to 3 ns less).
 * Elsewhere, and where ThreadSanitizer must understand it, they are stored one by one. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#if defined(__has_feature)
#if !__has_feature(thread_sanitizer)
#define TNRI_RECORD_PAIRS 1
#endif
#else
#define TNRI_RECORD_PAIRS 1
#endif
#endif

#ifdef TNRI_RECORD_PAIRS
typedef uint64_t tnri_record_pair __attribute__((vector_size(16), may_alias));
#endif

/* Stores two words beside each other. Release: a reader that sees one also sees the number of its
 * page. */
static inline __attribute__((always_inline)) void tnri_record_store(tnri_record *record,
                                                                    unsigned word, uint64_t first,
                                                                    uint64_t second)
{
#ifdef TNRI_RECORD_PAIRS
    __asm__ volatile("" ::: "memory"); /* stores are not reordered by the processor itself */
    *(tnri_record_pair *)(void *)&record->words[word] = (tnri_record_pair){first, second};
#else
    atomic_store_explicit(&record->words[word], first, memory_order_release);
    atomic_store_explicit(&record->words[word + 1], second, memory_order_release);
#endif
}

static inline uint64_t tnri_word_what(uint32_t stack, tnri_kind kind, unsigned why)
{
    return stack | (uint64_t)kind << 32 | (uint64_t)why << 40;
}

#endif
