/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the simulated device share: its objects and the functions between them.
 *
 * One mutex guards everything ("the lock"). sim_enter takes it, sim_leave gives it back; every
 * function declared here expects it held unless its comment says otherwise. Kernels and host
 * functions run without it, and so do copies and memsets in `threads` mode.
 *
 * Order of queued work is kept by tickets: every operation gets the next number of one global
 * counter, so a stream's operations have rising tickets and "everything before now" is one
 * number. An event's record, a wait and a synchronise are all a point: a stream and a ticket.
 */
#ifndef TENURE_SIM_H
#define TENURE_SIM_H

/* The header then declares every form of every function under its own name. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#undef cuGetProcAddress_v2

#include "tenure/simcuda.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SIM_DEVICES_MAX = 32,
    SIM_RULES_MAX = 32,
    SIM_OP_ACCESSES = 2 /* ranges kept inside an operation; kernels may have more */
};

/* ---- entry points --------------------------------------------------------------------------- */

enum sim_entry {
#define SIM_ENTRY(name, symbol, since) SIM_##symbol,
#define SIM_ENTRY_STREAM(name, symbol, since, per_thread) SIM_##symbol,
#include "entry_points.def"
#undef SIM_ENTRY
#undef SIM_ENTRY_STREAM
    SIM_ENTRY_COUNT
};

/* What cost.def tells of each size, in the order of its columns. */
enum sim_cost {
    SIM_COST_CREATE,
    SIM_COST_MAP,
    SIM_COST_ACCESS,
    SIM_COST_UNMAP,
    SIM_COST_RELEASE,
    SIM_COST_ALLOC,
    SIM_COST_FREE,
    SIM_COST_KINDS
};

/* What a call needs before it may do anything. */
enum {
    SIM_NEEDS_NOTHING = 0,
    SIM_NEEDS_INIT = 1,    /* cuInit has succeeded */
    SIM_NEEDS_CONTEXT = 3, /* and the thread has a current context */
    SIM_NEEDS_CLEAN = 7,   /* and no earlier fault has poisoned that context */
    SIM_NEEDS_VMM = 9,     /* initialised, and the device has virtual memory management */
    SIM_NEEDS_SAFETY = 23  /* the clean context, and no capture that forbids such calls */
};

/* ---- settings (settings.c) ------------------------------------------------------------------ */

/* For what a driver takes memory for itself: overhead.c. */
enum sim_overhead {
    SIM_OVERHEAD_CONTEXT,
    SIM_OVERHEAD_MODULE,
    SIM_OVERHEAD_LAUNCH, /* the first of a function */
    SIM_OVERHEAD_GRAPH,  /* the first launch, or upload, of an executable graph */
    SIM_OVERHEAD_EVENT,
    SIM_OVERHEADS
};

enum sim_schedule { SIM_LAZY, SIM_RANDOM, SIM_EAGER, SIM_THREADS };

/* Whether device memory has a view, and whether it is at its addresses as well: view.c. */
enum sim_view { SIM_VIEW_NONE, SIM_VIEW_ONLY, SIM_VIEW_BESIDE };

struct sim_settings {
    uint64_t devices;
    uint64_t memory_bytes;      /* per device */
    uint64_t granularity_bytes; /* power of two, at least a page */
    uint64_t
        pinned_align_bytes; /* of cuMemHostAlloc's larger blocks; power of two, at least a page */
    uint64_t reserve_bytes; /* all reservations together */
    uint64_t seed;
    uint64_t queries; /* not-ready answers before a lazy schedule runs one operation */
    uint64_t threads; /* workers in threads mode */
    uint64_t deadlock_ms;
    uint64_t lag_us;  /* what a worker runs begins so much later */
    uint64_t idle_ms; /* without a call for so long, queued work goes on; 0: it does not */
    uint64_t version; /* as cuDriverGetVersion says it */
    enum sim_schedule schedule;
    int vmm;
    int peers;      /* devices reach each other's memory */
    int rdma;       /* network cards may address mapped memory */
    int keep_pages; /* what is in released memory is given back at the end only */
    enum sim_view view;
    int races; /* the race detector starts with cuInit */
    int abort_on_violation;
    uint64_t overhead_bytes[SIM_OVERHEADS];
    char dmem[256]; /* the folder of a control group; empty: none */
    char
        meminfo[256]; /* the file that plays /proc/meminfo of the memory that devices share with the
                        * host; empty: they do not */
    char shared[256]; /* the file of a budget in common with other processes; empty: none */
    uint8_t missing[SIM_ENTRY_COUNT]; /* entry points that cannot be found */
};

