/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/capture.h>: memory of CUDA graphs. This header is the manual of the layer.
 *
 * The problem. A graph replays raw addresses. Memory that was allocated while the graph was
 * captured must stay where it was, and be given to no other owner, for as long as the graph can
 * run. The same holds for memory outside that the graph refers to.
 *
 * The guarantee. For every graph captured through Tenure: each address handed out during the
 * capture, and each block outside that the graph refers to, stays mapped to the same memory and is
 * given to no other owner until the CUDA graph and all its executables are destroyed and their last
 * launch has ended. Tenure refuses a launch that would break this.
 *
 * In order of use:
 *
 *   tnr_capture_begin, tnr_capture_end    capture; tnr_malloc in between serves from the graph's
 *                                         pool, on every stream that belongs to the capture
 *   tnr_capture_attach, _ended            the same for a capture that an engine begins and ends
 *   tnr_graph_launch                      launch, ordered against graphs that share the pool
 *   tnr_graph_audit                       every managed address in a graph, and whether it is safe
 *   tnr_graph_pool_create                 a pool for several graphs
 *
 * Inside a capture Tenure hands a freed block out again exactly when the graph's edges order its
 * last use before whatever is captured next on the asking stream. This holds across streams too,
 * and for tnr_record_use and tnr_record_stream. Tenure adds no node to the graph. If a stream
 * outside of the capture uses a block, Tenure keeps the block until the capture ends.
 *
 * A graph's end. The CUDA graph and each executable of it hold a CUDA user object of Tenure's. When
 * the last of them is destroyed and its last launch has ended, Tenure lets go of the blocks that it
 * kept for the graph. The graph's pool ends too, unless other graphs share it. If some of the
 * pool's blocks are live (outputs), it ends when they are freed. Nothing need be told.
 *
 * Conditional nodes and child graphs. The body of a conditional node is captured by a capture of
 * its own: attach to it, with the same pool. The outer capture does not reuse memory that was freed
 * in the inner one before both have ended, and the reverse. A child graph counts as one node.
 *
 * Several devices. A stream of another device that has joined the capture allocates on its own
 * device. The memory comes from a pool of the graph's own there, whichever pool the capture was
 * begun with. It is handed out and reused like the rest, one set of edges orders both, and it ends
 * with the graph. Open it to the devices that reach it with tnr_device_access_set before. A launch
 * on the graph's device is ordered after what uses that memory on any device.
 *
 * Other threads. While a capture is under way, Tenure queries no event where that would be illegal,
 * records none on a stream that captures, and takes no memory from streams whose work it cannot
 * mark. Everything else goes on as usual. Some frees of ordinary blocks take effect only when the
 * capture ends, because the graph may refer to the blocks: those by a thread that takes part in the
 * capture, whatever the device, and those of blocks of a stream that captures. A thread takes part
 * once it has begun the capture, allocated in it or recorded a use in it. If another thread frees a
 * block of the capture, Tenure hands the block out again only after the capture has ended. When
 * memory is short, a thread
 * that takes part has its captures' nodes read so far, and gets back what it freed and no node
 * refers to. What tnr_free_sync frees can be handed out again meanwhile, except in two cases: while
 * a blocking stream is captured, or one whose work before the capture has no mark (it was drawn
 * into the capture, or is captured by an engine). A stream of the second kind that was destroyed in
 * its capture counts until no capture is under way.
 *
 * The idea of reuse by reachability in the graph, without nodes added for it, is PyTorch's
 * (graph_capture_record_stream_reuse); there it works within a stream's own blocks.
 *
 * Limits. At most 64 streams of one capture may allocate (TNR_ERR_CAPTURE for more). Edges of a
 * type other than the default order nothing here. If a copy or set reaches over the end of the
 * block that it begins in, Tenure keeps that block alone; the audit reports it. A program may take
 * dependencies away from a stream by hand (cuStreamUpdateCaptureDependencies). Before that, it must
 * record that stream's uses with tnr_record_use, also the uses of the stream's own blocks, because
 * then a free on the stream no longer comes after them.
 *
 * Threads, context, fork, failure: as <tenure/alloc.h> says. Needs a driver of CUDA 12.3 or newer,
 * else TNR_ERR_DRIVER_TOO_OLD.
 */
#ifndef TENURE_CAPTURE_H
#define TENURE_CAPTURE_H

