/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs: a header that says what they run on, and a list of operations.
 *
 * An operation is a verb and a few numbers. Objects are named by slots: b3 is whatever block slot 3
 * holds at that moment. So operations can be taken out of a program (by hand, or by the shrinker),
 * and the rest still means something. An operation is skipped if it has become impossible, because
 * its block was never allocated, or illegal, because an order that it needs is gone. Only the model
 * (model.h) decides which operations these are.
 *
 * The same table makes the text form. A template's words stand for themselves, and
 *   %b, %c block  %s, %o stream  %e event  %p pool (p0: the default)  %g graph  %d device
 *   %n, %m numbers   %f name of a driver's entry point   %t a setting
 */
#ifndef TENURE_FUZZ_PROGRAM_H
#define TENURE_FUZZ_PROGRAM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Sizes of the slot tables. Slot 0 of the streams is the legacy default stream, slot 1 the
 * per-thread default stream; they are there from the start. Pool 0 is the default pool. */
enum {
    FUZZ_BLOCKS = 192,
    FUZZ_STREAMS = 12,
    FUZZ_EVENTS = 24,
    FUZZ_POOLS = 5,
    FUZZ_GRAPHS = 4,
    FUZZ_DEVICES = 2
};

/* X(enumerator, template). The code that runs an operation says what it means: run_*.c. */
#define FUZZ_OP_LIST(X)                                                                            \
    X(MALLOC, "malloc %b on %s from %p bytes %n")                                                  \
    X(ROUTED, "malloc-routed %b on %s from %p bytes %n")                                           \
    X(ALIGNED, "malloc-aligned %b on %s from %p bytes %n aligned %m")                              \
    X(FREE, "free %b")                                                                             \
    X(FREE_ON, "free-on %b stream %s")                                                             \
    X(FREE_SYNC, "free-sync %b")                                                                   \
    X(FREE_HOST, "free-host %b on %s")                                                             \
    X(FREE_WRONG, "free-wrong %b offset %n")                                                       \
    X(WRITE, "write %b on %s")                                                                     \
    X(READ, "read %b on %s")                                                                       \
    X(COPY, "copy %b to %c on %s")                                                                 \
    X(FILL, "fill %b on %s")                                                                       \
    X(USE, "record-use %b on %s offset %n")                                                        \
    X(USE_STREAM, "record-stream %b on %s offset %n")                                              \
    X(KEEP, "keep %b until %e")                                                                    \
    X(RECORD, "record %e on %s told %n")                                                           \
    X(TELL, "tell %e")                                                                             \
    X(WAIT, "wait %s for %e told %n")                                                              \
    X(SYNC_EVENT, "synchronize-event %e told %n")                                                  \
    X(SYNC_STREAM, "synchronize-stream %s told %n")                                                \
    X(SYNC_DEVICE, "synchronize-device %d told %n")                                                \
    X(QUERY, "query %e")                                                                           \
    X(EVENT_DESTROY, "destroy-event %e")                                                           \
    X(STREAM_CREATE, "create-stream %s device %d blocking %n told %m")                             \
    X(STREAM_DESTROY, "destroy-stream %s")                                                         \
    X(POOL_CREATE, "create-pool %p device %d limit %n release %m")                                 \
    X(POOL_GRAPHS, "create-graph-pool %p device %d")                                               \
    X(POOL_SEGMENTS, "create-segment-pool %p device %d limit %n segment %m")                       \
    X(POOL_SEGMENT_GRAPHS, "create-segment-graphs %p device %d segment %m")                        \
    X(POOL_DESTROY, "destroy-pool %p")                                                             \
    X(POOL_TRIM, "trim-pool %p device %d keep %n")                                                 \
    X(OWNER, "owner gives %n refuses %m")                                                          \
    X(RESERVE, "reserve %b on %s bytes %n")                                                        \
    X(COMMIT, "commit %b bytes %n")                                                                \
    X(COMMIT_RANGE, "commit-range %b of %c page %n pages %m")                                      \
    X(DECOMMIT_RANGE, "decommit-range %b beyond %n")                                               \
    X(LOOK_RANGE, "look-range %b")                                                                 \
    X(HOST_POOL, "create-host-pool %p device %d limit %n release %m")                              \
    X(HOST_MALLOC, "malloc-host %b near %d from %p bytes %n")                                      \
    X(HOST_WRITE, "write-host %b")                                                                 \
    X(HOST_READ, "read-host %b")                                                                   \
    X(HOST_TRIM, "trim-host %d keep %n")                                                           \
    X(HOST_LIMIT, "limit-host %d bytes %n")                                                        \
    X(MISS, "miss %b on %s bytes %n ends %p")                                                      \
    X(TRIM, "trim %d keep %n")                                                                     \
    X(LIMIT, "limit %d bytes %n")                                                                  \
    X(CONFIGURE, "configure %t")                                                                   \
    X(REGISTER, "register %b offset %n")                                                           \
    X(LOOK, "look %b offset %n")                                                                   \
    X(STATS, "stats %d")                                                                           \
    X(SNAPSHOT, "snapshot format %n")                                                              \
    X(HISTORY, "history mode %n")                                                                  \
    X(SLEEP, "sleep %p device %d content %n")                                                      \
    X(WAKE, "wake %p device %d")                                                                   \
    X(COMPACT, "compact %p device %d")                                                             \
    X(CONTENT, "content %b keep %n")                                                               \
    X(PARK, "park %b on %s content %n")                                                            \
    X(UNPARK, "unpark %b on %s")                                                                   \
    X(ACCESS, "access %p device %d open %n")                                                       \
    X(ACCESS_ALL, "access-all %d open %n")                                                         \
    X(CAPTURE_BEGIN, "capture-begin %g on %s from %p mode %n")                                     \
    X(REDIRECT, "redirect %s to %o how %n")                                                        \
    X(CAPTURE_END, "capture-end %g")                                                               \
    X(CAPTURE_ABORT, "capture-abort %g")                                                           \
    X(CAPTURE_BREAK, "capture-break %g how %n")                                                    \
    X(BESIDE, "capture-beside %d mode %n")                                                         \
    X(BESIDE_END, "capture-beside-end")                                                            \
    X(LAUNCH, "launch %g on %s")                                                                   \
    X(AUDIT, "audit %g")                                                                           \
    X(GRAPH_DESTROY, "destroy-graph %g")                                                           \
    X(RUN, "run %n")                                                                               \
    X(RUN_STREAM, "run-stream %s operations %n")                                                   \
    X(FAULT, "fault %f nth %n sticky %m")                                                          \
    X(FAULTS_OFF, "faults-off")