/* ---- handles (handle.c) --------------------------------------------------------------------- */

enum sim_kind {
    SIM_FREE_SLOT,
    SIM_STREAM,
    SIM_EVENT,
    SIM_CONTEXT,
    SIM_MODULE,
    SIM_FUNCTION,
    SIM_POOL,
    SIM_GRAPH,
    SIM_NODE,
    SIM_GRAPH_EXEC,
    SIM_USER_OBJECT,
    SIM_KINDS
};

/* What a CUstream, CUevent, ... points at. Slots are reused last in, first out. So a program that
 * goes on using a destroyed object's handle soon meets the next object there. */
struct sim_slot {
    void *object;               /* null while free */
    struct sim_slot *next_free; /* of the same kind */
    enum sim_kind kind;
    enum sim_kind last_kind; /* of the object that was here, for messages */
};

/* ---- objects -------------------------------------------------------------------------------- */

struct sim_stream;
struct sim_region;
struct sim_clock; /* the race detector's: race.h */
struct sim_release;
struct sim_shadow;
struct sim_exec; /* an executable graph: graph.h */
struct sim_node;
struct sim_capture; /* capture.h */

/* A set of nodes of one graph, and what the edges from them say. */
struct sim_nodes {
    struct sim_node **node;
    CUgraphEdgeData *edge;
    size_t count;
    size_t room;
};

struct sim_point {
    struct sim_stream *stream; /* holds a reference where it is stored */
    uint64_t ticket;
    struct sim_release *release; /* an event record's clock, held too; null without detector */
};

struct sim_context {
    struct sim_slot *slot;
    struct sim_device *device;
    struct sim_stream *legacy;
    struct sim_stream *per_thread; /* default streams of threads, a list through next_default */
    uint64_t id;
    uint64_t references; /* primary: retains not released */
    unsigned flags;
    uint32_t peers; /* bit per device whose memory was enabled for access */
    CUresult error; /* sticky, once a queued operation has faulted */
    int is_primary;
    struct sim_context *next;
};

struct sim_device {
    struct sim_context primary;           /* active while its slot is not null */
    struct sim_pool *pool_default, *pool; /* the second is what cuMemAllocAsync allocates from */
    uint64_t capacity_bytes;
    uint64_t used_bytes;
    uint64_t next_offset; /* next unused offset of the file; used again in a view only */
    unsigned char *view;  /* the whole file, mapped; null without views */
    uint64_t clock_ns;    /* moves as operations run; what events measure */
    int file;             /* memfd with the memory of all VMM handles, sparse */
    int ordinal;
};

enum { SIM_POOL_FLAGS = 3 };

/* A memory pool. Kept until the reset: its blocks may outlive its handle. */
struct sim_pool {
    struct sim_slot *slot; /* null once destroyed */
    struct sim_device *device;
    uint64_t bytes_max, used_bytes;      /* bytes_max 0: no limit */
    uint64_t peak_bytes;                 /* of used_bytes, since it was set back */
    uint64_t keep_bytes;                 /* what the program wants kept; remembered only */
    uint32_t peers;                      /* bit per device that reaches its memory */
    uint8_t is_flag_off[SIM_POOL_FLAGS]; /* how freed memory is reused; remembered only */
    struct sim_pool *next;
};

