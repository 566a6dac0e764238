/* SPDX-License-Identifier: Apache-2.0 */
/* The world's graphs: see world.h. A graph copies the first word of each block that it reads to a
 * place of its own in `out`, so that each launch shows whether the blocks are still what they were,
 * long after the program has freed them. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

enum { OUT_BYTES = 4096, SCRATCH_BYTES = 256 * 1024 };

void world_reads(world *w, graph *g)
{
    g->reads_count = 0;
    for (int i = 0; i < BLOCKS_MAX && g->reads_count < READS_MAX; i++) {
        block *b = &w->blocks[i];
        if (!world_is_open_to(w, b, g->device) || b->is_vouched || b == g->out)
            continue;
        g->reads[g->reads_count] = b;
        g->expected[g->reads_count] = b->value;
        g->reads_count++;
        b->refs++;
    }
}

static void memory_add(graph *g, void *at, size_t bytes)
{
    g->memory[g->memory_count++] = (graph_memory){at, bytes, g->pool};
}

void world_graph_begins(world *w, graph *g)
{
    g->next = w->graphs;
    w->graphs = g;
}

/* What the capture holds: scratch memory that is freed in it, and the block that comes out. */
static void contents_capture(world *w, graph *g)
{
    void *scratch = NULL, *out = NULL;
    ok(tnr_malloc(&scratch, SCRATCH_BYTES, g->device, g->stream));
    drive(cuMemsetD32Async((CUdeviceptr)scratch, 7, SCRATCH_BYTES / 4, g->stream));
    ok(tnr_malloc(&out, OUT_BYTES, g->device, g->stream));
    tnr_block_info where;
    ok(tnr_block_get(&where, out));
    g->pool = where.pool;
    g->out = world_adopt(w, out, g->pool, OUT_BYTES, g->device, g->stream, 1);
    g->out_at = out;
    memory_add(g, scratch, SCRATCH_BYTES);
    memory_add(g, out, OUT_BYTES);
    world_reads(w, g);
    drive(cuMemsetD32Async((CUdeviceptr)out, g->out->value, OUT_BYTES / 4, g->stream));
    for (int i = 0; i < g->reads_count; i++)
        drive(cuMemcpyDtoDAsync((CUdeviceptr)out + 64 + 4 * (size_t)i, (CUdeviceptr)g->reads[i]->at,
                                4, g->stream));
    ok(tnr_free(scratch));
}

int world_capture(world *w, graph *g, int device, tnr_pool pool)
{
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    tnr_cuda_graph cuda = NULL;
    memset(g, 0, sizeof(*g));
    g->device = device;
    if (w->asleep[device])
        return 0;
    g->stream = world_stream(w, device);
    options.pool = pool;
    options.mode = TNR_CAPTURE_RELAXED;
    ok(tnr_capture_begin(device, g->stream, &options));
    w->captures++;
    w->captures_tenures++;
    contents_capture(w, g);
    ok(tnr_capture_end(&cuda, &g->number, device, g->stream));
    w->captures--;
    w->captures_tenures--;
    g->cuda = (CUgraph)cuda;
    drive(cuGraphInstantiate(&g->exec, g->cuda, 0));
    world_graph_begins(w, g);
    return 1;
}

void world_launch(world *w, graph *g)
{
    int asleep = w->asleep[g->device], parked = 0;
    if (g->exec == NULL)
        return;
    for (int i = 0; i < g->reads_count; i++)
        if (g->reads[i] != NULL) {
            asleep |= w->asleep[g->reads[i]->device];
            parked |= g->reads[i]->is_parked;
        }
    /* A block that was freed since may be asleep with its pool. */
    asleep |= w->asleep[0] || w->asleep[1];
    world_on(w, g->device);
    world_fence(w, g->stream);
    if (!may(tnr_graph_launch(g->number, g->exec, g->stream),
             MAY(asleep, TNR_ERR_ASLEEP) | MAY(parked, TNR_ERR_PARKED) |
                 MAY(w->captures > 0, TNR_ERR_CAPTURE) |
                 /* The free of the other graph's output is put off. */
                 MAY(w->captures_here > 0, TNR_ERR_OVERWRITE)))
        return;
    g->is_launched = 1;
    if (g->out != NULL)
        g->out->is_written = 1;
    (void)simcuda_run(UINT64_MAX);
    for (int i = 0; i < g->reads_count; i++) {
        uint32_t got;
        memcpy(&got, g->out_at + 64 + 4 * (size_t)i, 4);
        if (got != g->expected[i])
            compose_finding("a graph reads %08x in block %d, not %08x", got, i, g->expected[i]);
    }
}

void world_graph_destroy(world *w, graph *g)
{
    if (g->number == 0)
        return;
    world_free(w, g->out);
    for (graph **at = &w->graphs; *at != NULL; at = &(*at)->next)
        if (*at == g) {
            *at = g->next;
            break;
        }
    for (int i = 0; i < g->reads_count; i++)
        if (g->reads[i] != NULL)
            g->reads[i]->refs--;
    if (g->exec != NULL)
        drive(cuGraphExecDestroy(g->exec));
    drive(cuGraphDestroy(g->cuda));
    world_stream_end(w, g->stream, g->device, 1);
    (void)simcuda_run(UINT64_MAX); /* the last launch ends, and the driver lets go */
    memset(g, 0, sizeof(*g));
}
