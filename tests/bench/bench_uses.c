/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What does it cost that a block is used on a second stream?
 *
 *   record_use           one tnr_record_use on a live block, beside one bare cuEventRecord on the
 *                        same stream: what the library adds to the event that it cannot avoid
 *   record_stream_free   tnr_record_stream and the free
 *   alloc_use_free       an allocation, tnr_record_use and the free
 *   alloc_stream_free    the same with tnr_record_stream; PyTorch has the same
 *   pair_waiting_0       a cached pair on a stream that has nothing to do with any of this,
 *   pair_waiting_1024    and the same while 1,024 freed blocks wait for a stream that is held back
 *
 * A round does all of its batches for one contender, then the streams are synchronised. The clock
 * is read once per 64 operations.
 */
#include "bench_sections.h"

#include <string.h>

#include <tenure/lifetime.h>

#include "bench_uses.h"
#include "clock.h"
#include "table.h"

enum { BLOCK_BYTES = 4096, WAITING_BLOCKS = 1024, WARM_UP_BATCHES = 4 };

/* The streams of setup: own, the other one, and one that is only ever held back. */
enum { STREAM_OWN, STREAM_OTHER, STREAM_HELD };

/* What the benchmarks here share; lives for one call of bench_uses_run. */
typedef struct uses_bench {
    const bench_setup *setup;
    const bench_torch_uses *torch;
    CUstream own, other, held;
    CUevent event;
    uint32_t *gate; /* pinned: STREAM_HELD waits until it is 1 */
    CUdeviceptr gate_device;
    void *block;              /* live, for record_use */
    void *batch[BENCH_BATCH]; /* live, for record_stream_free */
    char error[256];          /* why the latest operation failed */
} uses_bench;

/* Does one batch of one contender and returns its time in ns, or 0 if a call failed. */
typedef uint64_t (*uses_batch)(uses_bench *self);

/* ---- operations ----------------------------------------------------------------------------- */

static uint64_t tenure_failed(uses_bench *self)
{
    snprintf(self->error, sizeof(self->error), "%s", tnr_last_error());
    return 0;
}

static uint64_t driver_failed(uses_bench *self, CUresult result)
{
    gpu_error_text(&self->setup->active->gpu, result, self->error, sizeof(self->error));
    return 0;
}

static uint64_t tenure_record_use(uses_bench *self)
{
    uint64_t before = clock_now_ns();
    for (int i = 0; i < BENCH_BATCH; i++)
        if (tnr_record_use(self->block, self->other) != TNR_OK)
            return tenure_failed(self);
    return clock_now_ns() - before;
}

static uint64_t event_record(uses_bench *self)
{
    PFN_cuEventRecord_v2000 record = self->setup->active->gpu.cuEventRecord;
    uint64_t before = clock_now_ns();
    for (int i = 0; i < BENCH_BATCH; i++) {
        CUresult result = record(self->event, self->other);
        if (result != CUDA_SUCCESS)
            return driver_failed(self, result);
    }
    return clock_now_ns() - before;
}

static uint64_t tenure_record_stream_free(uses_bench *self)
{
    int device = self->setup->active->device;
    for (int i = 0; i < BENCH_BATCH; i++)
        if (tnr_malloc(&self->batch[i], BLOCK_BYTES, device, self->own) != TNR_OK)
            return tenure_failed(self);
    uint64_t before = clock_now_ns();
    for (int i = 0; i < BENCH_BATCH; i++)
        if (tnr_record_stream(self->batch[i], self->other) != TNR_OK ||
            tnr_free(self->batch[i]) != TNR_OK)
            return tenure_failed(self);
    return clock_now_ns() - before;
}

static uint64_t tenure_alloc_use_free(uses_bench *self)
{
    int device = self->setup->active->device;
    void *ptr;
    uint64_t before = clock_now_ns();
    for (int i = 0; i < BENCH_BATCH; i++)
        if (tnr_malloc(&ptr, BLOCK_BYTES, device, self->own) != TNR_OK ||
            tnr_record_use(ptr, self->other) != TNR_OK || tnr_free(ptr) != TNR_OK)
            return tenure_failed(self);
    return clock_now_ns() - before;
}

static uint64_t tenure_alloc_stream_free(uses_bench *self)
{
    int device = self->setup->active->device;
    void *ptr;
    uint64_t before = clock_now_ns();
    for (int i = 0; i < BENCH_BATCH; i++)
        if (tnr_malloc(&ptr, BLOCK_BYTES, device, self->own) != TNR_OK ||
            tnr_record_stream(ptr, self->other) != TNR_OK || tnr_free(ptr) != TNR_OK)
            return tenure_failed(self);
    return clock_now_ns() - before;
}