/* n of REDIRECT: what becomes of the stream's dependencies in its capture. */
enum { REDIRECT_SET, REDIRECT_ADD, REDIRECT_NONE };

/* n of CAPTURE_BREAK: how the capture comes to nothing before tnr_capture_end. A call that captures
 * forbid; an end by a thread that may not end it; a stream that has not joined again. */
enum { BREAK_INVALID, BREAK_THREAD, BREAK_UNJOINED, BREAK_WAYS };

typedef enum fuzz_kind {
#define FUZZ_OP_ENUMERATOR(name, text) FUZZ_##name,
    FUZZ_OP_LIST(FUZZ_OP_ENUMERATOR)
#undef FUZZ_OP_ENUMERATOR
        FUZZ_KINDS
} fuzz_kind;

/* One operation. Fields that its template does not have are 0. */
typedef struct fuzz_op {
    uint8_t kind;
    uint8_t is_illegal; /* run it though the model forbids it: the one planted error */
    uint8_t block, other, stream, event, pool, graph, device;
    uint8_t name; /* of an entry point or of a setting: index into the tables below */
    uint64_t n, m;
} fuzz_op;

/* What a program runs on: drawn before its first operation. */
typedef struct fuzz_setup {
    uint64_t seed; /* 0 in programs written by hand */
    int devices;
    int peer_graphs;       /* 1: graphs of one device may refer to memory of the other */
    uint64_t memory_bytes; /* of each device */
    char schedule[16];     /* of the simulated device: lazy, random or eager */
    uint64_t schedule_seed;
    char conf[256];  /* for tnr_configure, before the first operation */
    char expect[24]; /* of a kept case: "ok", or the verdict that it must give; empty: ok */
} fuzz_setup;

typedef struct fuzz_program {
    fuzz_setup setup;
    fuzz_op *ops;
    size_t count;
    size_t room;
} fuzz_program;

/* Entry points that faults are drawn from, and settings that CONFIGURE draws from. The last few
 * entry points are called only where there are two devices. */
extern const char *const fuzz_entries[];
extern const size_t fuzz_entries_count, fuzz_entries_peers;
extern const char *const fuzz_settings[];
extern const size_t fuzz_settings_count;

/* "MALLOC" -> "malloc": the first word of the template. Returns a static text. */
const char *fuzz_kind_verb(fuzz_kind kind);
/* The operation as a line without its end. Returns `buffer`. */
const char *fuzz_op_text(const fuzz_op *op, char *buffer, size_t bytes);

/* Writes the program so that fuzz_program_read reads the same. `comment`, lines of text, comes
 * first; may be null. */
void fuzz_program_write(const fuzz_program *program, const char *comment, FILE *file);
/* Reads a program. Returns 0, or -1 with a sentence that names the line. The operations are the
 * caller's, to be freed with fuzz_program_release. */
int fuzz_program_read(fuzz_program *program, FILE *file, char *error, size_t error_bytes);
void fuzz_program_release(fuzz_program *program);

#endif