/* Physical memory: a range of a file. Lives until neither references nor mappings are left. */
struct sim_memory {
    uint64_t id; /* the CUmemGenericAllocationHandle */
    uint64_t offset;
    uint64_t bytes;
    uint64_t references; /* cuMemRelease calls still owed */
    uint64_t mappings;
    uint64_t imports;          /* handles of this process that were imported from it */
    struct sim_memory *origin; /* imported in the process that made it: that handle, or null */
    struct sim_device *device;
    CUmemAllocationProp properties;
    int file;        /* the device's, or an imported one */
    int lease;       /* open description that holds the share lock, -1 if never shared */
    int is_imported; /* from another process */
    int is_host;     /* at a node of the host: of the device's file, but none of its bytes */
    struct sim_shadow *shadow; /* of the race detector; null until touched */
    uint32_t index;            /* in the table of handles */
};

struct sim_mapping {
    CUdeviceptr base;
    struct sim_memory *memory;
    struct sim_region *region;
    uint32_t readable; /* bit per device, and SIM_HOST_BIT */
    uint32_t writable;
};

/* Of host memory: the host has access. Bits of devices are lower. */
#define SIM_HOST_BIT (UINT32_C(1) << 31)

enum sim_region_kind { SIM_RESERVED, SIM_DEVICE_BLOCK, SIM_PINNED };

/* A stretch of address space that the simulation owns. Regions never overlap. */
struct sim_region {
    CUdeviceptr base;
    uint64_t bytes;
    enum sim_region_kind kind;
    struct sim_device *device;
    struct sim_context *context;
    uint64_t buffer_id;
    unsigned flags;             /* pinned: what cuMemHostAlloc or -Register was given */
    int is_registered;          /* pinned: the memory is the program's own */
    struct sim_pool *pool;      /* from cuMemAllocAsync; else null */
    int is_free_queued;         /* a cuMemFreeAsync is under way */
    struct sim_mapping **pages; /* reserved: one entry per granule */
    uint64_t mappings;          /* reserved: how many there are */
    struct sim_shadow *shadow;  /* not reserved: of the race detector; null until touched */
};

struct sim_event {
    struct sim_slot *slot; /* null once destroyed */
    struct sim_context *context;
    struct sim_point point; /* of the latest record; stream is null before the first */
    uint64_t time_ns;       /* when the latest record ran */
    uint64_t references;    /* the slot's and those of queued records */
    unsigned flags;
    struct sim_capture *capture; /* in which it was recorded last, held; null: in none */
    struct sim_nodes nodes;      /* what it then stands for, while that capture lasts */
};

struct sim_kernel {
    char *name;
    size_t param_count;
    size_t *param_bytes;
    size_t *param_offset; /* in the packed form */
    size_t packed_bytes;
    simcuda_kernel_run run;
    simcuda_kernel_accesses accesses;
    int is_unknown; /* of an image, and not registered: it does nothing */
    struct sim_kernel *next;
};

struct sim_function {
    struct sim_slot *slot;
    struct sim_context *context;
    const struct sim_kernel *kernel;
    int is_loaded; /* it has been launched, or captured */
    struct sim_function *next;
};

struct sim_variable {
    char *name;
    CUdeviceptr address;
    size_t bytes;
    uint64_t buffer_id; /* of its block */
};

struct sim_module {
    struct sim_slot *slot;
    struct sim_context *context;
    struct sim_function *functions;
    const struct sim_kernel **kernels; /* of an image that describes code, as the variables are */
    size_t kernel_count;
    struct sim_variable *variables;
    size_t variable_count;
};

/* ---- operations (op.c, execute.c) ----------------------------------------------------------- */