static uint64_t torch_alloc_stream_free(uses_bench *self)
{
    uint64_t before = clock_now_ns();
    for (int i = 0; i < BENCH_BATCH; i++) {
        if (self->torch->use(BLOCK_BYTES, self->other) != 0) {
            snprintf(self->error, sizeof(self->error), "%s", self->torch->error());
            return 0;
        }
    }
    return clock_now_ns() - before;
}

static uint64_t pairs(uses_bench *self, const bench_allocator *allocator)
{
    uint64_t before = clock_now_ns();
    for (int i = 0; i < BENCH_BATCH; i++) {
        void *ptr = allocator->allocate(BLOCK_BYTES, self->own);
        if (!ptr || allocator->release(ptr, self->own) != 0) {
            snprintf(self->error, sizeof(self->error), "%s", allocator->error());
            return 0;
        }
    }
    return clock_now_ns() - before;
}

static uint64_t tenure_pairs(uses_bench *self)
{
    return pairs(self, &self->setup->allocators[0]);
}

static uint64_t torch_pairs(uses_bench *self)
{
    return pairs(self, &self->setup->allocators[self->setup->allocators_count - 1]);
}

/* ---- blocks that wait ----------------------------------------------------------------------- */

/* Holds a stream back and lets so many blocks of Tenure's, or of PyTorch's, wait for it. */
static int waiting_begin(uses_bench *self, int by_torch)
{
    const session *active = self->setup->active;
    void *blocks[WAITING_BLOCKS + 1];
    __atomic_store_n(self->gate, 0, __ATOMIC_SEQ_CST);
    CUresult result =
        active->gpu.cuStreamWaitValue32(self->held, self->gate_device, 1, CU_STREAM_WAIT_VALUE_EQ);
    if (result != CUDA_SUCCESS) {
        driver_failed(self, result);
        return -1;
    }
    if (by_torch) {
        int failed = 0;
        for (int i = 0; i < WAITING_BLOCKS && !failed; i++)
            failed = self->torch->use(BLOCK_BYTES, self->held) != 0;
        if (failed)
            snprintf(self->error, sizeof(self->error), "%s", self->torch->error());
        return failed ? -1 : 0;
    }
    /* One block more, without a use: it is the cached one that the pairs get. */
    tnr_status status = TNR_OK;
    for (int i = 0; i <= WAITING_BLOCKS && status == TNR_OK; i++) {
        status = tnr_malloc(&blocks[i], BLOCK_BYTES, active->device, self->own);
        if (status == TNR_OK && i < WAITING_BLOCKS)
            status = tnr_record_use(blocks[i], self->held);
    }
    for (int i = WAITING_BLOCKS; i >= 0 && status == TNR_OK; i--)
        status = tnr_free(blocks[i]);
    if (status != TNR_OK)
        tenure_failed(self);
    return status == TNR_OK ? 0 : -1;
}

/* 0 if Tenure's blocks still wait: otherwise something else was measured. */
static int waiting_check(uses_bench *self)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    if (tnr_stats_get(&stats, NULL, self->setup->active->device) == TNR_OK &&
        stats.blocks_retired >= WAITING_BLOCKS)
        return 0;
    snprintf(self->error, sizeof(self->error), "only %llu blocks were waiting at the end",
             (unsigned long long)stats.blocks_retired);
    return -1;
}

static void waiting_end(uses_bench *self)
{
    __atomic_store_n(self->gate, 1, __ATOMIC_SEQ_CST);
    self->setup->active->gpu.cuStreamSynchronize(self->held);
}

/* ---- rounds --------------------------------------------------------------------------------- */

/* A contender in a row: what it does, and in which column it is shown. */
typedef struct uses_contender {
    int column;
    uses_batch run;
} uses_contender;

typedef struct uses_row {
    const char *bench;
    uses_contender contenders[2]; /* the first is Tenure */
    int is_waiting;               /* with blocks that wait */
} uses_row;

static const uses_row uses_rows[BENCH_USES_ROWS] = {
    {"record_use", {{USES_TENURE, tenure_record_use}, {USES_EVENT, event_record}}, 0},
    {"record_stream_free", {{USES_TENURE, tenure_record_stream_free}, {0, NULL}}, 0},
    {"alloc_use_free", {{USES_TENURE, tenure_alloc_use_free}, {0, NULL}}, 0},
    {"alloc_stream_free",
     {{USES_TENURE, tenure_alloc_stream_free}, {USES_TORCH, torch_alloc_stream_free}},
     0},
    {"pair_waiting_0", {{USES_TENURE, tenure_pairs}, {USES_TORCH, torch_pairs}}, 0},
    {"pair_waiting_1024", {{USES_TENURE, tenure_pairs}, {USES_TORCH, torch_pairs}}, 1},
};

