/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What CUDA's headers want of crt/host_defines.h when a host compiler reads them and no kernel is
 * compiled. PyTorch's wheels bring CUDA's runtime headers along, but not this folder. It is found
 * only where the real one is not (-idirafter).
 */
#ifndef TENURE_CRT_HOST_DEFINES_H
#define TENURE_CRT_HOST_DEFINES_H

#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __no_return__ __attribute__((noreturn))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __inline_hint__
#define __thread__ __thread
#define __import__
#define __export__
#define __cdecl
#define __annotate__(a) __attribute__((a))
#define __location__(a)
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __grid_constant__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define CUDARTAPI
#define CUDARTAPI_CDECL

#endif
