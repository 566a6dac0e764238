/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a trace needs with each allocator, and whether it fits on a device: see predict.c, the
 * command. predict_run.c carries traces out, predict_devices.c knows devices.
 */
#ifndef TENURE_TOOLS_PREDICT_H
#define TENURE_TOOLS_PREDICT_H

#include <stddef.h>
#include <stdint.h>

#include "exit_code.h"
#include "torch_model.h"
#include "trace.h"

typedef enum predict_allocator {
    PREDICT_TENURE,
    PREDICT_EXPANDABLE, /* PyTorch's own with expandable_segments:True */
    PREDICT_TORCH,      /* PyTorch's own by default */
    PREDICT_COUNT,
} predict_allocator;

/* A device that is asked about. */
typedef struct predict_device {
    char name[32];         /* as the user called it */
    uint64_t bytes;        /* its memory, as cudaMemGetInfo says */
    uint64_t usable_bytes; /* less what else lies there: what an allocator may have */
} predict_device;

enum { PREDICT_DEVICES_MAX = 8 };

/* Reads "H100-80GB,24GiB" and fills `devices`. Returns how many, or -1 with a sentence. */
int predict_devices_read(const char *text, predict_device *devices, char *error,
                         size_t error_bytes);
/* The devices that are known by name, for --help: "A100-40GB (39.3 GiB), ...". */
const char *predict_devices_known(void);

/* What the program itself holds: blocks that live, and freed ones that other streams still use. */
typedef struct predict_peak {
    uint64_t live_bytes;    /* the most at once */
    uint64_t passing_bytes; /* of these in blocks that live for less than half of the trace */
    size_t *ends; /* for the index of each allocation: of the operation before which it is over;
                   * ops_count: never */
} predict_peak;

/* Returns 0, or -1 without host memory. `ends` is to be freed. */
int predict_peak_of(const trace *source, predict_peak *peak);

/* What was held when the operation came. */
uint64_t predict_live_before(const trace *source, const predict_peak *peak, size_t op);

/* How many times as large what comes and goes could be; negative: nothing does. */
double predict_growth(const predict_peak *peak, uint64_t reserved_bytes, uint64_t usable_bytes);

/* Carries the trace out with `usable_bytes` of memory: Tenure on a simulated device of that size,
 * in a process of its own. Returns EXIT_CODE_OK, also where the trace does not fit, or another code
 * with a sentence. */
exit_code predict_run(const trace *source, predict_allocator allocator, const char *settings,
                      uint64_t usable_bytes, torch_outcome *outcome, char *error,
                      size_t error_bytes);

/* Runs a program under `tenure run`, and makes a folder for the snapshots of its processes, which
 * the caller removes. `driver` may be null. Returns the program's exit code, or -1 with a
 * sentence. */
int predict_program_run(const char *driver, char **program, char *folder, size_t folder_bytes,
                        char *error, size_t error_bytes);
/* The folder and the files in it. Nothing if it is empty text. */
void predict_folder_remove(const char *folder);

#endif
