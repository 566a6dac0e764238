/* SPDX-License-Identifier: Apache-2.0 */
/* See captured_step.h. */
#include "captured_step.h"

#include <string.h>

#define PART(run) ((run)->bytes / STEP_STREAMS)

void step_open(step_run *run, program *self, size_t bytes)
{
    void *host = NULL;
    run->self = self;
    run->bytes = bytes;
    for (int i = 0; i < STEP_STREAMS; i++) {
        must_cu(self, self->gpu->cuStreamCreate(&run->streams[i], CU_STREAM_NON_BLOCKING),
                "cuStreamCreate");
        must(self, tnr_stream_created(self->active.device, run->streams[i]), "a stream");
    }
    must_cu(self, self->gpu->cuEventCreate(&run->event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    must_cu(self, self->gpu->cuMemHostAlloc(&host, bytes, 0), "cuMemHostAlloc");
    run->host = host;
}

void step_close(step_run *run)
{
    program *self = run->self;
    for (int i = 0; i < STEP_STREAMS; i++) {
        must(self, tnr_stream_destroying(self->active.device, run->streams[i]), "a stream's end");
        must_cu(self, self->gpu->cuStreamDestroy(run->streams[i]), "cuStreamDestroy");
    }
    must_cu(self, self->gpu->cuEventDestroy(run->event), "cuEventDestroy");
    must_cu(self, self->gpu->cuMemFreeHost(run->host), "cuMemFreeHost");
}

CUdeviceptr step_malloc(step_run *run, size_t bytes, CUstream stream)
{
    void *ptr;
    must(run->self, tnr_malloc(&ptr, bytes, run->self->active.device, stream), "allocating");
    return (CUdeviceptr)(uintptr_t)ptr;
}

void step_order(step_run *run, CUstream to, CUstream from)
{
    program *self = run->self;
    must_cu(self, self->gpu->cuEventRecord(run->event, from), "cuEventRecord");
    must_cu(self, self->gpu->cuStreamWaitEvent(to, run->event, 0), "cuStreamWaitEvent");
}

void step_input_fill(step_run *run, CUdeviceptr input, CUstream stream)
{
    must_cu(run->self, pattern_fill(&run->self->checks, input, run->bytes, 4711, stream),
            "writing the input");
}

/* ---- the step ------------------------------------------------------------------------------- */

/* What one stream does in one round: a block is written by a kernel and checked by one, another
 * takes part of it, part of the shared block and some constant, and goes into the stream's part of
 * the output. */
static void round_enqueue(step_run *run, int lane, int round, CUdeviceptr shared,
                          CUdeviceptr output, uint64_t seed)
{
    program *self = run->self;
    const gpu_driver *gpu = self->gpu;
    CUstream stream = run->streams[lane];
    uint64_t own = seed * 64 + (uint64_t)(round * STEP_STREAMS + lane) + 1;
    size_t part = PART(run), slice = part / STEP_ROUNDS / 512 * 512;
    CUdeviceptr first = step_malloc(run, run->bytes, stream);
    must_cu(self, pattern_fill(&self->checks, first, run->bytes, own, stream), "a kernel");
    CUdeviceptr second = step_malloc(run, part, stream);
    must_cu(self, gpu->cuMemsetD8Async(second, (unsigned char)own, part, stream), "a set");
    must_cu(self, gpu->cuMemcpyDtoDAsync(second, first + part, part / 2, stream), "a copy");
    must_cu(self, pattern_check(&self->checks, first, run->bytes, own, stream, (size_t)lane),
            "a check");
    must(self, tnr_free(program_pointer(first)), "freeing inside");
    must_cu(
        self,
        gpu->cuMemcpyDtoDAsync(second + part / 2, shared + (size_t)lane * part, part / 4, stream),
        "a copy");
    must_cu(self,
            gpu->cuMemcpyDtoDAsync(output + (size_t)lane * part + (size_t)round * slice,
                                   second + (size_t)(round % 2) * (part / 2), slice, stream),
            "a copy");
    must(self, tnr_free(program_pointer(second)), "freeing inside");
}

void step_enqueue(step_run *run, CUdeviceptr input, CUdeviceptr output, uint64_t seed)
{
    program *self = run->self;
    const gpu_driver *gpu = self->gpu;
    CUstream origin = run->streams[0];
    CUdeviceptr shared = step_malloc(run, run->bytes, origin);
    must_cu(self, gpu->cuMemcpyDtoDAsync(shared, input, run->bytes, origin), "a copy");
    for (int lane = 1; lane < STEP_STREAMS; lane++)
        step_order(run, run->streams[lane], origin);
    for (int lane = 0; lane < STEP_STREAMS; lane++)
        for (int round = 0; round < STEP_ROUNDS; round++)
            round_enqueue(run, lane, round, shared, output, seed);
    /* The shared block is freed before anything has joined. */
    for (int lane = 1; lane < STEP_STREAMS; lane++)
        must(self, tnr_record_use(program_pointer(shared), run->streams[lane]), "recording a use");
    must(self, tnr_free(program_pointer(shared)), "freeing inside");
    CUdeviceptr early = step_malloc(run, run->bytes, origin);
    must_cu(self, gpu->cuMemsetD8Async(early, 0x77, run->bytes, origin), "a set");
    must(self, tnr_free(program_pointer(early)), "freeing inside");
    for (int lane = 1; lane < STEP_STREAMS; lane++)
        step_order(run, origin, run->streams[lane]);
    CUdeviceptr late = step_malloc(run, run->bytes, origin);
    must_cu(self, gpu->cuMemsetD8Async(late, (unsigned char)(seed + 3), run->bytes, origin),
            "a set");
    must_cu(self, gpu->cuMemcpyDtoDAsync(output + run->bytes - 4096, late, 4096, origin), "a copy");
    must(self, tnr_free(program_pointer(late)), "freeing inside");
}

uint64_t step_reference(step_run *run, CUdeviceptr input, CUdeviceptr output, uint64_t seed)
{
    must_cu(run->self, run->self->gpu->cuMemsetD8Async(output, 0xee, run->bytes, run->streams[0]),
            "spoiling the output");
    step_enqueue(run, input, output, seed);
    return step_checksum(run, output, run->streams[0]);
}

/* ---- graphs --------------------------------------------------------------------------------- */

step_graph step_capture(step_run *run, tnr_pool pool, CUdeviceptr input, CUdeviceptr output,
                        uint64_t seed)
{
    program *self = run->self;
    step_graph graph = {0};
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.pool = pool;
    must(self, tnr_capture_begin(self->active.device, run->streams[0], &options),
         "beginning a capture");
    step_enqueue(run, input, output, seed);
    must(self, tnr_capture_end(&graph.cuda, &graph.number, self->active.device, run->streams[0]),
         "ending a capture");
    must_cu(self, self->gpu->cuGraphInstantiateWithFlags(&graph.exec, graph.cuda, 0),
            "cuGraphInstantiateWithFlags");
    return graph;
}

void step_launch(step_run *run, const step_graph *graph, CUdeviceptr output, CUstream stream)
{
    program *self = run->self;
    must_cu(self, self->gpu->cuMemsetD8Async(output, 0xee, run->bytes, stream),
            "spoiling the output");
    must(self, tnr_graph_launch(graph->number, graph->exec, stream), "launching");
}

void step_graph_destroy(step_run *run, step_graph *graph)
{
    program *self = run->self;
    must_cu(self, self->gpu->cuGraphExecDestroy(graph->exec), "cuGraphExecDestroy");
    must_cu(self, self->gpu->cuGraphDestroy(graph->cuda), "cuGraphDestroy");
}

tnr_graph_info step_graph_info(step_run *run, const step_graph *graph)
{
    tnr_graph_info info = {.struct_bytes = sizeof(info)};
    must(run->self, tnr_graph_get(&info, graph->number), "describing a graph");
    return info;
}

/* ---- contents ------------------------------------------------------------------------------- */

/* FNV-1a by words of eight bytes. */
uint64_t step_checksum(step_run *run, CUdeviceptr from, CUstream stream)
{
    program *self = run->self;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    must_cu(self, self->gpu->cuMemcpyDtoHAsync(run->host, from, run->bytes, stream),
            "reading back");
    must_cu(self, self->gpu->cuStreamSynchronize(stream), "waiting");
    for (size_t at = 0; at + sizeof(uint64_t) <= run->bytes; at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, run->host + at, sizeof(word));
        hash = (hash ^ word) * UINT64_C(0x100000001b3);
    }
    return hash;
}
