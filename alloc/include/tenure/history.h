/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/history.h>: seeing memory. What happened to it, and how it is now.
 *
 * In order of use:
 *
 *   tnr_history_set        record what happens to memory, from now on
 *   tnr_frames_source_set  have an interpreter's frames in its stacks
 *   tnr_mark               name what the program is doing, in the records that follow
 *   tnr_stream_name_set    say what a stream is for
 *   tnr_snapshot_write     write a picture of all memory, with the history, to a file
 *   tnr_memory_walk        show a picture of memory, block by block, to a function
 *   tnr_mappings_follow    write down which addresses get memory and which lose it
 *
 * The same without a change to the program: the settings history, history_records,
 * snapshot_on_oom, snapshot_at_exit and snapshot_signal of TENURE_CONF.
 *
 * A snapshot is one consistent picture: nothing that it shows in one arena happened after what it
 * shows in another. It stops no thread for longer than it takes to copy the table of one arena.
 * docs/snapshots.md describes the file; PyTorch's viewer opens the other format.
 */
#ifndef TENURE_HISTORY_H
#define TENURE_HISTORY_H

#include <tenure/alloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- history ------------------------------------------------------------------------------- */

/* How much is recorded. */
typedef enum tnr_history_mode {
    TNR_HISTORY_OFF = 0,   /* nothing */
    TNR_HISTORY_LIGHT = 1, /* everything that happens, some 20 ns for each operation */
    TNR_HISTORY_FULL = 2,  /* with call stacks, some microseconds for each operation */
} tnr_history_mode;

/* Sets what is recorded from now on. The records go to a ring of at least `records` records of 64
 * bytes each (0: as many as before, or as the setting history_records says). The ring costs that
 * much host memory once it is full. When it is full, new records take the place of the oldest. A
 * ring of another size begins empty. Switching off keeps what is there, for a snapshot. May be
 * called at any time; waits for a snapshot that is being written. The same as
 * tnr_configure("history:...").
 * Errors: TNR_ERR_INVALID_ARGUMENT (no such mode, or more than 1 << 30 records),
 * TNR_ERR_HOST_MEMORY, those of tnr_init. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_history_set(size_t records, tnr_history_mode mode);

/* How the history is doing. */
typedef struct tnr_history_info {
    size_t struct_bytes; /* set by the caller to sizeof(tnr_history_info) */
    tnr_history_mode mode;
    uint64_t records_max;   /* room in the ring; 0: there is none */
    uint64_t written;       /* records since the ring was made */
    uint64_t overwritten;   /* those of them that are gone */
    uint64_t missed;        /* records that were not written: the ring could get no page */
    uint64_t stacks;        /* distinct call stacks that are kept */
    uint64_t stacks_missed; /* stacks that were not kept: too many, or no host memory */
} tnr_history_info;

/* Fills *info. Starts nothing. Errors: TNR_ERR_INVALID_ARGUMENT (struct_bytes not set). Since
 * 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_history_get(tnr_history_info *info);

/* Frames of an interpreter. With TNR_HISTORY_FULL a stack is a list of return addresses, which say
 * nothing about the code that an interpreter runs. A program that embeds an interpreter, or a
 * module of one, may give Tenure two functions. `take` stores the frames of the interpreted code
 * that the calling thread is in, the innermost first, and returns how many, at most `room`. If a
 * thread has such frames, they are its stack instead of addresses. A frame is a number that the
 * owner chooses, with the highest bit set; the same place in the code should have the same number.
 * `describe` says what a frame is: texts that live as long as the process, and the line.
 *
 * `take` runs on the thread that allocates or frees, with no lock of Tenure's held, but in the
 * middle of the operation. So it must call nothing of Tenure's, must wait for no lock that an
 * allocating thread may hold (an interpreter's own is one), and must run no code of the
 * program's. */
typedef struct tnr_frame_info {
    const char *function, *file;
    int line;
} tnr_frame_info;

typedef size_t (*tnr_frames_take)(uintptr_t *frames, size_t room);
typedef void (*tnr_frames_describe)(tnr_frame_info *info, uintptr_t frame);

/* Sets both functions, until the process ends. Null and null ends it for later stacks. A process
 * has the functions of one interpreter: TNR_ERR_BUSY if others are set. Starts nothing. Errors:
 * TNR_ERR_INVALID_ARGUMENT (one without the other), TNR_ERR_BUSY. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_frames_source_set(tnr_frames_take take,
                                                       tnr_frames_describe describe);

/* Says what the calling thread does from now on: "step 12", "layer 3, backward". Each record of the
 * thread carries the text until the thread says something else; null or "" ends it. The call is a
 * record of its own. Tenure copies each distinct text once, cuts it off at 1,024 bytes, and keeps
 * it until tnr_shutdown. Meant for texts that come again; there is room for 262,143 different ones.
 * Errors: TNR_ERR_HOST_MEMORY, those of tnr_init. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_mark(const char *text);

/* Says what a stream is for: "prefetch", "rank 2, copies". Snapshots, `tenure top` and reports show
 * the name beside the handle, which says nothing to a reader. A stream has one name, the last that
 * it was given. All records of the stream in the history show it, also records from before. Null or
 * "" takes the name away. The name ends with the stream: if the driver gives the handle to another
 * stream, that one has no name. `stream` must exist; null is the legacy default stream, and the
 * per-thread default stream is that of the calling thread.
 *
 * Tenure copies each distinct name once, in UTF-8. It cuts the name off before
 * TNR_STREAM_NAME_BYTES, but not inside a character. Control characters become blanks; bytes
 * that are not UTF-8 are shown as such. Names share their room with the texts of tnr_mark. It costs
 * least to name a stream right after it was made: once the history has records of the stream,
 * Tenure looks through all that the history knows. Starts the library. Errors:
 * TNR_ERR_INVALID_STREAM, TNR_ERR_CAPTURE (the stream is being captured, and Tenure has not seen it
 * before), TNR_ERR_HOST_MEMORY, those of a device's first use. Since 1.1.0. */
