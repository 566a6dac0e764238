/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation traces: reading and validating them.
 *
 * The format is text, plain or gzip, one operation a line, `#` starting a comment line. The first
 * line may name the columns, as here:
 *
 *     op,id,bytes,stream,us
 *     a,17,4096,0,1250      allocate 4096 bytes on stream 0; the block is called 17
 *     F,17,4096,0,1380      the program frees block 17
 *     f,17,4096,0,1381      the recording allocator considered that free complete
 *
 * A file is read as a stream, and all of it is validated before it is used, so that a mistake in
 * its last line costs nothing. The result is an array of operations. In it ids have become small
 * slot numbers, and streams small stream numbers.
 */
#ifndef TENURE_TOOLS_TRACE_H
#define TENURE_TOOLS_TRACE_H

#include <stddef.h>
#include <stdint.h>

enum {
    TRACE_LINE_BYTES_MAX = 255, /* longest line; a legal one has at most about 85 bytes */
    TRACE_STREAMS_MAX = 1024,   /* distinct streams in one trace */
};

#define TRACE_HEADER "op,id,bytes,stream,us"

/* One operation. A slot is reused once its block is freed, so slots_count is the most blocks that
 * are ever live at once. */
typedef struct trace_op {
    uint64_t bytes; /* of the block, as its allocation said, for frees too */
    uint64_t us;    /* when; may go back */
    uint32_t slot;
    uint16_t stream; /* of the block: an index below streams_count */
    uint8_t is_alloc;
    uint8_t is_late; /* a free that PyTorch considered complete later: trace_completion */
} trace_op;

/* PyTorch, which recorded the trace, considered a free complete: a block that other streams had
 * used waits for these. A replay frees at once and does not look at this. */
typedef struct trace_completion {
    size_t before_op; /* index of the first operation after it; ops_count: it comes at the end */
    size_t free_op;   /* index of the free */
} trace_completion;

typedef struct trace {
    char name[64];     /* the file's name without folder, .csv and .gz */
    char recorded[80]; /* "PyTorch 2.11.0, H200": in what and where, by the first comment; empty:
                        * not known */
    trace_op *ops;     /* allocations and frees, in order */
    size_t ops_count;
    trace_completion *completions; /* of the late frees, in order; a late free may have none */
    size_t completions_count;
    size_t allocs_count;
    size_t slots_count;
    size_t streams_count;
    uint64_t streams[TRACE_STREAMS_MAX]; /* the numbers that the file calls its streams */
    uint64_t peak_live_bytes;            /* the most that was live at once, by what was asked for */
    size_t peak_op;                      /* the first operation after which that was live */
    size_t live_at_end;                  /* blocks that the trace never frees */
    uint32_t crc32;                      /* of the file's text */
    uint64_t recorded_peak_bytes;        /* most that the recording allocator had reserved, by a
                                          * comment in the file; 0: not known */
    uint64_t us_first, us_last; /* the time of the first operation, and the latest of all */
    uint64_t back_count;        /* operations with an earlier time than one before them, */
    uint64_t back_line;         /* the line of the first of them, */
    uint64_t back_us_most;      /* and how far the time went back at most */
    uint64_t pause_us_most;     /* the longest time in which nothing happens, */
    uint64_t pause_line;        /* and the line that ends it */
} trace;

/* Reads the file at `path`; "-" is standard input. Returns 0, or -1 with "path:line: what is wrong"
 * in `error` and nothing to release. */
int trace_read(trace *result, const char *path, char *error, size_t error_bytes);

/* Releases what trace_read made. Harmless on a trace that is all zero. */
void trace_release(trace *result);

#endif
