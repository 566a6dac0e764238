/* SPDX-License-Identifier: Apache-2.0 */
/* See graph.h. */
#define _GNU_SOURCE
#include "child.h"
#include "graph.h"

#include <dlfcn.h>
#include <string.h>
#include <time.h>

/* ---- nodes ---------------------------------------------------------------------------------- */

CUgraph graph_new(void)
{
    CUgraph graph = NULL;
    need("graph", cu.GraphCreate(&graph, 0));
    return graph;
}

void chunk_clear(CUdeviceptr at)
{
    need("clear", cu.MemsetD8(at, 0, CHUNK));
    need("clear sync", cu.CtxSynchronize());
}

CUgraphNodeType type_of(CUgraphNode node)
{
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL;
    need("type", cu.GraphNodeGetType(node, &type));
    return type;
}

static CUcontext context_current(void)
{
    CUcontext context = NULL;
    need("context", cu.CtxGetCurrent(&context));
    return context;
}

CUgraphNode node_empty(CUgraph graph, const CUgraphNode *after, size_t count)
{
    CUgraphNode node = NULL;
    need("empty node", cu.GraphAddEmptyNode(&node, graph, after, count));
    return node;
}

CUgraphNode node_set(CUgraph graph, CUdeviceptr at, unsigned char value, size_t bytes,
                     const CUgraphNode *after, size_t count)
{
    CUgraphNode node = NULL;
    const CUDA_MEMSET_NODE_PARAMS ask = {at, 0, value, 1, bytes, 1};
    need("memset node", cu.GraphAddMemsetNode(&node, graph, after, count, &ask, context_current()));
    return node;
}

CUDA_MEMCPY3D copy_params(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    CUDA_MEMCPY3D copy;
    memset(&copy, 0, sizeof(copy));
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = from;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = to;
    copy.WidthInBytes = bytes;
    copy.Height = 1;
    copy.Depth = 1;
    return copy;
}

CUgraphNode node_copy(CUgraph graph, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                      const CUgraphNode *after, size_t count)
{
    CUgraphNode node = NULL;
    const CUDA_MEMCPY3D ask = copy_params(to, from, bytes);
    need("copy node", cu.GraphAddMemcpyNode(&node, graph, after, count, &ask, context_current()));
    return node;
}

CUgraphNode node_host(CUgraph graph, CUhostFn function, void *data, const CUgraphNode *after,
                      size_t count)
{
    CUgraphNode node = NULL;
    const CUDA_HOST_NODE_PARAMS ask = {function, data};
    need("host node", cu.GraphAddHostNode(&node, graph, after, count, &ask));
    return node;
}

/* ---- the kernel ----------------------------------------------------------------------------- */

static const char store_ptx[] = ".version 7.0\n"
                                ".target sm_80\n"
                                ".address_size 64\n"
                                ".visible .entry store(.param .u64 at, .param .u32 value)\n"
                                "{\n"
                                "    .reg .b32 %r<2>;\n"
                                "    .reg .b64 %rd<3>;\n"
                                "    ld.param.u64 %rd1, [at];\n"
                                "    ld.param.u32 %r1, [value];\n"
                                "    cvta.to.global.u64 %rd2, %rd1;\n"
                                "    st.global.u32 [%rd2], %r1;\n"
                                "    ret;\n"
                                "}\n";

static void store_run(void *const *params)
{
    uintptr_t at = 0;
    memcpy(&at, params[0], sizeof(at));
    memcpy((void *)at, params[1], sizeof(uint32_t));
}

/* As tools/simcuda declares it; no accesses are told, so only faults would show. */
typedef int (*kernel_register)(const char *name, size_t param_count, const size_t *param_bytes,
                               void (*run)(void *const *params), void *accesses);

/* A simulated device takes a host function for the kernel. */
static void store_register(void)
{
    Dl_info info;
    const size_t bytes[] = {sizeof(CUdeviceptr), sizeof(uint32_t)};
    const void *function = NULL;
    memcpy(&function, &cu.Init, sizeof(function));
    void *library =
        dladdr(function, &info) == 0 ? NULL : dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    void *symbol = library == NULL ? NULL : dlsym(library, "simcuda_kernel_register");
    if (symbol != NULL) {
        kernel_register reg = NULL;
        memcpy(&reg, &symbol, sizeof(symbol));
        if (reg("store", 2, bytes, store_run, NULL) != 0)
            need("kernel", CUDA_ERROR_OUT_OF_MEMORY);
    }
}

CUDA_KERNEL_NODE_PARAMS store_params(void)
{
    static CUfunction function;
    if (function == NULL) {
        CUmodule module = NULL;
        store_register();
        need("module", cu.ModuleLoadData(&module, store_ptx));
        need("function", cu.ModuleGetFunction(&function, module, "store"));
    }
    CUDA_KERNEL_NODE_PARAMS params;
    memset(&params, 0, sizeof(params));
    params.func = function;
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = params.blockDimY = params.blockDimZ = 1;
    return params;
}

CUgraphNode node_store(CUgraph graph, CUdeviceptr at, uint32_t value, const CUgraphNode *after,
                       size_t count)
{
    CUgraphNode node = NULL;
    void *pointers[2] = {&at, &value};
    CUDA_KERNEL_NODE_PARAMS params = store_params();
    params.kernelParams = pointers;
    need("kernel node", cu.GraphAddKernelNode(&node, graph, after, count, &params));
    return node;
}

/* ---- running -------------------------------------------------------------------------------- */

CUgraphExec exec_new(CUgraph graph)
{
    CUgraphExec exec = NULL;
    need("instantiate", cu.GraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

void graph_run(CUgraph graph, CUstream stream)
{
    CUgraphExec exec = exec_new(graph);
    need("launch", cu.GraphLaunch(exec, stream));
    need("sync", cu.StreamSynchronize(stream));
    need("exec destroy", cu.GraphExecDestroy(exec));
}

/* Queries let a simulated device get on. The time counts, not how many they were: on a real driver
 * each takes as long as it likes. */
int flag_awaited(const int *flag, unsigned ms)
{
    double until = seconds_now() + (double)ms / 1e3;
    do {
        for (int query = 0; query < 2000 && __atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0; query++)
            (void)cu.StreamQuery(NULL);
        if (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != 0)
            return 1;
        struct timespec pause = {0, 1000000};
        (void)nanosleep(&pause, NULL);
    } while (seconds_now() < until);
    return 0;
}
