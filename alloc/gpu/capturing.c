/* SPDX-License-Identifier: Apache-2.0 */
/* Keeping out of the way of captures: see capturing.h. */
#include "gpu/capturing.h"

#include "base/assert.h"
#include "base/gate.h"
#include "base/lock.h"
#include "base/prim/clock.h"

_Atomic uint32_t tnri_captures_count;

static _Atomic uint32_t plain_visits;           /* visits of all threads that are not relaxed */
static _Thread_local uint32_t plain_visits_own; /* of these, the thread's */

void tnri_captures_enter(void)
{
    tnri_assert_none_held();
    uint64_t before = atomic_fetch_add(&tnri_gate_word, UINT64_C(1) << TNRI_GATE_CAPTURES_SHIFT);
    tnri_assert((before & TNRI_GATE_CAPTURES_MASK) != TNRI_GATE_CAPTURES_MASK);
    (void)before;
    /* Either a visit sees this count, or this thread sees the visit: both are in one order. */
    atomic_fetch_add(&tnri_captures_count, 1);
    while (atomic_load(&plain_visits) > plain_visits_own)
        tnri_yield();
}

void tnri_captures_leave(void)
{
    uint32_t before = atomic_fetch_sub(&tnri_captures_count, 1);
    tnri_assert(before > 0);
    (void)before;
    atomic_fetch_sub(&tnri_gate_word, UINT64_C(1) << TNRI_GATE_CAPTURES_SHIFT);
}

static tnri_lock beginning = {.rank = TNRI_RANK_CAPTURES};

void tnri_captures_hold_off(void)
{
    tnri_lock_take(&beginning);
}

void tnri_captures_let_go(void)
{
    tnri_lock_release(&beginning);
}

void tnri_captures_forget(void)
{
    atomic_store(&tnri_captures_count, 0);
    atomic_fetch_and(&tnri_gate_word, ~TNRI_GATE_CAPTURES_MASK);
}

CUresult tnri_relaxed_enter(tnri_relaxed *relaxed)
{
    relaxed->is_relaxed = 0;
    relaxed->is_counted = 1;
    plain_visits_own++;
    atomic_fetch_add(&plain_visits, 1);
    if (tnri_likely(atomic_load(&tnri_captures_count) == 0))
        return CUDA_SUCCESS;
    relaxed->is_counted = 0;
    plain_visits_own--;
    atomic_fetch_sub(&plain_visits, 1);
    relaxed->before = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUresult result = tnri_gpu_capture_mode(&relaxed->before);
    relaxed->is_relaxed = result == CUDA_SUCCESS;
    return result;
}

void tnri_relaxed_leave(tnri_relaxed *relaxed)
{
    if (relaxed->is_counted) {
        plain_visits_own--;
        atomic_fetch_sub(&plain_visits, 1);
    }
    if (!relaxed->is_relaxed)
        return;
    /* Tried twice: the thread's mode is not ours to change, whatever happens. */
    CUstreamCaptureMode mode = relaxed->before;
    if (tnri_gpu_capture_mode(&mode) != CUDA_SUCCESS) {
        mode = relaxed->before;
        (void)tnri_gpu_capture_mode(&mode);
    }
}

int tnri_answer_is_capturing(CUresult result, CUstreamCaptureStatus status)
{
    if (result == CUDA_SUCCESS)
        return status != CU_STREAM_CAPTURE_STATUS_NONE;
    /* A stream that is gone captures nothing. The legacy stream may not even be asked while a
     * blocking stream captures; and without an answer the stream had better not be marked. */
    return result != CUDA_ERROR_INVALID_HANDLE && result != CUDA_ERROR_CONTEXT_IS_DESTROYED &&
           result != CUDA_ERROR_INVALID_CONTEXT;
}

int tnri_stream_is_capturing(tnr_stream stream)
{
    if (tnri_likely(!tnri_capturing()))
        return 0;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = tnri_gpu_is_capturing(stream, &status);
    return tnri_answer_is_capturing(result, status);
}
