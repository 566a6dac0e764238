/* SPDX-License-Identifier: Apache-2.0 */
/* See state.h. */
#include "state.h"

#include <stdio.h>
#include <stdlib.h>

void model_fail(const model *m, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprint_error(format, arguments);
    va_end(arguments);
    print_error("\nseed %llu, step %zu. Again: TENURE_DRIVER=sim test_model --steps %zu %llu\n",
                (unsigned long long)m->seed, m->step, m->step + 1, (unsigned long long)m->seed);
    print_error("Tenure's last error: %s\n", tnr_last_error());
    fail();
    abort();
}

void model_note(model *m, uint64_t value)
{
    m->trail = (m->trail ^ value) * UINT64_C(0x100000001b3);
}

/* ---- contents ------------------------------------------------------------------------------- */

static CUdeviceptr block_last_word(const live_block *block)
{
    return (block->base + block->bytes - 1) & ~(CUdeviceptr)3;
}

/* Writes the block's word at both ends, on its stream. */
static void contents_write(model *m, const live_block *block)
{
    CUstream stream = m->streams[block->stream];
    if (cuMemsetD32Async(block->base, block->word, 1, stream) != CUDA_SUCCESS ||
        cuMemsetD32Async(block_last_word(block), block->word, 1, stream) != CUDA_SUCCESS)
        model_fail(m, "the block at %#zx of %zu bytes cannot be written", (size_t)block->base,
                   block->bytes);
}

void model_compare_contents(model *m)
{
    if (cuCtxSynchronize() != CUDA_SUCCESS)
        model_fail(m, "the device failed");
    for (size_t i = 0; i < m->checks_count; i++)
        if (m->words[2 * i] != m->checks[i].expected ||
            m->words[2 * i + 1] != m->checks[i].expected)
            model_fail(m, "a block that was given the word %u held %u and %u when it was freed",
                       m->checks[i].expected, m->words[2 * i], m->words[2 * i + 1]);
    m->checks_count = 0;
    if (simcuda_violations() != 0)
        model_fail(m, "misuse of the driver: %s", simcuda_violation_last());
}

/* ---- blocks --------------------------------------------------------------------------------- */

void model_add(model *m, void *ptr, size_t bytes, size_t alignment, int pool, int stream)
{
    uintptr_t base = (uintptr_t)ptr;
    size_t rounded = (bytes + TNR_ALIGNMENT_DEFAULT - 1) & ~(TNR_ALIGNMENT_DEFAULT - 1);
    if (m->live_count == LIVE_MAX)
        model_fail(m, "the model has no room");
    if (base % alignment != 0 || base % TNR_ALIGNMENT_DEFAULT != 0)
        model_fail(m, "%p is not a multiple of %zu", ptr, alignment);
    for (size_t i = 0; i < m->live_count; i++) {
        const live_block *other = &m->live[i];
        if (base < other->base + other->bytes && other->base < base + rounded)
            model_fail(m, "%p of %zu bytes overlaps %#zx of %zu bytes", ptr, bytes,
                       (size_t)other->base, other->bytes);
    }
    live_block *block = &m->live[m->live_count++];
    *block = (live_block){base, bytes, ++m->word_last, pool, stream};
    m->live_bytes += bytes;
    m->mallocs++;
    contents_write(m, block);
}

void model_remove(model *m, size_t index)
{
    live_block *block = &m->live[index];
    if (m->checks_count == CHECKS_MAX)
        model_compare_contents(m);
    uint32_t *words = &m->words[2 * m->checks_count];
    CUstream stream = m->streams[block->stream];
    words[0] = words[1] = 0;
    if (cuMemcpyDtoHAsync(&words[0], block->base, 4, stream) != CUDA_SUCCESS ||
        cuMemcpyDtoHAsync(&words[1], block_last_word(block), 4, stream) != CUDA_SUCCESS)
        model_fail(m, "the block at %#zx cannot be read", (size_t)block->base);
    m->checks[m->checks_count++].expected = block->word;
    m->live_bytes -= block->bytes;
    m->frees++;
    *block = m->live[--m->live_count];
}

/* ---- comparing ------------------------------------------------------------------------------ */

