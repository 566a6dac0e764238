/* SPDX-License-Identifier: Apache-2.0 */
/* Counting driver calls, time for decisions, and turning a driver error into ours: backend.h. */
#include "gpu/cuda/driver.h"

#include <stddef.h>

#include "base/error.h"
#include "base/lock.h"

/* Owned by the thread. */
static _Thread_local tnri_driver_counters *call_counters;

uint64_t tnri_decision_ns(void)
{
    if (!tnri_driver_loaded.simulated)
        return tnri_clock_ns();
    return tnri_driver_loaded.played_ns == NULL ? 0 : tnri_driver_loaded.played_ns();
}

tnri_driver_counters *tnri_driver_count_into(tnri_driver_counters *counters)
{
    tnri_driver_counters *before = call_counters;
    call_counters = counters;
    return before;
}

CUresult tnri_drive_end(tnr_driver_kind kind, CUresult result, uint64_t began_ns)
{
    tnri_driver_counters *counters = call_counters;
    if (counters == NULL)
        return result;
    uint64_t ns = tnri_clock_ns() - began_ns;
    atomic_fetch_add_explicit(&counters->calls[kind], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&counters->ns[kind], ns, memory_order_relaxed);
    return result;
}

void tnri_driver_count(tnri_driver_counters *counters, tnr_driver_kind kind, uint64_t calls,
                       uint64_t ns)
{
    atomic_fetch_add_explicit(&counters->calls[kind], calls, memory_order_relaxed);
    atomic_fetch_add_explicit(&counters->ns[kind], ns, memory_order_relaxed);
}

const char *tnri_driver_result_name(CUresult result)
{
    const char *name = NULL;
    if (tnri_driver.cuGetErrorName != NULL &&
        tnri_driver.cuGetErrorName(result, &name) == CUDA_SUCCESS && name != NULL)
        return name;
    return "an unknown driver error";
}

tnr_status tnri_cuda_error(CUresult result, const char *call, const char *doing)
{
    tnr_status status = TNR_ERR_DRIVER;
    const char *advice = "";
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        status = TNR_ERR_OUT_OF_MEMORY;
    } else if (result == CUDA_ERROR_DEINITIALIZED) {
        status = TNR_ERR_SHUTDOWN;
        advice = " The driver is shutting down with the process; memory goes back by itself.";
    } else if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) {
        status = TNR_ERR_CAPTURE;
        advice = " A capture that is under way forbids it.";
    } else if (result == CUDA_ERROR_ILLEGAL_ADDRESS || result == CUDA_ERROR_LAUNCH_FAILED) {
        advice = " An earlier kernel failed and took the context with it; run it under "
                 "compute-sanitizer.";
    }
    return tnri_error_driver(status, (int)result, "%s failed with %s (%d) while %s.%s", call,
                             tnri_driver_result_name(result), (int)result, doing, advice);
}

tnr_status tnri_driver_error(CUresult result, tnri_gpu_verb verb, const char *doing)
{
    return tnri_cuda_error(result, tnri_gpu_name(verb), doing);
}
