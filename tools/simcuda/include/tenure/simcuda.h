/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control of the simulated CUDA device.
 *
 * libtenure_simcuda.so has the CUDA driver's ABI (cuInit, cuMemCreate, ...) and runs on the host.
 * Programs use it as they use the driver. Tests also need to control it: to register host functions
 * that stand for kernels, to make calls fail, to decide when queued work runs, to count what is
 * alive. That is what this header is for; the same library exports it.
 *
 * All functions may be called from any thread, before or after cuInit, unless said otherwise.
 * None of them counts as a driver call and none is affected by injected failures.
 *
 * The environment variables (TENURE_SIM_...) are described in tools/simcuda/README.md.
 */
#ifndef TENURE_SIMCUDA_H
#define TENURE_SIMCUDA_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- kernels -------------------------------------------------------------------------------- */

/* One range of memory that an operation touches. */
typedef struct simcuda_access {
    CUdeviceptr address; /* first byte */
    size_t bytes;        /* 0 is allowed and touches nothing */
    int is_write;        /* 0 for a read, anything else for a write */
} simcuda_access;

/* Does a kernel's work on the host. params[i] points at a copy of the i-th parameter, taken at
 * launch. Device addresses can be dereferenced directly: simulated memory really lies there.
 * Runs without the simulation's lock; cu* calls made inside give CUDA_ERROR_NOT_PERMITTED. */
typedef void (*simcuda_kernel_run)(void *const *params);

/* Says what a launch with these parameters will touch: writes up to capacity entries to out and
 * returns how many there are. If it returns more than capacity, the simulation asks again with room
 * enough. Called at launch, with the simulation locked: it must not call cu* or simcuda_*. */
typedef size_t (*simcuda_kernel_accesses)(void *const *params, simcuda_access *out,
                                          size_t capacity);

/* Where a kernel function finds the memory at a device address, for as long as it stays mapped: at
 * the address itself, or with TENURE_SIM_VIEW=1 in the simulation's view of it. The memory is in
 * one piece up to the next multiple of the granularity. Null if nothing is mapped at a reserved
 * address. */
void *simcuda_memory_at(CUdeviceptr address);

/* The address that a tensor map leads to. For kernel functions: they are given the map's 128
 * bytes. */
CUdeviceptr simcuda_tensor_address(const void *map);

/* Makes a host function available as a kernel: cuModuleLoadData (any image) followed by
 * cuModuleGetFunction(name) finds it. Names are copied; a second registration of a name replaces
 * the first for modules loaded later. Registrations survive simcuda_reset.
 * accesses may be null: then nothing is checked, and a bad address faults in run.
 * Returns 0; -1 if name or run is null, a size is 0, or memory is short. */
int simcuda_kernel_register(const char *name, size_t param_count, const size_t *param_bytes,
                            simcuda_kernel_run run, simcuda_kernel_accesses accesses);

/* An image for cuModuleLoadData that says what is in it, for programs whose kernels are not all
 * registered: tools/simcudart makes them of what nvcc embeds. All is copied. A kernel that is
 * registered under its name runs. Another does nothing, and counts as a read of what its pointers
 * (parameters of 8 bytes that lead to memory) point at. Variables are found with cuModuleGetGlobal,
 * and end with the module. */
#define SIMCUDA_IMAGE_MAGIC "tenure simcuda image 1"

typedef struct simcuda_image_kernel {
    const char *name;
    size_t param_count;
    const size_t *param_bytes;
    const size_t *param_offset; /* in the packed form */
} simcuda_image_kernel;

typedef struct simcuda_image_variable {
    const char *name;
    size_t bytes;
    const void *contents; /* null: zeros */
} simcuda_image_variable;

typedef struct simcuda_image {
    char magic[sizeof(SIMCUDA_IMAGE_MAGIC)];
    const simcuda_image_kernel *kernels;
    size_t kernel_count;
    const simcuda_image_variable *variables;
    size_t variable_count;
} simcuda_image;

/* 1 if a kernel is registered under the name, with as many parameters of these sizes; -1 if it has
 * others; 0 if there is none. */
int simcuda_kernel_known(const char *name, size_t param_count, const size_t *param_bytes);