enum sim_op_kind {
    SIM_OP_RECORD,
    SIM_OP_WAIT,
    SIM_OP_WAIT_VALUE,
    SIM_OP_WRITE_VALUE,
    SIM_OP_SET,
    SIM_OP_COPY,
    SIM_OP_HOST,
    SIM_OP_KERNEL,
    SIM_OP_FREE,
    SIM_OP_EMPTY,      /* does nothing; others may wait for it */
    SIM_OP_WAIT_EVENT, /* in graphs only: queued as a wait for what the event then stands for */
    SIM_OP_KINDS
};

struct sim_access {
    CUdeviceptr address;
    uint64_t bytes;
    int is_write;
};

/* What a launch is asked to do, as nodes of graphs give it back. */
struct sim_call {
    CUfunction function;
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_bytes;
    int is_programmatic; /* may begin before the kernel that it follows in its stream has ended */
    CUevent begun;       /* recorded as it begins; null: none */
    void **parameters;   /* one of the two, or neither if there are no parameters */
    void **extra;
};

/* A kernel launch's parameters and accesses: one block, recycled through a free list. */
struct sim_launch {
    struct sim_launch *next_free;
    const struct sim_kernel *kernel;
    struct sim_call call; /* parameters and extra are in storage[] and extra[] */
    void *extra[5];       /* the packed form's description, its size first as the driver has it */
    size_t packed_bytes;  /* as given; at least the kernel's */
    size_t access_count;
    struct sim_access *access; /* few, or an allocation of its own */
    struct sim_access few[4];  /* what most kernels touch */
    size_t room_bytes;         /* of storage[] */
    max_align_t storage[];     /* parameter pointers, parameters in their packed form */
};

/* One operation, whatever it was submitted to. It contains what it does and which memory it
 * touches. sim_submit decides where it goes, and sim_execute runs it. It owns what it points at
 * (staged bytes, launch block, references to event and stream) until sim_op_dispose. */
struct sim_op {
    enum sim_op_kind kind;
    unsigned access_count; /* of access[]; kernels have theirs in the launch */
    uint8_t is_any_device; /* a copy between devices: peer access is not needed */
    uint8_t forks;         /* many will wait for it */
    uint16_t entry;        /* the entry point that queued it, for the race detector's reports */
    uint32_t label;        /* what the program called this place */
    uint32_t owner;        /* who owned the memory */
    uint32_t node;         /* of a launched graph: its number there, from 1; else 0 */
    uint32_t tag;          /* who queued it, as an observer says */
    uint64_t launched_in;  /* then the stream's id */
    uint64_t ticket;       /* given by sim_submit */
    struct sim_release *acquire; /* what the host knew; null: nothing new to this stream */
    struct sim_access access[SIM_OP_ACCESSES];
    union {
        struct {
            struct sim_event *event;     /* null: nothing but a point to wait for */
            struct sim_release *release; /* its clock, once it has run */
            struct sim_exec *launched;   /* empty: a launch that ends here; held */
        } record;
        struct sim_point wait;
        struct {
            uint64_t value;
            unsigned flags;
            int is_wide; /* 64 bits */
        } value;
        struct {
            uint32_t pattern;
            unsigned width; /* bytes of one element */
            uint64_t rows;  /* in graphs: of a set that was asked for in rows; otherwise 0 */
        } set;
        struct {
            uintptr_t to;
            uintptr_t from;
            uint64_t bytes;
            void *staged;    /* bytes taken from pageable memory at the call, or null */
            uint8_t to_type; /* in graphs: the CUmemorytype the program gave; 0: what it is */
            uint8_t from_type;
        } copy;
        struct {
            CUhostFn function;
            void *data;
        } host;
        struct sim_launch *launch;
        struct sim_region *free;
    };
};

enum sim_stream_kind { SIM_LEGACY, SIM_PER_THREAD, SIM_CREATED };

