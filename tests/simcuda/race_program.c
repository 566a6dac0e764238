/* SPDX-License-Identifier: Apache-2.0 */
/* See race_program.h. */
#include "race_program.h"

void program_start(struct program *program)
{
    program->a = stream_new(CU_STREAM_NON_BLOCKING);
    program->b = stream_new(CU_STREAM_NON_BLOCKING);
    program->c = stream_new(CU_STREAM_NON_BLOCKING);
    program->event = event_new();
    program->at = chunk_mapped(CHUNK, NULL);
}

void write_on(CUstream stream, CUdeviceptr at, const char *label)
{
    simcuda_origin(label);
    assert_ok(cuMemsetD8Async(at, 1, BYTES, stream));
    simcuda_origin(NULL);
}

void read_on(CUstream stream, CUdeviceptr at, const char *label)
{
    void *target = NULL;
    assert_ok(cuMemHostAlloc(&target, BYTES, 0));
    simcuda_origin(label);
    assert_ok(cuMemcpyDtoHAsync(target, at, BYTES, stream));
    simcuda_origin(NULL);
}

void quiet(const simcuda_report *report, void *data)
{
    (void)report;
    (void)data;
}

void no_wait(struct program *p)
{
    write_on(p->a, p->at, "");
    assert_ok(cuEventRecord(p->event, p->a));
    write_on(p->b, p->at, "");
}