#include <tenure/lifetime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The same types as CUgraph and CUgraphExec (cudaGraph_t, cudaGraphExec_t). */
typedef struct CUgraph_st *tnr_cuda_graph;
typedef struct CUgraphExec_st *tnr_cuda_graph_exec;

/* A graph that was captured through Tenure: a number that is never given again; 0 is none. */
typedef uint64_t tnr_graph;

/* ---- capturing ----------------------------------------------------------------------------- */

/* As CUstreamCaptureMode: which calls the driver forbids meanwhile, and to whom. */
typedef enum tnr_capture_mode {
    TNR_CAPTURE_GLOBAL = 0,
    TNR_CAPTURE_THREAD_LOCAL = 1,
    TNR_CAPTURE_RELAXED = 2
} tnr_capture_mode;

/* How to capture. Zero in any field means its default. */
typedef struct tnr_capture_options {
    size_t struct_bytes;   /* sizeof(tnr_capture_options): set by the initialiser below */
    tnr_pool pool;         /* a graph pool to capture into; default: one of the graph's own */
    tnr_capture_mode mode; /* for tnr_capture_begin */
    const char *name;      /* for reports; copied; default "graph N" */
} tnr_capture_options;

#define TNR_CAPTURE_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(tnr_capture_options), NULL, TNR_CAPTURE_GLOBAL, NULL                                \
    }

/* Begins to capture `stream`. From now on tnr_malloc on it, and on every stream that joins the
 * capture, serves from the graph's pool of the stream's device. `options` may be null. Calls the
 * driver.
 * Errors, each leaving the stream as it was: TNR_ERR_INVALID_ARGUMENT, TNR_ERR_INVALID_STREAM
 * (legacy stream, destroyed, of another device), TNR_ERR_INVALID_POOL (no graph pool, or of another
 * device), TNR_ERR_CAPTURE (is being captured already), TNR_ERR_BUSY (from a callback of Tenure's),
 * TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER, TNR_ERR_DRIVER_TOO_OLD, those of a device's first use. Since
 * 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_capture_begin(int device, tnr_stream stream,
                                                   const tnr_capture_options *options);

/* Ends the capture that tnr_capture_begin began on `stream`. Stores the CUDA graph, which the
 * caller owns, and its number (`graph` may be null). From here on Tenure keeps, for the graph, the
 * blocks outside that it refers to.
 * Errors that refuse the call, with nothing ended and *cuda_graph and *graph as they were:
 * TNR_ERR_CAPTURE (none was begun there, or not by this thread), TNR_ERR_INVALID_ARGUMENT
 * (cuda_graph is null), TNR_ERR_BUSY (from a callback of Tenure's), those of a device's first use.
 * After any other error the capture is over, and there is no graph (*cuda_graph is null, *graph is
 * 0): TNR_ERR_CAPTURE_INVALIDATED (it was invalid, or streams have not joined again),
 * TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER. Tenure gives back what the capture held; blocks allocated in
 * it stay live until they are freed. There is one exception, whatever the error: if the driver
 * refuses twice to end the capture, and says that it is under way, it is under way for Tenure too.
 * The text says so; end or abort it again.
 * The driver ends a capture without this call if another thread calls cuStreamEndCapture, which
 * gives that thread an error, and if the stream is destroyed. Tenure notices that when a stream is
 * captured next, when memory is short and when it is asked for statistics. A graph that came of the
 * capture past Tenure keeps its memory, and everything that was freed during the capture, until it
 * ends. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_capture_end(tnr_cuda_graph *cuda_graph, tnr_graph *graph,
                                                 int device, tnr_stream stream);

/* Ends the capture and throws the graph away, whatever state it is in. Errors: TNR_ERR_CAPTURE
 * (none was begun there, or not by this thread), TNR_ERR_BUSY (from a callback of Tenure's),
 * TNR_ERR_DRIVER (the driver refuses to end the capture: then it is under way as before), those of
 * a device's first use. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_capture_abort(int device, tnr_stream stream);

/* Follows a capture that is under way on `stream` and that the engine will end itself. Stores the
 * number of the graph that comes of the capture. If no graph comes of it, the number ends by
 * itself. `options->mode` is not used. Attach at once: Tenure does not know of the capture before,
 * and if a call of another thread has to wait for the device meanwhile, the driver makes the
 * capture invalid. Errors: as tnr_capture_begin; TNR_ERR_CAPTURE if the stream
 * is not being captured, its capture is invalid, or Tenure follows that capture already. Since
 * 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_capture_attach(tnr_graph *graph, int device, tnr_stream stream,
                                                    const tnr_capture_options *options);

/* Pass this to tnr_capture_ended in place of the CUDA graph. It is for a hook that an engine calls
 * after its cuStreamEndCapture has succeeded, without saying which graph came of it. It stands for
 * the graph that the driver named when Tenure was attached, which is the same graph. That graph
 * must not have been destroyed. tnr_capture_ended returns TNR_ERR_CAPTURE if another call has
 * noticed the end already: then this call has no effect. Since 0.1.0. */