/* ---- counting calls ------------------------------------------------------------------------- */

/* How often an entry point was entered since cuInit's state was last reset, whatever the outcome.
 * The name may be with or without ABI suffix ("cuMemFree" counts every form of it, "cuMemFree_v2"
 * that form). Unknown names give 0. */
uint64_t simcuda_calls(const char *entry_point);
uint64_t simcuda_calls_total(void);
uint64_t simcuda_calls_here(void); /* by this thread, since it began */
void simcuda_calls_reset(void);

/* What those calls would have cost on an H200, in nanoseconds, by a table of measurements
 * (tools/simcuda/cost.def). The time is modelled, not measured, and no call took it. Each
 * mapping counts by its size, whatever the number of calls. "*" is the sum over all entry points.
 * simcuda_calls_reset sets it to 0. */
uint64_t simcuda_modelled_ns(const char *entry_point_or_star);

/* ---- time ----------------------------------------------------------------------------------- */

/* The time of a program that is played: 0 at first, and then what was set last. It stands still
 * otherwise. So what the clock decides is a function of the inputs. Never goes back. */
uint64_t simcuda_time_ns(void);
void simcuda_time_set(uint64_t ns);

/* ---- injected failures ---------------------------------------------------------------------- */

/* Makes the nth call (1 is the next one) of an entry point fail with error, having done nothing.
 * "*" is any entry point except the error-name queries. With sticky != 0 every later call fails
 * too. Rules add up, at most 32 of them; the first that applies decides the error. */
void simcuda_fail(const char *entry_point_or_star, uint64_t nth, int sticky, CUresult error);
void simcuda_fail_clear(void);
int simcuda_has(const char *entry_point); /* 1 if there is such an entry point */
uint64_t simcuda_fail_hits(void); /* calls that were made to fail since the last reset or clear */

/* ---- what is alive -------------------------------------------------------------------------- */

typedef struct simcuda_live {
    uint64_t handles;            /* physical handles whose memory is still held */
    uint64_t handle_references;  /* cuMemRelease calls still owed */
    uint64_t handle_bytes;       /* bytes of those handles */
    uint64_t mappings;           /* cuMemMap not yet unmapped */
    uint64_t mapped_bytes;       /* their sum; a handle mapped twice counts twice */
    uint64_t reservations;       /* cuMemAddressReserve not yet freed */
    uint64_t reserved_bytes;     /* their sum */
    uint64_t allocations;        /* cuMemAlloc and cuMemAllocAsync */
    uint64_t allocated_bytes;    /* their sum */
    uint64_t pinned;             /* cuMemAllocHost, cuMemHostAlloc */
    uint64_t pinned_bytes;       /* their sum */
    uint64_t events;             /* created, not destroyed */
    uint64_t streams;            /* created, not destroyed; default streams are not counted */
    uint64_t contexts;           /* cuCtxCreate contexts, not destroyed */
    uint64_t primary_references; /* cuDevicePrimaryCtxRetain calls not yet released */
    uint64_t modules;            /* loaded, not unloaded */
    uint64_t graphs;             /* not destroyed; children are not counted */
    uint64_t graph_execs;        /* instantiated, not destroyed */
    uint64_t user_objects;       /* with references left */
    uint64_t pending;            /* operations queued, not finished */
    uint64_t used_bytes;         /* device memory in use, as cuMemGetInfo sees it */
} simcuda_live;

/* Fills *live for one device, or for all of them together with device -1. Reservations and pinned
 * memory belong to the device of the context they were made in. Returns 0; -1 for a device that
 * does not exist or a null pointer. Before cuInit everything is 0. */
int simcuda_live_get(int device, simcuda_live *live);

/* How many mappings the process has, from /proc/self/maps; the kernel refuses at about 65,530. */
uint64_t simcuda_linux_mappings(void);

/* ---- violations ----------------------------------------------------------------------------- */

/* A violation is a wrong use of the driver, which the driver itself may not report: unmapping under
 * queued work, touching memory that is not there, releasing twice, using a destroyed handle. Each
 * is counted and printed; TENURE_SIM_STRICT=abort stops the program at the first. */
