/* SPDX-License-Identifier: Apache-2.0 */
/* What programs for the check call the driver by: a call that gives another result ends them. */
#ifndef TENURE_TESTS_CHECK_MUST_H
#define TENURE_TESTS_CHECK_MUST_H

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST_BE(call, expected)                                                                    \
    do {                                                                                           \
        CUresult result_ = (call);                                                                 \
        if (result_ != (expected)) {                                                               \
            fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, (int)result_);       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define MUST(call) MUST_BE(call, CUDA_SUCCESS)

/* A graph of one kernel with one thread. `is_changed`: the executable's node gets the same
 * parameters again. */
static inline CUgraphExec exec_of_one_kernel(CUfunction function, void **params, int is_changed)
{
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUDA_KERNEL_NODE_PARAMS kernel = {.func = function,
                                      .gridDimX = 1,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = 1,
                                      .blockDimY = 1,
                                      .blockDimZ = 1,
                                      .kernelParams = params};
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddKernelNode(&node, graph, NULL, 0, &kernel));
    MUST(cuGraphInstantiate(&exec, graph, 0));
    if (is_changed)
        MUST(cuGraphExecKernelNodeSetParams(exec, node, &kernel));
    return exec;
}

#endif
