/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the gate files share: see gate.h for what gates are.
 */
#ifndef TENURE_FUZZ_GATE_STATE_H
#define TENURE_FUZZ_GATE_STATE_H

#include <pthread.h>

#include "gate.h"
#include "run.h"

enum {
    GATE_LINES = 128,      /* streams alive, and those gone whose gates are not all open */
    GATE_LINE_CLOSED = 48, /* gates of a line: a driver's queue is not endless */
    GATE_CLOSED = 192      /* of all lines */
};

/* What host and device share of a line: pinned host memory, a cache line each. */
typedef struct gate_words {
    uint32_t open; /* written by the host */
    uint32_t done; /* written by the stream */
    uint32_t unused[14];
} gate_words;

/* One stream after another; see gate.h. Guarded by the mutex. */
typedef struct gate_line {
    CUstream stream;
    uint8_t device;
    uint8_t is_taken; /* a stream has it */
    uint8_t is_ended; /* the stream was destroyed; its gates may still be closed */
    uint32_t placed, opened;
    uint32_t before;                  /* placed for the streams that had it earlier */
    uint64_t order[GATE_LINE_CLOSED]; /* in which the closed gates were placed, of all lines */
} gate_line;

/* The first wrong word, in pinned memory: what a kernel leaves for the host. */
typedef struct gate_record {
    uint64_t is_set; /* written last */
    uint64_t step, address, expected, found;
} gate_record;

/* Entry points beyond those of fuzz_device. The value waits may be missing. */
#define GATE_DRIVER_LIST(X)                                                                        \
    X(CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned), cuStreamWaitValue32_v2,           \
      wait_value)                                                                                  \
    X(CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned), cuStreamWriteValue32_v2,          \
      write_value)                                                                                 \
    X(CUresult (*)(void **, size_t, unsigned), cuMemHostAlloc, host_alloc)                         \
    X(CUresult (*)(CUdeviceptr *, void *, unsigned), cuMemHostGetDevicePointer_v2, host_pointer)   \
    X(CUresult (*)(CUdeviceptr *, size_t), cuMemAlloc_v2, device_alloc)                            \
    X(CUresult (*)(CUdeviceptr, unsigned char, size_t), cuMemsetD8_v2, device_set)                 \
    X(CUresult (*)(size_t *, size_t *), cuMemGetInfo_v2, memory_info)                              \
    X(CUresult (*)(int *), cuDeviceGetCount, device_count)                                         \
    X(CUresult (*)(char *, int, CUdevice), cuDeviceGetName, device_name)                           \
    X(CUresult (*)(size_t *, CUdevice), cuDeviceTotalMem_v2, device_memory)                        \
    X(CUresult (*)(int *), cuDriverGetVersion, driver_version)

typedef struct gates {
    fuzz_device *device;
#define GATE_DRIVER_ENTRY(type, symbol, name) __typeof__(type) name;
    GATE_DRIVER_LIST(GATE_DRIVER_ENTRY)
#undef GATE_DRIVER_ENTRY
    int is_simulated;

    /* Set up once, by gate_device_start. */
    gate_words *words;
    CUdeviceptr words_device;
    volatile gate_record *record;
    CUdeviceptr record_device;
    CUdeviceptr found[FUZZ_DEVICES]; /* on each device: whether the record is taken, how many */
    CUfunction touch[FUZZ_DEVICES], hold[FUZZ_DEVICES], mark[FUZZ_DEVICES];
    uint64_t grid_bytes; /* of large blocks one word in so many bytes is visited */

    /* The main thread's. */
    fuzz_run *run;
    int8_t line_of[FUZZ_STREAMS];    /* -1: none */
    int gated_percent, open_percent; /* of operations, and of chances to open one: the schedule */
    int placed_line;                 /* of the operation that runs now; -1: it has no gate */
    uint64_t random;
    uint64_t free_bytes; /* of device 0, before the program */
    uint64_t settle_ns;  /* how long the operation behind an open gate may take */
    uint64_t still_ns;   /* how long nothing has moved when nothing will */

    /* Guarded by the mutex. */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a call begins that is known to wait */
    gate_line lines[GATE_LINES];
    uint32_t closed;
    uint64_t order_last;
    gate_counts *counts;
    uint64_t watcher_random;
    uint64_t call_since_ns; /* 0: no call is under way */
    uint64_t call_grace_ns; /* how long it may take before gates are opened for it */
    int call_line;          /* whose gates it waits for before all others; -1: not known */
    char call[128];         /* what it is, for the report */
} gates;

extern gates gate_state;

uint64_t gate_now_ns(void);
int gate_has_memory_operations(void);
/* Under the mutex. Opens the next gate of a line that has a closed one. */
void gate_open_next(int line);
/* Under the mutex. A line with a closed gate, drawn; -1 if there is none. */
int gate_line_draw(uint64_t *random);
/* Under the mutex. */
int gate_line_is_closed(int line);
/* The watcher. Returns 0, or -1 if it cannot be started. */
int gate_watch_start(void);
/* A call begins, or ends. `is_known_to_wait`: by its meaning the call waits for the device. Then
 * `line` is the line whose gates it waits for first, or -1. */
void gate_call_begin(const char *what, int is_known_to_wait, int line);
void gate_call_end(void);
/* The kernels: their text, in parts up to a null; and the same in C for the simulated device.
 */
extern const char *const gate_kernels[];
int gate_kernels_register(void);

#endif