struct sim_stream {
    struct sim_slot *slot; /* null for default streams and once destroyed */
    struct sim_context *context;
    uint64_t id;
    enum sim_stream_kind kind;
    int is_blocking; /* ordered against the legacy stream */
    int is_running;  /* its head is being executed without the lock */
    int priority;
    unsigned flags;
    uint64_t references; /* the slot's or context's, points', and one while busy */
    struct sim_op *ring; /* queued operations; the head stays until it has run */
    uint64_t head;       /* count of operations finished */
    uint64_t tail;       /* count of operations submitted */
    uint64_t room;       /* entries of ring, a power of two */
    uint64_t last_ticket;
    size_t busy_index;  /* in sim.busy while not empty */
    uint64_t thread;    /* per-thread: whose */
    uint32_t race_slot; /* in the race detector's clocks; 0: none yet */
    uint64_t race_host; /* version of the host's clock that the latest operation took */
    struct sim_stream *next_default;
    struct sim_capture *capture; /* that it is part of, or null */
    struct sim_stream *next_captured;
    struct sim_nodes depends;  /* while capturing: what its next node will depend on */
    CUgraphNode *capture_told; /* the handles that cuStreamGetCaptureInfo gave out last */
};

/* ---- the whole ------------------------------------------------------------------------------ */

struct sim_rule {
    uint64_t nth; /* calls until it fails, counted down */
    CUresult error;
    int is_sticky;
    int is_spent;
    uint8_t entry[SIM_ENTRY_COUNT]; /* entry points it applies to */
};

struct sim_state {
    pthread_mutex_t lock;
    pthread_cond_t work; /* workers wait for operations */
    pthread_cond_t done; /* callers wait for workers */
    int is_configured;   /* the environment has been read */
    int is_misconfigured;
    int is_initialised;
    int has_view;   /* as the settings want it and the schedule allows it, from cuInit on */
    int has_access; /* likewise: memory is mapped at its device addresses, too */
    int is_shut_down;
    int races_on;     /* the race detector works */
    int races_forced; /* switched by the program: the environment does not count */
    int is_forked;    /* this is a child of the process that initialised */
    uint64_t epoch;   /* rises with every reset, so that threads drop what they remember */
    struct sim_settings settings;

    uint64_t calls[SIM_ENTRY_COUNT];
    uint64_t modelled_ns[SIM_ENTRY_COUNT]; /* what they would have cost: cost.c */
    struct sim_rule rules[SIM_RULES_MAX];
    size_t rule_count;
    uint64_t rule_hits;

    struct sim_device devices[SIM_DEVICES_MAX];
    int device_count;
    struct sim_context *contexts; /* those of cuCtxCreate */
    struct sim_pool *pools;       /* destroyed ones too */
    struct sim_capture *captures; /* those that have not ended */

    struct sim_region **regions; /* by address */
    size_t region_count;
    size_t region_room;
    struct sim_region *last_region; /* of the latest look-up */
    uint64_t reserved_bytes;

    struct sim_memory **memories; /* by index; free entries are null */
    size_t memory_count;
    size_t memory_room;

    struct sim_stream **busy; /* streams with operations queued */
    size_t busy_count;
    size_t busy_room;
    uint64_t pending;      /* operations queued */
    uint64_t completed;    /* operations finished, ever */
    uint64_t ticket;       /* latest given */
    uint64_t random;       /* state of the schedule's generator */
    uint64_t idle_queries; /* not-ready answers since anything ran */

    uint64_t due;         /* user objects whose destructor has not begun */
    uint64_t destructors; /* that run right now */
    uint64_t graph_id;    /* latest given to a graph or node */

    uint64_t next_id; /* streams, contexts, buffers */
    uint64_t next_capture;
    uint64_t next_thread; /* numbers threads as they appear */
    uint64_t violations;
    char violation_last[512];
};

extern struct sim_state sim;