#define TNR_CAPTURED_GRAPH ((tnr_cuda_graph)(uintptr_t)1)

/* The engine has ended the capture of `graph`: `cuda_graph` is what came of it, null if nothing
 * did. Call this right after cuStreamEndCapture, before the graph is changed or destroyed. Without
 * this call Tenure notices the end at the next free by a thread that takes part, or when it is
 * asked about captures or statistics. It then keeps for the graph every block that was freed during
 * the capture, because it does not know which of them the graph refers to. It keeps nothing of what
 * is freed later: that is then the program's duty.
 * Errors: TNR_ERR_INVALID_GRAPH, TNR_ERR_CAPTURE (it has not ended), TNR_ERR_BUSY (from a callback
 * of Tenure's), TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_capture_ended(tnr_graph graph, tnr_cuda_graph cuda_graph);

/* Keeps every block that a CUDA graph refers to, until the graph ends. It is for a graph that was
 * not captured through Tenure (built node by node, or loaded). The graph's number behaves like that
 * of a capture. Errors: TNR_ERR_INVALID_ARGUMENT (null, or no CUDA graph), TNR_ERR_BUSY (from a
 * callback of Tenure's), TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER, TNR_ERR_DRIVER_TOO_OLD, those of a
 * device's first use. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_graph_adopt(tnr_graph *graph, tnr_cuda_graph cuda_graph,
                                                 int device, const char *name);

/* ---- pools of graphs ----------------------------------------------------------------------- */

/* Makes a pool that several graphs may be captured into. Each graph shares the memory of whatever
 * the others had freed when it was captured, so launches of these graphs must not overlap: see
 * tnr_graph_launch. Only captures allocate from the pool. End it with tnr_pool_destroy, which
 * refuses while a graph of it lives. Errors: those of tnr_pool_create, TNR_ERR_BUSY (from a
 * callback of Tenure's). Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_graph_pool_create(tnr_pool *pool, int device,
                                                       const tnr_pool_options *options);

/* Makes a pool for an engine that itself orders all that uses the pool: captures, the launches of
 * their graphs, and work outside of captures. This waives the guarantee, for this pool alone. The
 * pool's blocks are ordinary ones, of any stream, in a capture or not. A free makes memory
 * available at once to what is given to the same stream next, also to another graph, and graphs
 * keep nothing of it. The pool does promise this: no address of it moves, changes streams, or loses
 * its memory before tnr_pool_trim or tnr_pool_destroy names the pool, whatever else runs short. So
 * a graph replays on the memory that it was captured with as long as the pool lives. The engine
 * must see to it that the pool lives. With tnr_pool_malloc_at the engine puts blocks back where
 * they were.
 *
 * Name the pool to a capture as a graph pool is named (tnr_capture_options.pool). Allocations in
 * the capture are then served as outside: from the pool that the thread is routed to by
 * tnr_pool_push, or that tnr_pool_malloc names. What the graph refers to in other pools is kept as
 * for any graph. A block that another stream uses in a capture (tnr_record_stream) is kept until
 * the capture ends. The pool is for engines such as PyTorch's cudagraph trees, which replay one
 * path of a tree of graphs at a time. Errors: those of tnr_pool_create. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_vouched_pool_create(tnr_pool *pool, int device,
                                                         const tnr_pool_options *options);

/* Vouches for a graph pool that captures have used already. It is for an engine that says only
 * later that it orders all that uses the pool. From now on graphs keep none of the pool's blocks,
 * and those that they kept are let go. A block that has outlived its capture is available at once
 * when it is freed, and tnr_pool_malloc_at puts blocks back into the pool. Captures still share its
 * memory by their graphs' edges, and its memory stays mapped to its addresses while a graph of it
 * lives. The call cannot be undone; a second one does nothing.
 * Errors: TNR_ERR_INVALID_POOL (null, or no graph pool), TNR_ERR_BUSY (from a callback),
 * TNR_ERR_AFTER_FORK, TNR_ERR_DRIVER. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_graph_pool_vouch(tnr_pool pool);

/* ---- launching ----------------------------------------------------------------------------- */

