/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that are wrong on purpose. Each case misuses the lifetime layer in one way, on the
 * simulated device with its race detector, and must be caught with exactly one report of the
 * expected kind that names both places in the program. The corrected version (--right) differs in
 * that one step only and must give no report.
 *
 *   record_early      record_use before the last read: the later read is not covered, and the
 *                     memory's next user overwrites what it reads. Right: after the last read
 *   record_missing    no record_use at all: the free is ordered on the block's own stream only.
 *                     Right: record_use after the read
 *   wrong_stream      tnr_free_on with a stream that did not do the last use, which orders the free
 *                     after the wrong work. Right: the stream that did
 *   use_after_free    a fill queued after the free, on the block's own stream. Nothing races: only
 *                     the block's owner tells. Right: the fill comes first
 *   destroyed_stream  record_use of a stream after cuStreamDestroy: the library refuses it, and the
 *                     device counts a violation. Right: record_use, then destroy
 *   stream_untold     cuStreamDestroy without tnr_stream_destroying, while work is queued. The next
 *                     stream gets the handle, and with it the memory of the one before, unordered:
 *                     the library cannot tell them apart. Right: tnr_stream_destroying first
 *
 * Where a race is expected, the memory must really be handed out again, in both versions: a block
 * that nobody gets cannot race.
 */
#include "lifetime/xfail/judge.h"

#define BYTES (4 * MIB)

/* The roles of the streams. */
#define OWN (life_streams[0])       /* the block's */
#define READER (life_streams[1])    /* does the last use */
#define BYSTANDER (life_streams[2]) /* does nothing with the block */

/* ---- cases ---------------------------------------------------------------------------------- */

/* A block with data, which the reader's stream may read. */
static void *block_filled(void)
{
    void *block = unit_malloc(BYTES, OWN);
    CUevent filled = life_event();
    simcuda_origin("first fill");
    life_fill(block, BYTES, 1, OWN);
    life_record(filled, OWN);
    life_wait(READER, filled);
    return block;
}

/* The next user of the memory, which must be the same memory. */
static void block_refill(const void *block)
{
    void *next = unit_malloc(BYTES, OWN);
    assert_ptr_equal(next, block);
    simcuda_origin("next fill");
    life_fill(next, BYTES, 2, OWN);
}

static void record_early(int right)
{
    void *block = block_filled();
    simcuda_origin("first read");
    (void)life_read(block, BYTES / 2, READER);
    if (!right)
        assert_ok(tnr_record_use(block, READER));
    simcuda_origin("last read");
    (void)life_read(block, BYTES, READER);
    if (right)
        assert_ok(tnr_record_use(block, READER));
    assert_ok(tnr_free(block));
    block_refill(block);
}

static void record_missing(int right)
{
    void *block = block_filled();
    simcuda_origin("last read");
    (void)life_read(block, BYTES, READER);
    if (right)
        assert_ok(tnr_record_use(block, READER));
    assert_ok(tnr_free(block));
    block_refill(block);
}

static void wrong_stream(int right)
{
    void *block = block_filled();
    simcuda_origin("last read");
    (void)life_read(block, BYTES, READER);
    assert_ok(tnr_free_on(block, right ? READER : BYSTANDER));
    block_refill(block);
}

static void use_after_free(int right)
{
    void *block = unit_malloc(BYTES, OWN);
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)block;
    assert_int_equal(simcuda_owner_begin(address, BYTES, "the block"), 0);
    if (right) {
        simcuda_origin("late fill");
        life_fill(block, BYTES, 1, OWN);
    }
    simcuda_origin("the free");
    /* Before the free: as soon as that returns, another thread may own the memory. */
    assert_int_equal(simcuda_owner_end(address), 0);
    assert_ok(tnr_free(block));
    if (!right) {
        simcuda_origin("late fill");
        life_fill(block, BYTES, 1, OWN);
    }
}

static void destroyed_stream(int right)
{
    void *block = unit_malloc(BYTES, OWN);
    tnr_stream stream = life_stream(CU_STREAM_NON_BLOCKING);
    life_fill(block, BYTES, 1, stream);
    if (right)
        assert_ok(tnr_record_use(block, stream));
    assert_ok(tnr_stream_destroying(0, stream));
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
    if (!right) {
        assert_error(tnr_record_use(block, stream), TNR_ERR_INVALID_STREAM, "destroyed");
        /* The refused call recorded nothing: only the host can wait for the fill now. */
        assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    }
    assert_ok(tnr_free(block));
    block_refill(block);
}

static void stream_untold(int right)
{
    tnr_stream old = life_stream(CU_STREAM_NON_BLOCKING);
    void *block = unit_malloc(BYTES, old);
    simcuda_origin("last fill");
    life_fill(block, BYTES, 1, old);
    assert_ok(tnr_free(block));
    if (right)
        assert_ok(tnr_stream_destroying(0, old));
    assert_int_equal(cuStreamDestroy(old), CUDA_SUCCESS);
    tnr_stream fresh = life_stream(CU_STREAM_NON_BLOCKING);
    assert_ptr_equal(fresh, old);
    void *next = unit_malloc(BYTES, fresh);
    assert_ptr_equal(next, block);
    simcuda_origin("next fill");
    life_fill(next, BYTES, 2, fresh);
}

static const struct xfail_case cases[] = {
    {"record_early", record_early, SIMCUDA_RACE, {"race: ", "'last read'", "'next fill'"}},
    {"record_missing", record_missing, SIMCUDA_RACE, {"race: ", "'last read'", "'next fill'"}},
    {"wrong_stream", wrong_stream, SIMCUDA_RACE, {"race: ", "'last read'", "'next fill'"}},
    {"use_after_free",
     use_after_free,
     SIMCUDA_USE_AFTER_FREE,
     {"use after free: ", "'late fill'", "'the free'"}},
    {"destroyed_stream", destroyed_stream, XFAIL_NO_REPORT, {"use of a destroyed stream", "", ""}},
    {"stream_untold", stream_untold, SIMCUDA_RACE, {"race: ", "'last fill'", "'next fill'"}},
};

/* The memory comes back at once, behind a wait for the uses that are known. */
int main(int argc, char **argv)
{
    const struct xfail_suite suite = {.cases = cases,
                                      .count = sizeof(cases) / sizeof(cases[0]),
                                      .conf = "reuse:wait,reuse_mark_percent:0"};
    return xfail_main(argc, argv, &suite);
}