uint64_t simcuda_violations(void);
const char *simcuda_violation_last(void); /* "" if none; valid in this thread until its next call */
void simcuda_violations_clear(void);

/* ---- races ---------------------------------------------------------------------------------- */

/* With the race detector on, the simulation reports two operations that touch the same bytes, at
 * least one of them writing, if nothing orders them, whatever the schedule happened to be. It also
 * reports an operation on memory whose owner is gone. TENURE_SIM_RACES=1 turns the detector on with
 * cuInit.
 *
 * What orders operations: their stream; an event recorded and waited for; the legacy stream's
 * rules; a value wait, after the write that satisfied it; and the host. Whatever the host has
 * waited for, or a query has called finished, comes before everything that any thread queues from
 * then on. (Host threads are taken as one. The simulation cannot see how they tell each other what
 * they know.)
 *
 * Races are found when the operations run, so look at the counts after synchronising. Ownership is
 * checked when an operation is queued. The detector does not see what the host itself does to
 * memory. Bytes are physical: two mappings of one handle are the same memory. */

typedef enum simcuda_report_kind {
    SIMCUDA_RACE,           /* two operations without order, one of them a write */
    SIMCUDA_UNFINISHED,     /* a mapping or block goes; the host does not know its users finished */
    SIMCUDA_USE_AFTER_FREE, /* queued after simcuda_owner_end of the memory it touches */
    SIMCUDA_OVERRUN,        /* begins in a block and ends outside, or the other way round */
    SIMCUDA_NO_OWNER,       /* touches tracked memory that no one ever owned */
    SIMCUDA_TWO_OWNERS,     /* simcuda_owner_begin on memory that still has an owner */
    SIMCUDA_REPORT_KINDS
} simcuda_report_kind;

/* One side of a report. Texts are valid during the callback only. Nodes of a graph are numbered
 * from 1, in the order in which they were added to it; nodes of a child graph are numbered in that
 * graph. */
typedef struct simcuda_touch {
    const char *what;  /* entry point: "cuMemsetD8Async", "simcuda_owner_end"; null: no such side */
    const char *label; /* what simcuda_origin said at the call, or "" */
    const char *owner; /* label of the block, or "" */
    uint64_t stream_id;  /* as cuStreamGetId gives it; 0: not an operation */
    uint64_t number;     /* of the operation in its stream from 0; else operations queued before */
    int is_node;         /* 1: of a launched graph; number is that of the node, see below */
    CUdeviceptr address; /* as the operation used it; for races, of the bytes both touch */
    size_t bytes;
    int is_write;
    uint32_t tag;    /* who queued it, by simcuda_observe; 0: not asked */
    uint64_t queued; /* of two operations the one with the lower number was queued first */
} simcuda_touch;

typedef struct simcuda_report {
    simcuda_report_kind kind;
    simcuda_touch earlier;    /* races: ran first; use after free: the free */
    simcuda_touch later;      /* the one that brought the matter to light */
    simcuda_touch allocation; /* ownership: the block's begin */
    const char *text;         /* all of it in a sentence */
} simcuda_report;

/* Called with the simulation locked: it must not call cu* or simcuda_*. */
typedef void (*simcuda_report_function)(const simcuda_report *report, void *data);

/* Turns the detector on or off. What was decided before cuInit goes before the environment. While
 * operations are queued it does nothing and returns -1. After simcuda_reset the environment
 * decides. */
int simcuda_races_enable(int on);
int simcuda_races_enabled(void);

/* Names what this thread is doing ("step 12: free"): operations that it queues carry the text (63
 * characters of it) into reports, until the next call. Null or "" ends it. Cheap if nothing
 * changes. */
void simcuda_origin(const char *label);

uint64_t simcuda_races(void); /* reports of all kinds since the last clear or reset */
uint64_t simcuda_races_of(simcuda_report_kind kind);
const char *simcuda_race_last(void); /* "" if none; valid in this thread until its next call */
void simcuda_races_clear(void);      /* counts only: what memory remembers stays */

/* Reports go to the function instead of stderr, until null is given or the next reset. */
void simcuda_races_callback(simcuda_report_function function, void *data);

