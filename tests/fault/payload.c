/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels behind payload.h. */
#include "fault/payload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define BORDER ((uintptr_t)2 << 20)
enum { EDGE_WORDS = 8, EDGE_BYTES = EDGE_WORDS * 8 };

static CUfunction fill_function, check_function; /* set by payload_load */
static _Atomic uint64_t errors_count, checks_count;

/* What a launch is about. */
typedef struct work {
    uintptr_t block;
    uint64_t bytes, identity;
} work;

static work work_of(void *const *params)
{
    work result;
    memcpy(&result.block, params[0], sizeof(result.block));
    memcpy(&result.bytes, params[1], sizeof(result.bytes));
    memcpy(&result.identity, params[2], sizeof(result.identity));
    return result;
}

/* Writes or compares the words at one place. Returns how many differ. */
static uint64_t edge_visit(uintptr_t at, uint64_t identity, int is_check)
{
    uint64_t wrong = 0;
    for (size_t i = 0; i < EDGE_WORDS; i++) {
        uint64_t word = (identity + i) * UINT64_C(0x9e3779b97f4a7c15);
        uint64_t *place = (uint64_t *)(at + i * 8);
        if (is_check)
            wrong += *place != word;
        else
            *place = word;
    }
    return wrong;
}

static uint64_t block_visit(const work *w, int is_check)
{
    uintptr_t end = (w->block + w->bytes) & ~(uintptr_t)7;
    uint64_t wrong = edge_visit(w->block, w->identity, is_check);
    for (uintptr_t border = (w->block + EDGE_BYTES * 2 + BORDER - 1) & ~(BORDER - 1);
         border + EDGE_BYTES * 2 <= end; border += BORDER) {
        wrong += edge_visit(border - EDGE_BYTES, w->identity, is_check);
        wrong += edge_visit(border, w->identity, is_check);
    }
    if (w->bytes >= 2 * (uint64_t)EDGE_BYTES + 8)
        wrong += edge_visit(end - EDGE_BYTES, w->identity, is_check);
    return wrong;
}

static void fill_run(void *const *params)
{
    work w = work_of(params);
    (void)block_visit(&w, 0);
}

static void check_run(void *const *params)
{
    work w = work_of(params);
    atomic_fetch_add(&checks_count, 1);
    if (block_visit(&w, 1) == 0)
        return;
    if (atomic_fetch_add(&errors_count, 1) < 5)
        fprintf(stderr, "block %#zx of %zu bytes does not hold identity %zu\n", (size_t)w.block,
                (size_t)w.bytes, (size_t)w.identity);
}

static size_t touches(void *const *params, simcuda_access *out, size_t capacity, int is_write)
{
    work w = work_of(params);
    if (capacity > 0)
        out[0] = (simcuda_access){w.block, w.bytes, is_write};
    return 1;
}

static size_t fill_touches(void *const *params, simcuda_access *out, size_t capacity)
{
    return touches(params, out, capacity, 1);
}

static size_t check_touches(void *const *params, simcuda_access *out, size_t capacity)
{
    return touches(params, out, capacity, 0);
}

void payload_load(void)
{
    static const size_t sizes[] = {8, 8, 8};
    static const char image[] = "payload";
    CUmodule module;
    assert_int_equal(simcuda_kernel_register("payload_fill", 3, sizes, fill_run, fill_touches), 0);
    assert_int_equal(simcuda_kernel_register("payload_check", 3, sizes, check_run, check_touches),
                     0);
    assert_int_equal(cuModuleLoadData(&module, image), CUDA_SUCCESS);
    assert_int_equal(cuModuleGetFunction(&fill_function, module, "payload_fill"), CUDA_SUCCESS);
    assert_int_equal(cuModuleGetFunction(&check_function, module, "payload_check"), CUDA_SUCCESS);
    atomic_store(&errors_count, 0);
    atomic_store(&checks_count, 0);
}

static CUresult launch(CUfunction function, CUstream stream, void *block, size_t bytes,
                       uint64_t identity)
{
    uint64_t size = bytes;
    void *params[] = {&block, &size, &identity};
    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

CUresult payload_fill(CUstream stream, void *block, size_t bytes, uint64_t identity)
{
    return launch(fill_function, stream, block, bytes, identity);
}

CUresult payload_check(CUstream stream, void *block, size_t bytes, uint64_t identity)
{
    return launch(check_function, stream, block, bytes, identity);
}

uint64_t payload_errors(void)
{
    return atomic_load(&errors_count);
}

uint64_t payload_checks(void)
{
    return atomic_load(&checks_count);
}
