/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Included first everywhere in libcudart.so.12. CUDA 13 gave the plain name to newer forms of some
 * calls, which CUDA 12 has under a name of their own: so both runtimes are of the same sources. The
 * older forms are in twelve.c. Names beginning with `rt_` are not exported.
 */
#ifndef TENURE_SIMCUDART_TWELVE_H
#define TENURE_SIMCUDART_TWELVE_H

#define RT_VERSION 12090

#define cudaMemPrefetchAsync cudaMemPrefetchAsync_v2
#define cudaMemPrefetchAsync_ptsz cudaMemPrefetchAsync_v2_ptsz
#define cudaMemAdvise cudaMemAdvise_v2
#define cudaGraphAddDependencies cudaGraphAddDependencies_v2
#define cudaGraphRemoveDependencies cudaGraphRemoveDependencies_v2
#define cudaGraphGetEdges cudaGraphGetEdges_v2
#define cudaGraphNodeGetDependencies cudaGraphNodeGetDependencies_v2
#define cudaGraphNodeGetDependentNodes cudaGraphNodeGetDependentNodes_v2
#define cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_v3
#define cudaStreamGetCaptureInfo_ptsz cudaStreamGetCaptureInfo_v3_ptsz
#define cudaStreamUpdateCaptureDependencies cudaStreamUpdateCaptureDependencies_v2
#define cudaStreamUpdateCaptureDependencies_ptsz cudaStreamUpdateCaptureDependencies_v2_ptsz
#define cudaEventElapsedTime cudaEventElapsedTime_v2
#define cudaGetDeviceProperties rt_properties_of_13
#define cudaPointerGetAttributes rt_pointer_of_13
#define cudaMemcpyBatchAsync rt_batch_of_13
#define cudaMemcpyBatchAsync_ptsz rt_batch_of_13_ptsz

#endif