/* One round of one contender: warm-up, then timed batches. */
static void round_run(uses_bench *self, const uses_row *what, const uses_contender *contender,
                      bench_row *row)
{
    bench_cell *cell = &row->cells[contender->column];
    uint64_t batches = row->ops / BENCH_BATCH;
    uint64_t sum = 0, ns = 1;
    self->error[0] = '\0';
    if (what->is_waiting && waiting_begin(self, contender->column == USES_TORCH) != 0)
        ns = 0;
    for (uint64_t i = 0; i < WARM_UP_BATCHES && ns > 0; i++)
        ns = contender->run(self);
    for (uint64_t i = 0; i < batches && ns > 0; i++) {
        ns = contender->run(self);
        sum += ns;
        histogram_add(&cell->batches, ns);
    }
    if (ns > 0 && what->is_waiting && contender->column == USES_TENURE && waiting_check(self) != 0)
        ns = 0;
    if (what->is_waiting)
        waiting_end(self);
    self->setup->active->gpu.cuStreamSynchronize(self->other);
    if (ns == 0) {
        bench_cell_fail(cell, self->error);
        return;
    }
    bench_cell_round(cell, (double)(batches * BENCH_BATCH), (double)sum,
                     bench_mixed(0, batches * BLOCK_BYTES));
}

static int uses_open(uses_bench *self)
{
    const session *active = self->setup->active;
    const gpu_driver *gpu = &active->gpu;
    void *word = NULL;
    if (!gpu->cuStreamWaitValue32 || !gpu->cuMemHostGetDevicePointer || !gpu->cuEventCreate ||
        !gpu->cuEventRecord || !gpu->cuEventDestroy) {
        snprintf(self->error, sizeof(self->error), "the driver has no stream value waits");
        return -1;
    }
    CUresult result = gpu->cuMemHostAlloc(&word, 4096, CU_MEMHOSTALLOC_DEVICEMAP);
    self->gate = word;
    if (result == CUDA_SUCCESS)
        result = gpu->cuMemHostGetDevicePointer(&self->gate_device, word, 0);
    if (result == CUDA_SUCCESS)
        result = gpu->cuEventCreate(&self->event, CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS) {
        driver_failed(self, result);
        return -1;
    }
    if (tnr_malloc(&self->block, BLOCK_BYTES, active->device, self->own) == TNR_OK)
        return 0;
    tenure_failed(self);
    return -1;
}

static void uses_close(uses_bench *self)
{
    const gpu_driver *gpu = &self->setup->active->gpu;
    if (self->block && tnr_free(self->block) != TNR_OK)
        fprintf(stderr, "tenure bench: %s\n", tnr_last_error());
    if (self->event)
        gpu->cuEventDestroy(self->event);
    if (self->gate)
        gpu->cuMemFreeHost(self->gate);
}

const bench_column bench_uses_columns[BENCH_ALLOCATORS_MAX] = {
    [USES_TENURE] = {"Tenure", "tenure"},
    [USES_EVENT] = {"bare cuEventRecord", "driver_event"},
    [USES_TORCH] = {"PyTorch", "pytorch"},
    {NULL, NULL},
};

const bench_torch_uses *bench_torch_uses_get(const bench_setup *setup)
{
    static bench_torch_uses uses;
    char error[256];
    if (!setup->torch_plugin || uses.error)
        return setup->torch_plugin ? &uses : NULL;
    if (bench_torch_symbol(&uses.enter, "tnr_bench_torch_enter", error, sizeof(error)) != 0 ||
        bench_torch_symbol(&uses.use, "tnr_bench_torch_use", error, sizeof(error)) != 0 ||
        bench_torch_symbol(&uses.uses, "tnr_bench_torch_uses", error, sizeof(error)) != 0) {
        fprintf(stderr, "tenure bench: %s\n", error);
        return NULL;
    }
    uses.error = setup->allocators[setup->allocators_count - 1].error;
    return &uses;
}

static void row_start(const bench_setup *setup, bench_row *row)
{
    row->columns = bench_uses_columns;
    row->bytes = BLOCK_BYTES;
    row->threads = 1;
    row->live = 1;
    row->ops = setup->is_quick ? 1024 : 8192;
}

