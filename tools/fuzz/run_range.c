/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on ranges: pages of a block of tnr_reserve get memory and lose it.
 */
#include "run.h"

#include <inttypes.h>

static size_t offset_of(const model *m, const model_block *part)
{
    return part->base - m->blocks[part->part_of - 1].base;
}

static void part_own(fuzz_run *run, int slot, int begins)
{
    const model_block *part = &run->model.blocks[slot];
    if (part->bytes > 0 && begins)
        (void)run->device->owner_begin(part->base, part->bytes, run->labels[slot]);
    else if (part->bytes > 0)
        (void)run->device->owner_end(part->base);
}

void run_range_own(fuzz_run *run, int range, int begins)
{
    for (int i = range_next(&run->model, range, -1); i >= 0; i = range_next(&run->model, range, i))
        part_own(run, i, begins);
}

/* A refusal is fine if memory may be short, the pool sleeps, or a capture forbids what a page needs
 * that old work may still use. */
static int commit_refused(fuzz_run *run, const fuzz_op *op, tnr_status status)
{
    const model *m = &run->model;
    int device = m->blocks[op->other].device;
    size_t bytes = (size_t)(op->m * m->page_bytes);
    int is_short = status == TNR_ERR_OUT_OF_MEMORY || status == TNR_ERR_LIMIT;
    int captures = m->capturing || m->beside != 0;
    if (run_was_sabotaged(run) || (status == TNR_ERR_ASLEEP && m->default_asleep[device]) ||
        ((status == TNR_ERR_CAPTURE || status == TNR_ERR_BUSY) && captures) ||
        (is_short && !model_must_fit(m, device, 0, bytes)))
        return 0;
    run_fail(run, is_short ? FUZZ_VERDICT_LIVENESS : FUZZ_VERDICT_SAFETY, "status",
             "tnr_commit_range of %zu bytes gave %s: %s", bytes, tnr_status_name(status),
             tnr_last_error());
    return 0;
}

/* A commit gives memory to each page that it touches: pages of odd numbers are named by their last
 * byte, up to the last byte of the page before the last. */
static int run_commit(fuzz_run *run, const fuzz_op *op)
{
    model *m = &run->model;
    const model_block *range = &m->blocks[op->other], *part = &m->blocks[op->block];
    size_t page = (size_t)m->page_bytes, offset = (size_t)op->n * page;
    size_t bytes = (size_t)op->m * page;
    if (bytes > range->reserved - offset)
        bytes = range->reserved - offset;
    int had = part->base != 0 && part->bytes > 0;
    int is_odd = op->n % 2 != 0 && range->reserved - offset >= page;
    tnr_status status = is_odd ? tnr_commit_range((void *)range->base, offset + page - 1,
                                                  op->m == 1 ? 1 : (size_t)(op->m - 2) * page + 2)
                               : tnr_commit_range((void *)range->base, offset, bytes);
    run_hash(run, (uint64_t)status);
    if (status != TNR_OK)
        return commit_refused(run, op, status);
    range_did_commit(m, op);
    if (had)
        return 1;
    run_block_begin(run, op->block, part->base, part->bytes);
    part_own(run, op->block, 1);
    return 1;
}

/* Reaches as far beyond the pages as it may without taking others. A use of tnr_record_stream ends
 * here, which a capture may forbid. */
static int run_decommit(fuzz_run *run, const fuzz_op *op)
{
    model *m = &run->model;
    const model_block *part = &m->blocks[op->block], *range = &m->blocks[part->part_of - 1];
    size_t first = offset_of(m, part), end = first + part->reserved;
    first -= first >= op->n ? (size_t)op->n : 0;
    end += op->n < range->reserved - end ? (size_t)op->n : 0;
    part_own(run, op->block, 0);
    tnr_status status = tnr_decommit_range((void *)range->base, first, end - first);
    run_hash(run, (uint64_t)status);
    if (!(status == TNR_ERR_CAPTURE && m->capturing) &&
        run_succeeded(run, status, "tnr_decommit_range")) {
        range_did_decommit(m, op);
        return 1;
    }
    if (!run->is_over)
        part_own(run, op->block, 1);
    return 0;
}

static int has_memory(const model *m, int range, uintptr_t at)
{
    for (int i = range_next(m, range, -1); i >= 0; i = range_next(m, range, i))
        if (at >= m->blocks[i].base && at < m->blocks[i].base + m->blocks[i].bytes)
            return 1;
    return 0;
}

/* Addresses without memory fault once everything is over. */
static int run_look(fuzz_run *run, const fuzz_op *op)
{
    const model *m = &run->model;
    const model_block *range = &m->blocks[op->block];
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = range->device};
    for (int calls = 0; calls < 3; calls++) { /* the library's own marks are queued by the calls */
        (void)run->device->run(UINT64_MAX);
        if (!run_succeeded(run, tnr_decommit_range((void *)range->base, 0, 0),
                           "tnr_decommit_range"))
            return 0;
    }
    for (size_t at = 0; at < range->reserved && !run->is_over; at += (size_t)m->page_bytes) {
        unsigned long long flags = 0;
        CUresult result = run->device->access_get(&flags, &location, range->base + at);
        int is_there = result == CUDA_SUCCESS && flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        if (is_there != has_memory(m, op->block, range->base + at))
            run_fail(run, FUZZ_VERDICT_SAFETY, "range", "0x%" PRIxPTR ", %zu bytes into b%d, %s",
                     range->base + at, at, op->block,
                     is_there ? "has memory that was taken from it" : "has no memory");
    }
    return 1;
}

int run_range(fuzz_run *run, const fuzz_op *op)
{
    return op->kind == FUZZ_COMMIT_RANGE     ? run_commit(run, op)
           : op->kind == FUZZ_DECOMMIT_RANGE ? run_decommit(run, op)
                                             : run_look(run, op);
}
