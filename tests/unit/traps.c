/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of traps share: see traps.h. */
#include "traps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tnr_trap_finding found[FOUND_MAX];
char found_text[FOUND_MAX][4096];
size_t found_count;

static void finding_note(const tnr_trap_finding *finding, void *user)
{
    assert_ptr_equal(user, &found_count);
    assert_int_equal(finding->struct_bytes, sizeof(*finding));
    if (found_count == FOUND_MAX)
        return;
    snprintf(found_text[found_count], sizeof(found_text[0]), "%s", finding->text);
    if (getenv("TRAPS_SHOW") != NULL)
        fputs(finding->text, stderr);
    found[found_count++] = *finding;
}

CUcontext traps_context;
static tnr_traps_info at_start;

void traps_start(const char *conf, const char *first)
{
    unit_start(conf, first, NULL);
    found_count = 0;
    tnr_trap_callback_set(finding_note, &found_count);
    assert_int_equal(cuDevicePrimaryCtxRetain(&traps_context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(traps_context), CUDA_SUCCESS);
    at_start = (tnr_traps_info){.struct_bytes = sizeof(at_start)};
    assert_ok(tnr_traps_get(&at_start, 0));
}

int traps_stop(void **state)
{
    (void)cuCtxSetCurrent(NULL);
    (void)cuDevicePrimaryCtxRelease(0);
    int failed = unit_stop(state);
    tnr_trap_callback_set(NULL, NULL); /* it has heard what was left, too */
    return failed;
}

tnr_traps_info traps(int wait)
{
    tnr_traps_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_traps_get(&info, wait));
    info.guarded -= at_start.guarded;
    info.unguarded -= at_start.unguarded;
    info.looks -= at_start.looks;
    info.looks_missed -= at_start.looks_missed;
    info.findings -= at_start.findings;
    return info;
}

CUresult fill(const void *ptr, size_t bytes, tnr_stream stream)
{
    return cuMemsetD8Async((CUdeviceptr)ptr, 7, bytes, (CUstream)stream);
}

/* A stream that Tenure has met. */
tnr_stream known_stream(void)
{
    tnr_stream stream = unit_stream(0);
    assert_ok(tnr_free(unit_malloc(512, stream)));
    return stream;
}

void synchronize(void)
{
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
}
