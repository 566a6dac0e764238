/* SPDX-License-Identifier: Apache-2.0 */
/* Features "graph:": graphs that read the blocks of all other features, and are launched after
 * these have been freed. */
#include "all.h"

#include <string.h>

/* ---- captured on the device where the others are, and on the other one ----------------------- */

static graph here, elsewhere;

static void here_enter(world *w)
{
    (void)world_capture(w, &here, w->device, NULL);
}

static void here_act(world *w, int turn)
{
    (void)turn;
    world_launch(w, &here);
}

static void here_leave(world *w)
{
    world_graph_destroy(w, &here);
}

const feature graph_here = {"graph:here", NULL, here_enter, here_act, here_leave, NULL};

static void elsewhere_enter(world *w)
{
    (void)world_capture(w, &elsewhere, 1 - w->device, NULL);
}

static void elsewhere_act(world *w, int turn)
{
    (void)turn;
    if (elsewhere.number == 0) /* beside: what is there by now */
        elsewhere_enter(w);
    world_launch(w, &elsewhere);
}

static void elsewhere_leave(world *w)
{
    world_graph_destroy(w, &elsewhere);
}

const feature graph_elsewhere = {"graph:elsewhere", NULL, elsewhere_enter, elsewhere_act,
                                 elsewhere_leave,   NULL};

/* ---- built node by node ---------------------------------------------------------------------- */

static graph adopted;

static void adopted_build(world *w, graph *g)
{
    CUgraphNode last = NULL;
    CUcontext context = w->contexts[g->device];
    drive(cuGraphCreate(&g->cuda, 0));
    world_reads(w, g);
    for (int i = 0; i < g->reads_count; i++) {
        CUgraphNode node = NULL;
        CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                              .srcDevice = (CUdeviceptr)g->reads[i]->at,
                              .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                              .dstDevice = (CUdeviceptr)g->out_at + 64 + 4 * (size_t)i,
                              .WidthInBytes = 4,
                              .Height = 1,
                              .Depth = 1};
        drive(cuGraphAddMemcpyNode(&node, g->cuda, &last, last != NULL, &copy, context));
        last = node;
    }
}

static void adopted_enter(world *w)
{
    graph *g = &adopted;
    memset(g, 0, sizeof(*g));
    g->device = w->device;
    if (w->asleep[g->device])
        return;
    g->stream = world_stream(w, g->device);
    block *out = world_malloc(w, NULL, 4096, g->device, g->stream);
    out->is_alone = 1; /* nobody else reads what launches write */
    out->is_lost = 1;
    g->out = out;
    g->out_at = out->at;
    adopted_build(w, g);
    ok(tnr_graph_adopt(&g->number, (tnr_cuda_graph)g->cuda, g->device, "adopted"));
    drive(cuGraphInstantiate(&g->exec, g->cuda, 0));
    world_graph_begins(w, g);
}

static void adopted_act(world *w, int turn)
{
    world_launch(w, &adopted);
    if (turn == 1 && adopted.number != 0 && adopted.out != NULL && adopted.reads_count > 0)
        world_free(w, adopted.out); /* the graph keeps it */
}

static void adopted_leave(world *w)
{
    world_graph_destroy(w, &adopted);
}

const feature graph_adopted = {"graph:adopted", NULL,          adopted_enter,
                               adopted_act,     adopted_leave, NULL};

/* ---- captured again, and the executable updated ---------------------------------------------- */

static graph first, second;

static void updated_enter(world *w)
{
    if (world_capture(w, &first, w->device, NULL))
        (void)world_capture(w, &second, w->device, NULL);
}

/* The executable of the first graph gets the nodes of the second one: from then on it is launched
 * as the second. Both graphs live as long as it does. */
static void updated_act(world *w, int turn)
{
    CUgraphExecUpdateResultInfo info;
    world_launch(w, &first);
    world_launch(w, &second);
    if (turn != 1 || first.number == 0 || second.number == 0)
        return;
    world_on(w, first.device);
    memset(&info, 0, sizeof(info));
    CUresult result = cuGraphExecUpdate(first.exec, second.cuda, &info);
    if (result == CUDA_SUCCESS) {
        drive(cuGraphExecDestroy(second.exec));
        second.exec = first.exec;
        first.exec = NULL;
        world_launch(w, &second);
    } else if (result != CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) {
        drive(result);
    }
}

static void updated_leave(world *w)
{
    world_graph_destroy(w, &first);
    world_graph_destroy(w, &second);
}

const feature graph_updated = {"graph:updated", NULL,          updated_enter,
                               updated_act,     updated_leave, NULL};