/* Launches an executable of the graph on `stream`. First makes the stream wait, on the device, for
 * the latest launch of any graph that shares the pool, and for uses of the pool's freed blocks that
 * are not over. Errors, each without a launch: TNR_ERR_INVALID_GRAPH, TNR_ERR_OVERWRITE (the text
 * names the block), TNR_ERR_ASLEEP (its pool, or the pool of a block that is kept for it),
 * TNR_ERR_PARKED (the graph refers to a parked block; since 0.2.0), TNR_ERR_INVALID_STREAM,
 * TNR_ERR_CAPTURE (the stream is being captured, or a capture under way leaves no way to order the
 * launch), TNR_ERR_BUSY (from a callback of Tenure's), TNR_ERR_DRIVER, TNR_ERR_HOST_MEMORY;
 * tnr_graph_launch also TNR_ERR_INVALID_ARGUMENT (exec is null). Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_graph_launch(tnr_graph graph, tnr_cuda_graph_exec exec,
                                                  tnr_stream stream);

/* Does all that except the launch, for an engine that launches itself: call it right before
 * cuGraphLaunch on that stream. Without it only the engine itself orders launches of graphs that
 * share a pool. Two threads must not call it at once for graphs of one pool: one could launch
 * before the other's launch that it was ordered after. Errors: those of tnr_graph_launch
 * but TNR_ERR_INVALID_ARGUMENT. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_graph_launching(tnr_graph graph, tnr_stream stream);

/* For the same engine: call it right after cuGraphLaunch, on the same thread. While the history is
 * on, it records the launch's end too, and calls the driver for that; tnr_graph_launch does it by
 * itself. Without this call the launch has no end in the history, and nothing else is missing. Does
 * nothing if the thread's latest tnr_graph_launching was of another graph or stream, if the history
 * was off then, or if the end of the stream's work cannot be marked. Since 1.1.0. */
TNR_API void tnr_graph_launched(tnr_graph graph, tnr_stream stream);

/* What is known of a graph. */
typedef struct tnr_graph_info {
    size_t struct_bytes; /* set it to sizeof(tnr_graph_info) before the call */
    char name[64];
    int device;
    int is_capturing;     /* 1: the capture is under way */
    int is_private;       /* 1: its pool is its own */
    tnr_pool pool;        /* that of `device`; null for an adopted graph */
    uint64_t blocks;      /* handed out in the capture, on all devices */
    uint64_t bytes;       /* of addresses handed out in it, each counted once */
    uint64_t reused;      /* how many of the blocks were of memory freed earlier in the capture */
    uint64_t kept_blocks; /* outside blocks that are kept for it */
    uint64_t kept_bytes;
    uint64_t launches; /* how many were reported to Tenure */
} tnr_graph_info;

/* Describes a graph as it is now. May call the driver, for graphs that it finds to have ended.
 * Errors: TNR_ERR_INVALID_ARGUMENT (info is null, struct_bytes not set), TNR_ERR_INVALID_GRAPH
 * (none has that number, or it has ended). Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_graph_get(tnr_graph_info *info, tnr_graph graph);

/* ---- audit --------------------------------------------------------------------------------- */

/* Where an address was found. Batches of memory operations, which set or wait for single words,
 * count as TNR_AUDIT_SET. */
typedef enum tnr_audit_place { TNR_AUDIT_KERNEL, TNR_AUDIT_COPY, TNR_AUDIT_SET } tnr_audit_place;

/* Whether the guarantee holds for it, and why. */
#define TNR_AUDIT_VERDICT_LIST(X)                                                                  \
    X(OWN, "handed out in this capture")                                                           \
    X(KEPT, "a block outside, kept for this graph")                                                \
    X(SHARED, "handed out in the capture of another graph of the pool")                            \
    X(LOOSE, "a live block that is not kept for this graph: nothing stops its free")               \
    X(FREED, "in no live block and not handed out in this capture: it may be someone else's")      \
    X(UNMAPPED, "no memory is mapped there")