struct sim_thread {
    uint64_t epoch;
    uint64_t number;
    struct sim_context *stack[64]; /* current context on top */
    size_t depth;
    CUstreamCaptureMode mode; /* of cuThreadExchangeStreamCaptureMode; global at first */
    int is_in_callback;
    int owners_paused;    /* operations are not checked against owners */
    uint32_t origin;      /* label of what the thread is doing */
    enum sim_entry entry; /* the latest entry point it came in by */
    uint64_t calls;       /* how often it came in */
};

/* ---- functions by file ---------------------------------------------------------------------- */

/* settings.c */
int sim_settings_read(struct sim_settings *settings);    /* 0 after a message */
int sim_entry_by_name(const char *name, uint8_t *found); /* marks every form of it in found[] */

/* entry.c */
CUresult sim_enter(enum sim_entry entry, unsigned needs); /* takes the lock, only on success */
CUresult sim_leave(CUresult result);
struct sim_thread *sim_thread(void);
struct sim_context *sim_current(void); /* null without one */
const char *sim_entry_symbol(uint16_t entry);
const char *sim_entry_name(uint16_t entry); /* the same of all its forms */
int sim_fail_add(const char *name, uint64_t nth, int sticky, CUresult error);
void sim_lock(void);
void sim_unlock(void);