/* A call that queues operations that touch memory: a copy, a set, a launch of a kernel or a graph,
 * a value that is written or waited for, a free in the order of a stream. */
typedef struct simcuda_call {
    const char *what;   /* entry point, by its plain name: "cuMemcpyDtoHAsync"; a constant */
    const char *kernel; /* valid during the call only; null: none, or a graph's */
    CUstream stream;    /* of a default stream CU_STREAM_LEGACY or CU_STREAM_PER_THREAD */
    uint64_t stream_id; /* as cuStreamGetId gives it */
    int device;         /* whose stream it is */
} simcuda_call;

typedef uint32_t (*simcuda_call_function)(const simcuda_call *call, void *data);

/* For a checker that knows the program's calls, while the program does not know of the checker.
 * With the detector on, the simulation asks `call` at each such call, on the thread that makes it,
 * before anything of it runs. The answer is the `tag`, in reports, of what the call queued. `race`
 * gets each SIMCUDA_RACE, which is then not printed. Both are called with the simulation
 * locked, must not call cu* or simcuda_*, and stay over a reset. Null functions end it. */
void simcuda_observe(simcuda_call_function call, simcuda_report_function race, void *data);

/* Waits for all that a device was given by now, as cuMemFree does. It is for a tool that stands in
 * for that call and does not wait. In a host function it does nothing. */
void simcuda_wait_device(int device);

/* For a tool that protects memory of the host's: the function is called with 1 before a copy or a
 * set touches memory and with 0 after it, for each side, with the simulation locked. It must not
 * call cu* or simcuda_*. Kernels run without. */
typedef void (*simcuda_touches_function)(int begins, const void *from, size_t bytes);
void simcuda_observe_touches(simcuda_touches_function touches);

/* Ownership. begin: the bytes belong to a block from now on, in the order in which the host makes
 * its calls. end: the block's owner freed it. Whatever is queued afterwards and touches any of the
 * bytes is a use after free, until they are owned again. An operation that begins in a block must
 * end in it. Memory that was never owned may be touched freely, unless it is tracked.
 * Return 0; -1 for an empty range, short memory, or an end where no block begins. With the detector
 * off they do nothing and return 0. */
int simcuda_owner_begin(CUdeviceptr address, size_t bytes, const char *label);
int simcuda_owner_end(CUdeviceptr address);
int simcuda_owner_track(CUdeviceptr address, size_t bytes, int on);

/* The host reads and writes these bytes from now on, as when it is given a block of host memory. It
 * is a violation if an operation that has not finished touches them, and reported (UNFINISHED) if
 * one did that the host does not know to be finished, through whatever mapping. */
void simcuda_host_takes(CUdeviceptr address, size_t bytes);

/* Between pause(1) and pause(0) what this thread queues is not checked against owners: for an
 * allocator's own work on whole chunks, such as filling freed blocks or putting pools to sleep. */
void simcuda_owner_pause(int paused);

/* ---- time ----------------------------------------------------------------------------------- */

/* Runs up to max_ops queued operations that are able to run, chosen by the schedule, and returns
 * how many ran. UINT64_MAX runs everything that can run, and waits for what other threads run
 * meanwhile, unless a kernel or a host function calls it. In `threads` mode the workers do the
 * running: these only wait until nothing more can run, and return 0. */
uint64_t simcuda_run(uint64_t max_ops);
uint64_t simcuda_run_stream(CUstream stream, uint64_t max_ops); /* this stream's own operations */
uint64_t simcuda_pending(void);                                 /* queued and not finished */

/* ---- life ----------------------------------------------------------------------------------- */

/* Back to the state before cuInit: drops queued work, frees everything, reads the environment
 * again. Returns how many objects the program had left alive (references, mappings, reservations,
 * allocations, pinned blocks, events, streams, contexts, modules, graphs, executable graphs, user
 * objects). If the destructor of a user object has not run, it does not run. No other thread may be
 * inside the simulation. */
int simcuda_reset(void);

/* Plays the end of the process: from now on calls give CUDA_ERROR_DEINITIALIZED until a reset. */
void simcuda_shutdown(void);

#ifdef __cplusplus
}
#endif
#endif
