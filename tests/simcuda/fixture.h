/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the simulated device share: a fresh simulation per test with settings of its
 * own, and short forms of the VMM calls.
 */
#ifndef TENURE_TESTS_SIMCUDA_FIXTURE_H
#define TENURE_TESTS_SIMCUDA_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <tenure/simcuda.h>

#define MIB ((size_t)1 << 20)
#define CHUNK (2 * MIB)

/* A call that must give exactly this result. */
#define assert_result(call, expected) assert_int_equal((call), (expected))
#define assert_ok(call) assert_int_equal((call), CUDA_SUCCESS)

/* Resets, sets TENURE_SIM_<name> from "NAME=value" strings up to a null and clears the others.
 * fixture_settings stops before cuInit; fixture_start also makes a context current. */
void fixture_settings(const char *first, ...);
void fixture_start(const char *first, ...);

/* Resets; returns how many objects were left alive besides the fixture's context. */
int fixture_stop(void **state);

CUcontext fixture_context(void);

CUmemAllocationProp device_property(int device);
CUmemGenericAllocationHandle chunk_create(size_t bytes);
void chunk_access(CUdeviceptr at, size_t bytes);
CUdeviceptr reserve(size_t bytes);

/* Reserves, creates, maps and gives access; *handle may be null, then the reference is dropped. */
CUdeviceptr chunk_mapped(size_t bytes, CUmemGenericAllocationHandle *handle);
void chunk_unmapped(CUdeviceptr at, size_t bytes);

CUstream stream_new(unsigned flags);
CUevent event_new(void);

/* Pinned words: gates that the tests open by writing. */
volatile uint32_t *gate_new(void);
void gate_close(CUstream stream, volatile uint32_t *gate); /* queues a wait for 1 */
void gate_open(volatile uint32_t *gate);

/* Runs body(data) in a child; 1 if it ended normally with status 0. */
int survives(void (*body)(void *data), void *data);

/* Programs that race on purpose really do in `threads` mode, and ThreadSanitizer would say so. */
#if defined(__SANITIZE_THREAD__)
#define MAY_RACE 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MAY_RACE 0
#endif
#endif
#ifndef MAY_RACE
#define MAY_RACE 1
#endif

#endif