#define SIM_ENTER(symbol, needs)                                                                   \
    do {                                                                                           \
        CUresult refused_ = sim_enter(SIM_##symbol, (needs));                                      \
        if (refused_ != CUDA_SUCCESS)                                                              \
            return refused_;                                                                       \
    } while (0)

/* cost.c */
void sim_cost_add(enum sim_entry entry, enum sim_cost kind, uint64_t bytes); /* what was done */
void sim_cost_call(enum sim_entry entry);                                    /* one call */

/* state.c */
CUresult sim_start(void);
void sim_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
void sim_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void *sim_grow(void *array, size_t *room, size_t need, size_t element_bytes);

/* handle.c */
struct sim_slot *sim_slot_new(enum sim_kind kind, void *object); /* null when out of memory */
void sim_slot_free(struct sim_slot *slot);
void *sim_slot_get(const void *handle, enum sim_kind kind, const char *what);
uint64_t sim_slot_count(enum sim_kind kind, const struct sim_context *context);
void sim_slot_each(enum sim_kind kind, const struct sim_context *context,
                   void (*each)(void *object));
void sim_slot_reset(void);

/* device.c */
struct sim_device *sim_device(CUdevice ordinal); /* null if there is none */
int sim_device_file(void);
int sim_device_open(struct sim_device *device, int ordinal);
void sim_device_close(struct sim_device *device);

/* context.c */
struct sim_context *sim_context_get(CUcontext handle);
void sim_context_end(struct sim_context *context);
void sim_context_reset(void);

/* address.c */
struct sim_region *sim_region_new(uint64_t bytes, uint64_t alignment, CUdeviceptr hint,
                                  enum sim_region_kind kind, struct sim_context *context);
CUresult sim_region_register(CUdeviceptr base, uint64_t bytes, unsigned flags,
                             struct sim_context *context);
void sim_region_free(struct sim_region *region);
struct sim_region *sim_region_find(CUdeviceptr address); /* null: not ours */
/* 1 for an address of a device's memory, 0 for the host's, pinned or not. */
int sim_is_device(CUdeviceptr address);
CUresult sim_kernel_map_error(const char *what, CUdeviceptr address, uint64_t bytes);
void sim_region_reset(void);

/* vmm.c */
struct sim_mapping *sim_mapping_find(const struct sim_region *region, CUdeviceptr address);
void sim_memory_put(struct sim_memory *memory); /* gives memory back if nothing holds it */
struct sim_memory *sim_memory_new(struct sim_device *device, const CUmemAllocationProp *prop);
struct sim_memory *sim_memory_get(CUmemGenericAllocationHandle handle, const char *what);
void sim_memory_reset(void);

/* view.c */
int sim_view_open(struct sim_device *device);
void sim_view_close(const struct sim_device *device);
void sim_view_forked(void);
int sim_view_take(struct sim_device *device, uint64_t bytes, uint64_t *offset);
void sim_view_give(const struct sim_device *device, uint64_t offset, uint64_t bytes);
void *sim_bytes(CUdeviceptr address); /* where the memory at a device address is */

/* share.c */
int sim_lease_last(const struct sim_memory *memory);

/* pool.c */
/* ---- devices that processes have in common (shared.c) --------------------------------------- */

int sim_shared_open(const char *path); /* 0 if the file cannot be used */
void sim_shared_close(void);
/* How much of a device's memory any process may still take. */
/* What the device has used has changed: a control group is told (dmem.c). */
void sim_dmem_tell(void);
uint64_t sim_memory_left(const struct sim_device *device);
int sim_memory_take(struct sim_device *device, uint64_t bytes); /* 0 if there is not so much */
void sim_memory_give(struct sim_device *device, uint64_t bytes);

/* Memory that the driver takes for itself; 0 if there is not enough (overhead.c). */
int sim_overhead_take(struct sim_device *device, enum sim_overhead what);
void sim_overhead_give(struct sim_device *device, enum sim_overhead what);

int sim_pool_open(struct sim_device *device); /* its default pool; 0 without memory */
void sim_pool_reset(void);

/* alloc.c */
CUresult sim_block_alloc_async(CUdeviceptr *dptr, size_t bytesize, struct sim_pool *pool,
                               CUstream stream); /* a null pool is the device's */
CUresult sim_block_alloc(CUdeviceptr *address, size_t bytes);
void sim_block_free(struct sim_region *region);
void sim_block_end(const struct sim_context *context);

/* check.c */
enum sim_reach { SIM_REACH_OK, SIM_REACH_FOREIGN, SIM_REACH_UNMAPPED, SIM_REACH_DENIED };
enum sim_reach sim_reach(const struct sim_context *context, CUdeviceptr address, uint64_t bytes,
                         int write, CUdeviceptr *where);
CUresult sim_check_call(const struct sim_context *context, CUdeviceptr address, uint64_t bytes);
int sim_reach_block(const struct sim_context *context, const struct sim_region *region);
int sim_check_op(const struct sim_stream *stream, const struct sim_op *op);
void sim_check_unused(CUdeviceptr base, uint64_t bytes, const char *call);

/* op.c */
CUresult sim_submit(struct sim_stream *stream, const struct sim_op *op);
int sim_queue_reserve(struct sim_stream *stream, uint64_t count);
int sim_busy_reserve(size_t count);
struct sim_op *sim_queue(struct sim_stream *stream, const struct sim_op *op);
int sim_op_copy(const struct sim_op *op, struct sim_op *copy);
int sim_op_records(const struct sim_op *op);
uint64_t sim_op_stream_id(const struct sim_stream *stream, const struct sim_op *op);
void sim_op_dispose(struct sim_op *op);
const struct sim_access *sim_op_accesses(const struct sim_op *op, size_t *count);
const char *sim_op_name(enum sim_op_kind kind);
void sim_op_touch(struct sim_op *op, CUdeviceptr address, uint64_t bytes, int write);
struct sim_op *sim_stream_head(const struct sim_stream *stream); /* stream must not be empty */
void sim_stream_pop(struct sim_stream *stream);
struct sim_launch *sim_launch_new(size_t room_bytes);
void sim_launch_reset(void);

/* execute.c */
void sim_execute(struct sim_stream *stream, struct sim_op *op);
int sim_value_reached(const struct sim_op *op);

/* schedule.c */
void sim_schedule_start(void);
void sim_schedule_stop(void);
void sim_schedule_forked(void);
void sim_schedule_lag(void); /* waits as long as TENURE_SIM_LAG_US says */
void sim_schedule_submitted(void);
void sim_schedule_watch(void); /* a host function was queued */
void sim_schedule_queried(void);
void sim_schedule_dropped(void);
uint64_t sim_schedule_draw(uint64_t below); /* from 0, below its argument */
int sim_point_done(struct sim_point point);
CUresult sim_wait(struct sim_point point, const char *call);
CUresult sim_wait_context(const struct sim_context *context, const char *call);
CUresult sim_wait_device(const struct sim_device *device, const char *call);
uint64_t sim_schedule_run(uint64_t limit);
uint64_t sim_schedule_run_stream(struct sim_stream *stream, uint64_t limit);

/* stream.c */
struct sim_stream *sim_stream_new(struct sim_context *context, enum sim_stream_kind kind,
                                  unsigned flags, int priority);
struct sim_stream *sim_stream_get(CUstream handle, CUresult *error);
struct sim_stream *sim_stream_sound(CUstream handle, CUresult *error);
void sim_stream_hold(struct sim_stream *stream);
void sim_stream_drop(struct sim_stream *stream);
void sim_stream_discard(struct sim_stream *stream); /* forgets its queue */

/* event.c */
CUresult sim_event_record(CUevent handle, CUstream stream_handle, unsigned flags);
void sim_event_drop(struct sim_event *event);
void sim_event_mark(struct sim_event *event, struct sim_point point);
void sim_point_hold(struct sim_point point);
void sim_point_drop(struct sim_point point);

/* transfer.c */
CUresult sim_copy_peer_sync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                            CUcontext from_context, size_t bytes, CUstream stream);
CUresult sim_copy_row(enum sim_entry entry, const CUDA_MEMCPY3D_PEER *asked, CUstream stream);
CUresult sim_copy_box(enum sim_entry entry, const CUDA_MEMCPY3D *asked, CUstream stream);
CUresult sim_copy_rectangle(enum sim_entry entry, const CUDA_MEMCPY2D *asked, CUstream stream);
CUresult sim_copy_sync(enum sim_entry entry, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                       CUstream stream);
struct sim_fill {
    CUdeviceptr to;
    size_t count;
    uint32_t pattern;
    unsigned width; /* bytes of one element */
    int is_synchronous;
};
CUresult sim_set(enum sim_entry entry, const struct sim_fill *fill, CUstream stream);