enum { TNR_STREAM_NAME_BYTES = 256 };
TNR_NODISCARD TNR_API tnr_status tnr_stream_name_set(int device, tnr_stream stream,
                                                     const char *name);

/* ---- snapshots ----------------------------------------------------------------------------- */

/* What is written. */
typedef enum tnr_snapshot_format {
    TNR_SNAPSHOT_AUTO = 0,   /* by the end of the path: .pickle or .pkl for PyTorch's, else JSON */
    TNR_SNAPSHOT_JSON = 1,   /* Tenure's own, docs/snapshots.md: everything */
    TNR_SNAPSHOT_PICKLE = 2, /* PyTorch's, for its viewer and tools: see docs/snapshots.md */
    TNR_SNAPSHOT_GZIP = 256, /* added to one of these: compressed. Implied by a path in .gz */
} tnr_snapshot_format;

/* Writes a snapshot of all devices in use, and the history, to `path`. Tenure writes a file beside
 * it first, which then takes its place. So a failure leaves nothing behind, and damages no old
 * file. If `path` is not a regular file (a pipe, /dev/stdout), Tenure writes to it directly.
 *
 * Any thread, at any time, also while others allocate: see the top of this file. One snapshot is
 * taken at a time; others wait. Calls the driver only to ask how much memory the devices have free.
 *
 * Errors: TNR_ERR_INVALID_ARGUMENT (no path, or no such format), TNR_ERR_FILE (the text says what
 * the system said, or that zlib is missing), TNR_ERR_HOST_MEMORY, TNR_ERR_BUSY (threads make
 * streams and pools faster than a picture is taken), those of tnr_init. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_snapshot_write(const char *path, tnr_snapshot_format format);

/* ---- walking ------------------------------------------------------------------------------- */

/* How a walked block is. */
typedef enum tnr_walked_state {
    TNR_WALKED_LIVE,    /* handed out */
    TNR_WALKED_RETIRED, /* freed, and kept until its last use is over, or for a graph */
    TNR_WALKED_FREE,    /* to be handed out, or between two states */
} tnr_walked_state;

typedef struct tnr_walked_block {
    uintptr_t base;
    size_t bytes, bytes_requested; /* requested: 0 if it is free */
    tnr_walked_state state;
} tnr_walked_block;

/* Memory of one stream in one pool, at addresses without a gap. `blocks` are the blocks that tile
 * it, in the order of their addresses. */
typedef struct tnr_stretch {
    uintptr_t base;
    size_t bytes;
    int device;
    tnr_stream stream; /* null in a graph pool, whose memory is of no stream */
    tnr_pool pool;     /* null: the default pool */
    int is_small;      /* 1: of blocks up to small_limit_kb */
    const tnr_walked_block *blocks;
    size_t blocks_count;
    uint64_t reserved[4]; /* 0: room for what later versions tell */
} tnr_stretch;

/* Called for each stretch, in the order of their addresses, with no lock of Tenure's held: it may
 * call any function of Tenure. The stretch is valid during the call. */
typedef void (*tnr_walk_visit)(const tnr_stretch *stretch, void *user);

/* Shows the memory of a pool of `device`, or of all its pools if `pool` is null, in one consistent
 * picture, like that of a snapshot. Costs as much as a snapshot without the writing: a copy of the
 * tables of all arenas, and of the history if there is one. Errors: TNR_ERR_INVALID_ARGUMENT (visit
 * is null), TNR_ERR_INVALID_DEVICE (there is none, or the pool is of another device),
 * TNR_ERR_INVALID_POOL, TNR_ERR_HOST_MEMORY, TNR_ERR_BUSY (threads make streams and pools faster
 * than a picture is taken), those of a device's first use. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_memory_walk(tnr_pool pool, int device, tnr_walk_visit visit,
                                                 void *user);

/* ---- mappings ------------------------------------------------------------------------------- */

/* Memory that came to addresses, or went from them. */
typedef struct tnr_mapping {
    uintptr_t base;
    size_t bytes;
    int device;
    int is_mapped;        /* 1: it came, 0: it went */
    tnr_pool pool;        /* null: the default pool */
    tnr_stream stream;    /* the stream that the addresses serve; null in a graph pool */
    uint64_t reserved[2]; /* 0: room for what later versions tell */
} tnr_mapping;

/* From now on Tenure writes down whatever it maps and unmaps, for tnr_mappings_take; 0 ends that
 * and forgets what is there. It is for a program that registers memory with a network card, say,
 * and must know what comes and goes. Foreign segments are not written down: their owner knows of
 * them. A pool that falls asleep keeps its addresses, so nothing is written down of that. Costs
 * nothing while no program follows, and nothing on paths that map nothing. Ends with tnr_shutdown.
 * One user at a time. Since 0.2.0. */
TNR_API void tnr_mappings_follow(int is_wanted);

/* Takes the oldest mappings that have been written down, up to `room`, and returns how many.
 * Mappings of one address are in the order in which they happened. A mapping is there before the
 * call that made it returns. *lost becomes the number of mappings that could not be written down
 * since the last call with room, because there was no host memory, or 65,536 waited. With `room` 0
 * the call takes nothing and returns how many there are; *lost becomes 0, and the next call with
 * room tells the number. `mappings` and `lost` may be null if `room` is 0. Never calls the driver.
 * Since 0.2.0. */
TNR_API size_t tnr_mappings_take(tnr_mapping *mappings, uint64_t *lost, size_t room);

#ifdef __cplusplus
}
#endif
#endif