typedef enum tnr_audit_verdict {
#define TNR_AUDIT_VERDICT_ENUMERATOR(name, text) TNR_AUDIT_##name,
    TNR_AUDIT_VERDICT_LIST(TNR_AUDIT_VERDICT_ENUMERATOR)
#undef TNR_AUDIT_VERDICT_ENUMERATOR
        TNR_AUDIT_VERDICT_COUNT
} tnr_audit_verdict;

/* One address in one node. */
typedef struct tnr_audit_finding {
    uint64_t node;      /* its number in the walk, from 0; child graphs are walked in place */
    unsigned depth;     /* of child graphs */
    const char *kernel; /* its name, if the node is a kernel and the driver tells; else null */
    tnr_audit_place place;
    /* In a kernel: the address's offset in the parameters. In a copy: 0 for the destination, 1 for
     * the source. In a batch of memory operations: the operation's number. */
    size_t offset;
    /* Of a copy or set: the first byte that it touches; or, if that is safe and another one is not,
     * the first that is not. */
    uintptr_t address;
    uintptr_t block; /* start of the block that contains it; 0: none */
    size_t bytes;    /* of that block */
    tnr_pool pool;   /* of that block; null: the default pool or none */
    tnr_graph owner; /* the graph that it was handed out for, or is kept for; 0: none */
    tnr_audit_verdict verdict;
    int is_safe;          /* 1: the guarantee holds for this address */
    uint64_t reserved[4]; /* 0: room for what later versions tell */
} tnr_audit_finding;

/* The sums. proved == all addresses with is_safe; found == proved + unproved. */
typedef struct tnr_audit {
    size_t struct_bytes; /* set it to sizeof(tnr_audit) before the call */
    uint64_t nodes, kernels, copies, sets, others;
    uint64_t children; /* child graphs, and bodies of conditional nodes, walked into */
    /* Nodes that the driver did not describe in full: what they refer to is not known, and the
     * audit has failed for them. */
    uint64_t unread;
    uint64_t found, proved, unproved;
} tnr_audit;

/* Called for each managed address found, with no lock held, after the walk. The finding is valid
 * during the call. */
typedef void (*tnr_audit_visit)(const tnr_audit_finding *finding, void *user);

/* Walks all nodes of a CUDA graph and looks for addresses that Tenure manages: in every aligned
 * word of kernel parameters (both forms of launch), in all that copies and sets touch, and in
 * batches of memory operations. A number there counts as an address if it looks like one in a range
 * that Tenure has dealt out. `graph` may be 0: then nothing is kept for it, and live blocks count
 * as LOOSE. `visit` may be null. Changes nothing. The graph must not change meanwhile. Calls the
 * driver.
 *
 * The guarantee holds for what is OWN or KEPT, and for nothing else. It makes no difference whether
 * a pool sleeps or a block is parked: the addresses stay the graph's, and launches are refused
 * until the pool wakes or the block is unparked.
 *
 * What it cannot see: addresses that kernels read from memory (arrays of pointers), or that their
 * parameters hold in another form; what host functions do; parameters that were changed in an
 * executable afterwards.
 *
 * Three kinds of nodes are unread: kernels launched with an array of parameters, if the driver is
 * older than CUDA 12.4; the bodies of conditional nodes, if it is older than 13.2; and nodes of
 * kinds newer than this library.
 *
 * Errors: TNR_ERR_INVALID_ARGUMENT, TNR_ERR_INVALID_GRAPH, TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER,
 * TNR_ERR_DRIVER_TOO_OLD, TNR_ERR_AFTER_FORK, those of tnr_init. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_graph_audit(tnr_audit *audit, tnr_cuda_graph cuda_graph,
                                                 tnr_graph graph, tnr_audit_visit visit,
                                                 void *user);

/* How tnr_graph_audit_write writes. */
typedef enum tnr_audit_format { TNR_AUDIT_TEXT, TNR_AUDIT_JSON } tnr_audit_format;

/* Writes an audit's findings and sums to a file descriptor: as text for people, a line for each
 * finding, or as one JSON document (docs/audit.schema.json). If the descriptor does not block and
 * is full, the call waits. Errors: those of tnr_graph_audit; TNR_ERR_INVALID_ARGUMENT if writing
 * fails, and then a part may have been written. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_graph_audit_write(tnr_cuda_graph cuda_graph, tnr_graph graph,
                                                       tnr_audit_format format, int file);

#ifdef __cplusplus
}
#endif
#endif
