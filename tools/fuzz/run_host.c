/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on pinned host memory.
 */
#include "run.h"

#include <inttypes.h>

/* ---- allocating ----------------------------------------------------------------------------- */

/* The most that is taken near the device by what is no block of the program's: contents, each of
 * which may be the last one in a slab. */
static size_t contents_bytes(const fuzz_run *run, int device)
{
    const uint64_t slab = (uint64_t)22 << 20;
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    uint64_t own = run->model.requested_bytes[FUZZ_DEVICES + device];
    uint64_t blocks = run->model.live_blocks[FUZZ_DEVICES + device];
    if (tnr_stats_get(&stats, NULL, TNR_HOST(device)) != TNR_OK || stats.bytes_live < own)
        return 0;
    return (size_t)(stats.bytes_live - own +
                    (stats.allocation[TNR_WORLD_ALL].current - blocks) * slab);
}

/* A failure is fine if memory may be short, also that of the machine, or a driver call failed. */
static int malloc_refused(fuzz_run *run, const fuzz_op *op, tnr_status status, const void *ptr)
{
    enum { MACHINE_MOST = 1 << 30 };
    tnr_host_info info = {.struct_bytes = sizeof(info)};
    run->result->failed_allocations++;
    if (ptr != NULL)
        run_fail(run, FUZZ_VERDICT_SAFETY, "status", "an allocation that gave %s left an address",
                 tnr_status_name(status));
    int is_short = status == TNR_ERR_OUT_OF_MEMORY || status == TNR_ERR_LIMIT;
    if (run_was_sabotaged(run) ||
        (is_short && !host_must_fit(&run->model, op, contents_bytes(run, op->device))) ||
        (status == TNR_ERR_OUT_OF_MEMORY && tnr_host_get(&info) == TNR_OK &&
         info.left_bytes < MACHINE_MOST))
        return 0;
    run_fail(run, is_short ? FUZZ_VERDICT_LIVENESS : FUZZ_VERDICT_SAFETY,
             is_short ? "spurious out of memory" : "status",
             "an allocation of %" PRIu64 " bytes of host memory gave %s: %s", op->n,
             tnr_status_name(status), tnr_last_error());
    return 0;
}

/* The host may use it at once, so nothing may be under way there. */
static int run_malloc(fuzz_run *run, const fuzz_op *op)
{
    void *ptr = NULL;
    tnr_status status = op->pool == 0 ? tnr_host_malloc_near(&ptr, (size_t)op->n, op->device)
                                      : tnr_pool_malloc(&ptr, run->pools[op->pool], (size_t)op->n,
                                                        TNR_HOST(op->device), NULL);
    uintptr_t base = (uintptr_t)ptr;
    run_hash(run, (uint64_t)status);
    if (status != TNR_OK)
        return malloc_refused(run, op, status, ptr);
    run_malloc_check(run, op, base);
    run->device->host_takes(base, (size_t)op->n);
    if (run->device->violations() != 0)
        run_fail(run, FUZZ_VERDICT_SAFETY, "host memory", "b%d was handed out in use: %s",
                 op->block, run->device->violation_last());
    if (!run->is_over)
        (void)run->device->owner_begin(base, (size_t)op->n, run->labels[op->block]);
    host_did_malloc(&run->model, op, base);
    run_block_begin(run, op->block, base, (size_t)op->n);
    return 1;
}

static int run_pool(fuzz_run *run, const fuzz_op *op)
{
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.limit_bytes = (size_t)op->n;
    options.release_threshold_bytes = (size_t)op->m;
    tnr_status status = tnr_pool_create(&run->pools[op->pool], TNR_HOST(op->device), &options);
    if (!run_succeeded(run, status, "tnr_pool_create"))
        return 0;
    run->model.pools[op->pool] = (model_pool){.is_there = 1,
                                              .is_host = 1,
                                              .is_open = run->model.devices == 2,
                                              .device = op->device,
                                              .limit = (size_t)op->n};
    run->model.is_used[op->device] = run->model.is_used[FUZZ_DEVICES + op->device] = 1;
    return 1;
}

/* ---- the host's own accesses ---------------------------------------------------------------- */

/* The same words as the kernel's. */
static int run_touch(fuzz_run *run, const fuzz_op *op)
{
    model_block *block = &run->model.blocks[op->block];
    volatile uint64_t *first = (uint64_t *)block->base;
    volatile uint64_t *last = first + (block->bytes < 16 ? 0 : block->bytes / 8 - 1);
    int has_words = block->bytes >= sizeof(*first);
    if (op->kind == FUZZ_HOST_WRITE) {
        block->tag = ++run->model.tag_last;
        block->is_tagged = 1;
        if (has_words)
            *first = *last = block->tag;
        host_did_write(&run->model, op);
        return 1;
    }
    if (!has_words || !block->is_tagged || (*first == block->tag && *last == block->tag))
        return 1;
    run_fail(run, FUZZ_VERDICT_SAFETY, "contents",
             "the host reads %#" PRIx64 " and %#" PRIx64 " in b%d, where %#" PRIx64
             " had been written",
             *first, *last, op->block, block->tag);
    return 1;
}

int run_host(fuzz_run *run, const fuzz_op *op)
{
    size_t number = 0;
    int place = FUZZ_DEVICES + op->device;
    switch ((fuzz_kind)op->kind) {
    case FUZZ_HOST_POOL:
        return run_pool(run, op);
    case FUZZ_HOST_MALLOC:
        return run_malloc(run, op);
    case FUZZ_HOST_TRIM:
        if (!run_succeeded(run, tnr_trim(&number, (size_t)op->n, run_place(place)), "tnr_trim"))
            return 0;
        break;
    case FUZZ_HOST_LIMIT:
        if (!run_succeeded(run, tnr_limit_set((size_t)op->n, run_place(place)), "tnr_limit_set") ||
            !run_succeeded(run, tnr_limit_get(&number, run_place(place)), "tnr_limit_get"))
            return 0;
        run->model.limit_bytes[place] = number;
        run->limit_seen[place] = 0; /* what is mapped now may be above it: compare anew */
        break;
    default:
        return run_touch(run, op);
    }
    run->model.is_used[op->device] = run->model.is_used[place] = 1;
    run_hash(run, number);
    return 1;
}
