/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting and ending the programs of this folder: see program.h.
 */
#include "program.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tenure_commit.h>

static const char *program_name = "program";

/* ---- ending with a reason ------------------------------------------------------------------- */

/* Without this a held stream would keep the process from ending. */
static void gates_open_all(const program *self)
{
    for (int gate = 0; self->gates && gate < PROGRAM_GATES; gate++)
        __atomic_store_n(&self->gates[gate], 1, __ATOMIC_SEQ_CST);
}

void program_fail(program *self, const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "%s: ", program_name);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    gates_open_all(self);
    exit(PROGRAM_WRONG);
}

void must(program *self, tnr_status status, const char *what)
{
    if (status != TNR_OK)
        program_fail(self, "%s: %s: %s", what, tnr_status_name(status), tnr_last_error());
}

void must_cu(program *self, CUresult result, const char *what)
{
    char text[256];
    if (result != CUDA_SUCCESS)
        program_fail(self, "%s: %s", what, gpu_error_text(self->gpu, result, text, sizeof(text)));
}

/* ---- start and end -------------------------------------------------------------------------- */

/* The simulated device's race detector, if that is what we run on. */
static void races_find(program *self)
{
    void *symbol = dlsym(self->gpu->library, "simcuda_races");
    memcpy(&self->sim_races, &symbol, sizeof(symbol));
}

static void gates_create(program *self)
{
    void *words = NULL;
    if (!self->gpu->cuStreamWaitValue32 || !self->gpu->cuMemHostGetDevicePointer)
        program_fail(self, "the driver has no cuStreamWaitValue32");
    must_cu(self, self->gpu->cuMemHostAlloc(&words, 4096, CU_MEMHOSTALLOC_DEVICEMAP),
            "allocating pinned memory for the gates");
    self->gates = words;
    program_gates_close(self);
    must_cu(self, self->gpu->cuMemHostGetDevicePointer(&self->gates_device, words, 0),
            "the gates' device address");
}

/* Launches every kind of work once: a driver may load its kernels at their first use and wait for
 * the whole device then, which would never end behind a closed gate. Proves that checks can
 * fail. */
static void device_warm_up(program *self)
{
    enum { BYTES = 1 << 20 };
    char error[512];
    CUdeviceptr block;
    CUstream stream;
    const gpu_driver *gpu = self->gpu;
    must_cu(self, gpu->cuMemAlloc(&block, BYTES), "cuMemAlloc");
    must_cu(self, gpu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must_cu(self, gpu->cuMemsetD8Async(block, 0, BYTES, stream), "cuMemsetD8Async");
    must_cu(self, gpu->cuMemcpyDtoDAsync(block, block + BYTES / 2, BYTES / 2, stream),
            "cuMemcpyDtoDAsync");
    if (pattern_self_test(&self->checks, block, BYTES, stream, error, sizeof(error)) != 0)
        program_fail(self, "%s", error);
    must_cu(self, gpu->cuStreamDestroy(stream), "cuStreamDestroy");
    must_cu(self, gpu->cuMemFree(block), "cuMemFree");
}

void program_open(program *self, const char *name, size_t streams_count)
{
    char error[2 * PATH_MAX + 1024];
    /* These programs are about a real GPU: the simulated device must have been asked for. */
    const char *driver = getenv("TENURE_DRIVER");
    session_options options = {.driver = driver && *driver ? NULL : "cuda"};
    memset(self, 0, sizeof(*self));
    program_name = name;
    exit_code code = session_open(&self->active, &options, 0, error, sizeof(error));
    if (code == EXIT_CODE_NO_DEVICE) {
        fprintf(stderr, "skipped: %s\n", error);
        exit(PROGRAM_SKIPPED);
    }
    self->gpu = &self->active.gpu;
    if (code != EXIT_CODE_OK)
        program_fail(self, "%s", error);
    races_find(self);
    gates_create(self);
    if (pattern_open(&self->checks, self->gpu, self->active.cu_device, PATTERN_FULL, streams_count,
                     error, sizeof(error)) != 0)
        program_fail(self, "%s", error);
    device_warm_up(self);
}

void program_close(program *self)
{
    pattern_close(&self->checks);
    must_cu(self, self->gpu->cuMemFreeHost((void *)(uintptr_t)self->gates), "freeing the gates");
    self->gates = NULL;
    session_close(&self->active);
}

void program_csv_facts(const program *self, int argc, char **argv, FILE *file)
{
    const session *active = &self->active;
    const char *folder = strrchr(argv[0], '/');
    fprintf(file, "# command=\"%s", folder ? folder + 1 : argv[0]);
    for (int i = 1; i < argc; i++)
        fprintf(file, " %s", argv[i]);
    fprintf(file, "\" commit=%s gpu=\"%s%s\" driver_cuda=%d.%d cpus=%ld\n", TNR_COMMIT,
            active->simulated ? "simulated: " : "", active->device_info.name,
            active->version / 1000, active->version % 1000 / 10, sysconf(_SC_NPROCESSORS_ONLN));
}

/* ---- gates ---------------------------------------------------------------------------------- */

void program_gates_close(program *self)
{
    for (int gate = 0; gate < PROGRAM_GATES; gate++)
        __atomic_store_n(&self->gates[gate], 0, __ATOMIC_SEQ_CST);
}

void program_gate_hold(program *self, int gate, CUstream stream)
{
    CUdeviceptr word = self->gates_device + (CUdeviceptr)gate * sizeof(uint32_t);
    must_cu(self, self->gpu->cuStreamWaitValue32(stream, word, 1, CU_STREAM_WAIT_VALUE_EQ),
            "holding a stream back with cuStreamWaitValue32");
}

void program_gate_open(program *self, int gate)
{
    __atomic_store_n(&self->gates[gate], 1, __ATOMIC_SEQ_CST);
}

/* ---- memory --------------------------------------------------------------------------------- */

CUdeviceptr program_malloc(program *self, tnr_pool pool, size_t bytes, CUstream stream)
{
    void *ptr;
    must(self, tnr_pool_malloc(&ptr, pool, bytes, self->active.device, stream), "allocating");
    return (CUdeviceptr)(uintptr_t)ptr;
}

uint64_t program_pattern_errors(program *self)
{
    pattern_result result;
    must_cu(self, pattern_read(&self->checks, &result), "reading the pattern checks");
    return result.errors;
}

tnr_stats program_stats(program *self, tnr_pool pool)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    must(self, tnr_stats_get(&stats, pool, self->active.device), "asking for statistics");
    return stats;
}