exit_code bench_uses_run(const bench_setup *setup, bench_rows *out)
{
    const bench_torch_uses *torch = bench_torch_uses_get(setup);
    uses_bench self = {.setup = setup, .torch = torch};
    bench_row *rows[BENCH_USES_ROWS];
    self.own = setup->streams[STREAM_OWN];
    self.other = setup->streams[STREAM_OTHER];
    self.held = setup->streams[STREAM_HELD];
    int is_open = uses_open(&self) == 0;
    if (is_open && torch)
        torch->enter(setup->active->device, self.own);
    for (int i = 0; i < BENCH_USES_ROWS; i++) {
        rows[i] = bench_row_add(out, uses_rows[i].bench);
        row_start(setup, rows[i]);
        if (!is_open)
            bench_cell_fail(&rows[i]->cells[USES_TENURE], self.error);
    }
    /* All rows take turns too: two of them are compared with each other. */
    for (int turn = 0; is_open && turn < setup->rounds * BENCH_USES_ROWS; turn++) {
        int index = turn % BENCH_USES_ROWS;
        for (int k = 0; k < 2; k++) {
            const uses_contender *contender = &uses_rows[index].contenders[(turn + k) % 2];
            if (contender->run && (contender->column != USES_TORCH || torch) &&
                (contender->column != USES_EVENT || setup->has_driver) &&
                !rows[index]->cells[contender->column].failed)
                round_run(&self, &uses_rows[index], contender, rows[index]);
        }
    }
    uses_close(&self);
    bench_trim_all(setup);
    return EXIT_CODE_OK;
}

/* ---- report --------------------------------------------------------------------------------- */

static const bench_row *row_named(const bench_row *rows, size_t count, const char *bench)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].bench, bench) == 0)
            return &rows[i];
    return NULL;
}

/* How many times as long the one took; 0 if one of them is void. */
static double cells_ratio(const bench_cell *one, const bench_cell *other)
{
    if (one->failed || other->failed || one->rounds == 0 || other->rounds == 0)
        return 0;
    return bench_cell_median_ns(one) / bench_cell_median_ns(other);
}

static void ratio_print(FILE *file, const char *what, double ratio)
{
    if (ratio > 0)
        fprintf(file, "%-52s %.2f x\n", what, ratio);
}

static void ratios_print(const bench_row *rows, size_t count, FILE *file)
{
    const bench_row *record = row_named(rows, count, "record_use");
    const bench_row *none = row_named(rows, count, "pair_waiting_0");
    const bench_row *many = row_named(rows, count, "pair_waiting_1024");
    const bench_row *stream = row_named(rows, count, "alloc_stream_free");
    fputc('\n', file);
    ratio_print(file, "record_use beside a bare event (limit 1.30):",
                cells_ratio(&record->cells[USES_TENURE], &record->cells[USES_EVENT]));
    ratio_print(file, "a pair with 1,024 blocks waiting beside none:",
                cells_ratio(&many->cells[USES_TENURE], &none->cells[USES_TENURE]));
    ratio_print(file, "the same in PyTorch:",
                cells_ratio(&many->cells[USES_TORCH], &none->cells[USES_TORCH]));
    ratio_print(file, "PyTorch beside Tenure, alloc_stream_free:",
                cells_ratio(&stream->cells[USES_TORCH], &stream->cells[USES_TENURE]));
}

void bench_uses_table(const bench_row *rows, size_t count, FILE *file)
{
    if (!row_named(rows, count, "record_use") && !row_named(rows, count, "storm"))
        return;
    table out;
    table_start(&out, 3 + USES_COLUMNS);
    table_row(&out);
    table_cell(&out, "ns per operation");
    for (int column = 0; column < USES_COLUMNS; column++) {
        table_cell(&out, "%s", bench_uses_columns[column].name);
        if (column == USES_TENURE) {
            table_cell(&out, "min");
            table_cell(&out, "p99");
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (rows[i].columns != bench_uses_columns)
            continue;
        table_row(&out);
        if (rows[i].threads > 1 || strcmp(rows[i].bench, "storm") == 0)
            table_cell(&out, "%s, %d threads", rows[i].bench, rows[i].threads);
        else
            table_cell(&out, "%s", rows[i].bench);
        for (int column = 0; column < USES_COLUMNS; column++) {
            const bench_cell *cell = &rows[i].cells[column];
            int is_void = cell->failed || cell->rounds == 0;
            double values[] = {bench_cell_median_ns(cell), bench_cell_min_ns(cell),
                               bench_cell_p99_ns(cell)};
            for (int k = 0; k < (column == USES_TENURE ? 3 : 1); k++)
                if (is_void)
                    table_cell(&out, "%s", cell->failed ? "failed" : "-");
                else
                    table_cell(&out, "%.1f", values[k]);
        }
    }
    fputs("\nBlocks of 4 KiB that a second stream uses\n", file);
    table_print(&out, file);
    table_release(&out);
    if (row_named(rows, count, "record_use"))
        ratios_print(rows, count, file);
}
