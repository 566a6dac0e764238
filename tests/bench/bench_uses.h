/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The benchmark of blocks that a second stream uses: bench_uses.c. Its rows are like the others',
 * but the columns are not the allocators: they are Tenure, the driver's bare event, and PyTorch. If
 * a row lacks a column, the column has no rounds and has not failed.
 */
#ifndef TENURE_TESTS_BENCH_USES_H
#define TENURE_TESTS_BENCH_USES_H

#include "bench.h"

enum { USES_TENURE, USES_EVENT, USES_TORCH, USES_COLUMNS };
enum { BENCH_USES_ROWS = 6 };

/* PyTorch's part, from the plugin. */
typedef struct bench_torch_uses {
    void (*enter)(int device, void *own);   /* memory is allocated on stream `own` from now on */
    int (*use)(size_t bytes, void *stream); /* allocate, record the stream, free; 0: done */
    int (*uses)(size_t bytes, void *const *streams, int count); /* the same with several */
    const char *(*error)(void);
} bench_torch_uses;

/* What the cells of such a row belong to. */
extern const bench_column bench_uses_columns[BENCH_ALLOCATORS_MAX];

/* PyTorch's part; null without the plugin, or where it has none. With it, PyTorch is the last
 * allocator of the setup. */
const bench_torch_uses *bench_torch_uses_get(const bench_setup *setup);

/* Prints the rows that are of this benchmark, if there are any. */
void bench_uses_table(const bench_row *rows, size_t count, FILE *file);

#endif