void model_check_lookup(model *m)
{
    if (m->live_count == 0)
        return;
    const live_block *block = &m->live[unit_below(&m->random, m->live_count)];
    size_t offset = unit_below(&m->random, block->bytes);
    tnr_block_info info;
    if (tnr_block_get(&info, (void *)(block->base + offset)) != TNR_OK)
        model_fail(m, "no block is found %zu bytes inside %#zx", offset, (size_t)block->base);
    if ((uintptr_t)info.base != block->base || info.bytes_requested != block->bytes ||
        info.bytes < block->bytes || info.bytes % TNR_ALIGNMENT_DEFAULT != 0 ||
        info.device != DEVICE || info.stream != m->streams[block->stream] ||
        info.pool != m->pools[block->pool])
        model_fail(m, "the block at %#zx is described wrongly: base %p, %zu of %zu bytes",
                   (size_t)block->base, info.base, info.bytes_requested, info.bytes);
    uintptr_t beyond = block->base + info.bytes;
    int inside = 0;
    for (size_t i = 0; i < m->live_count; i++)
        inside |= beyond >= m->live[i].base && beyond - m->live[i].base < m->live[i].bytes;
    if (!inside && tnr_block_get(&info, (void *)beyond) == TNR_OK)
        model_fail(m, "%#zx lies in no block, but is found in %p", (size_t)beyond, info.base);
}

/* The sums of one pool. */
static void pool_check_stats(model *m, int pool)
{
    tnr_stats stats;
    stats.struct_bytes = sizeof(stats);
    if (tnr_stats_get(&stats, m->pools[pool], DEVICE) != TNR_OK)
        model_fail(m, "no statistics of pool %d", pool);
    uint64_t bytes = 0;
    uint64_t count = 0;
    for (size_t i = 0; i < m->live_count; i++)
        if (m->live[i].pool == pool) {
            bytes += m->live[i].bytes;
            count++;
        }
    if (stats.bytes_live != bytes || stats.allocation[TNR_WORLD_ALL].current != count)
        model_fail(m, "pool %d has %llu bytes in %llu blocks, and says %llu in %llu", pool,
                   (unsigned long long)bytes, (unsigned long long)count,
                   (unsigned long long)stats.bytes_live,
                   (unsigned long long)stats.allocation[TNR_WORLD_ALL].current);
    if (stats.reserved_bytes.current > m->pool_limit[pool])
        model_fail(m, "pool %d is over its limit", pool);
}

void model_check_stats(model *m)
{
    tnr_stats stats;
    stats.struct_bytes = sizeof(stats);
    if (tnr_stats_get(&stats, NULL, DEVICE) != TNR_OK)
        model_fail(m, "no statistics");
    uint64_t sum = stats.bytes_live + stats.bytes_slack + stats.bytes_binned + stats.bytes_free +
                   stats.bytes_retired;
    if (sum != stats.reserved_bytes.current)
        model_fail(m,
                   "live %llu + slack %llu + binned %llu + free %llu + retired %llu is not the "
                   "%llu bytes reserved",
                   (unsigned long long)stats.bytes_live, (unsigned long long)stats.bytes_slack,
                   (unsigned long long)stats.bytes_binned, (unsigned long long)stats.bytes_free,
                   (unsigned long long)stats.bytes_retired,
                   (unsigned long long)stats.reserved_bytes.current);
    if (stats.bytes_live != m->live_bytes ||
        stats.allocation[TNR_WORLD_ALL].current != m->live_count)
        model_fail(m, "%llu bytes in %zu blocks are live; the counters say %llu in %llu",
                   (unsigned long long)m->live_bytes, m->live_count,
                   (unsigned long long)stats.bytes_live,
                   (unsigned long long)stats.allocation[TNR_WORLD_ALL].current);
    if (stats.num_ooms != m->ooms)
        model_fail(m, "%llu calls failed for lack of memory; the counter says %llu",
                   (unsigned long long)m->ooms, (unsigned long long)stats.num_ooms);
    uint64_t most = m->reserved_before > m->limit ? m->reserved_before : m->limit;
    if (stats.reserved_bytes.current > most)
        model_fail(m, "%llu bytes are mapped, over the limit",
                   (unsigned long long)stats.reserved_bytes.current);
    simcuda_live live;
    if (simcuda_live_get(DEVICE, &live) != 0 || live.handle_bytes != stats.reserved_bytes.current)
        model_fail(m, "%llu bytes are reserved, but the device holds %llu",
                   (unsigned long long)stats.reserved_bytes.current,
                   (unsigned long long)live.handle_bytes);
    m->reserved_before = stats.reserved_bytes.current;
    for (int pool = 0; pool < POOLS_MAX; pool++)
        if (m->pools[pool] != NULL)
            pool_check_stats(m, pool);
}