/* told.c */
void sim_tell_runtime(const char *symbol); /* which was not found */

/* image.c */
int sim_image_is(const void *image);
CUresult sim_image_load(struct sim_module *module, const void *image);
void sim_image_end(struct sim_module *module);
const struct sim_kernel *sim_image_kernel(const struct sim_module *module, const char *name);
size_t sim_image_accesses(const struct sim_launch *launch, simcuda_access *out, size_t capacity);

/* kernel.c */
struct sim_kernel *sim_kernel_new(const char *name, size_t count, const size_t *bytes);
void sim_module_end(struct sim_module *module);
CUresult sim_kernel_op(const struct sim_call *call, struct sim_op *op);
struct sim_launch *sim_kernel_copy(const struct sim_launch *launch);
int sim_kernel_ask(struct sim_launch *launch);

/* race.c: the life of an operation */
void sim_race_submitted(struct sim_stream *stream, struct sim_op *op);
void sim_race_begin(struct sim_stream *stream, struct sim_op *op);
void sim_race_end(struct sim_stream *stream, const struct sim_op *op);
void sim_race_dispose(struct sim_op *op);
void sim_race_reset(void);

/* clock.c: what the host learns, and streams that go */
void sim_race_waited(struct sim_point point);
void sim_race_waited_all(const struct sim_context *context, const struct sim_device *device,
                         uint64_t ticket);
void sim_race_idle(const struct sim_stream *stream);
void sim_race_stream_gone(struct sim_stream *stream);
void sim_race_point_hold(struct sim_point point);
void sim_race_point_drop(struct sim_point point);

/* shadow.c: memory that goes */
void sim_race_unmapped(const struct sim_mapping *mapping);
void sim_race_memory_gone(struct sim_shadow **shadow);

#endif
