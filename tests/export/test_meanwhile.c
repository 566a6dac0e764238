/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread lacks memory while another is about to give some back: what an importer held, what a
 * free in a host function could not mark, what a trim takes to the driver. The first waits for the
 * second, for the memory is there; it once said that the device was out of memory.
 *
 * Lines of the library changed to see it fail:
 *   tnri_exported_settle without `looking`, or counting an importer off before export_leave:
 *     what_an_importer_held
 *   tnri_holds_retry without `retrying`, or with the count set to 0 at once: what_waits_for_a_mark
 *   ladder_ascend without ladder_climb_alone: what_a_trim_has_in_hand, what_a_limit_counts
 */
#include "here.h"

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "memory/device/chunk.h"
#include "order/uses.h"

enum { MOST = 40 }; /* MiB, of the 64 that the device has */

/* A gate within the library, that the first thread through it finds closed. */
enum { OPEN, HOLD_END, RETIRE, RELEASE };
static struct {
    atomic_int closed, is_reached;
} gate;

static void gate_pass(int where)
{
    if (!atomic_compare_exchange_strong(&gate.closed, &where, OPEN))
        return;
    atomic_store(&gate.is_reached, 1);
    while (atomic_load(&gate.is_reached))
        (void)usleep(1000);
}

void __real_tnri_hold_end(tnri_uses *uses);
void __wrap_tnri_hold_end(tnri_uses *uses);
void __wrap_tnri_hold_end(tnri_uses *uses)
{
    gate_pass(HOLD_END);
    __real_tnri_hold_end(uses);
}

tnr_status __real_tnri_retire_freed(tnri_uses *uses);
tnr_status __wrap_tnri_retire_freed(tnri_uses *uses);
tnr_status __wrap_tnri_retire_freed(tnri_uses *uses)
{
    gate_pass(RETIRE);
    return __real_tnri_retire_freed(uses);
}

void __real_tnri_chunk_release(tnri_device *device, tnri_chunk *chunk);
void __wrap_tnri_chunk_release(tnri_device *device, tnri_chunk *chunk);
void __wrap_tnri_chunk_release(tnri_device *device, tnri_chunk *chunk)
{
    gate_pass(RELEASE);
    __real_tnri_chunk_release(device, chunk);
}

static void *gives_back(void *nothing)
{
    (void)nothing;
    return tnr_trim(NULL, 0, 0) == TNR_OK ? &gate : NULL;
}

static void *opens_later(void *nothing)
{
    (void)usleep(50000);
    atomic_store(&gate.is_reached, 0);
    return nothing;
}

/* Memory for which the device has room only once the other thread has given back what it has in
 * hand. */
static void is_had_meanwhile(int closed)
{
    pthread_t giver, opener;
    void *of, *ptr = NULL;
    atomic_store(&gate.closed, closed);
    assert_int_equal(pthread_create(&giver, NULL, gives_back, NULL), 0);
    while (!atomic_load(&gate.is_reached))
        (void)usleep(1000);
    assert_int_equal(pthread_create(&opener, NULL, opens_later, NULL), 0);
    tnr_status status = tnr_malloc(&ptr, MOST * MIB, 0, NULL);
    assert_int_equal(pthread_join(opener, NULL), 0);
    assert_int_equal(pthread_join(giver, &of), 0);
    assert_non_null(of);
    assert_ok(status);
    assert_ok(tnr_free(ptr));
}

static void what_an_importer_held(void **state)
{
    (void)state;
    start(NULL, "MEMORY=64M");
    void *block = unit_malloc(MOST * MIB, NULL);
    tnr_export exported = export_of(block);
    tnr_import_info info = pass_on(exported);
    assert_ok(tnr_free(block));
    assert_ok(tnr_export_close(exported));
    assert_ok(tnr_import_close(info.ptr));
    is_had_meanwhile(HOLD_END);
}

static void CUDA_CB frees(void *block)
{
    assert_ok(tnr_free(block));
}

static void what_waits_for_a_mark(void **state)
{
    (void)state;
    start(NULL, "MEMORY=64M");
    CUcontext context;
    CUstream own, other;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    void *block = unit_malloc(MOST * MIB, own);
    assert_ok(tnr_record_stream(block, other));
    assert_int_equal(cuLaunchHostFunc(own, frees, block), CUDA_SUCCESS);
    assert_int_equal(cuStreamSynchronize(own), CUDA_SUCCESS);
    assert_int_equal(unit_stats().blocks_retired, 1);
    is_had_meanwhile(RETIRE);
    assert_ok(tnr_stream_destroying(0, own));
    assert_ok(tnr_stream_destroying(0, other));
    assert_int_equal(cuStreamDestroy(own), CUDA_SUCCESS);
    assert_int_equal(cuStreamDestroy(other), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

static void what_a_trim_has_in_hand(void **state)
{
    (void)state;
    start(NULL, "MEMORY=64M");
    assert_ok(tnr_free(unit_malloc(MOST * MIB, NULL)));
    is_had_meanwhile(RELEASE);
}

static void what_a_limit_counts(void **state)
{
    (void)state;
    start(NULL, "MEMORY=256M");
    assert_ok(tnr_limit_set(64 * MIB, 0));
    assert_ok(tnr_free(unit_malloc(MOST * MIB, NULL)));
    is_had_meanwhile(RELEASE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_an_importer_held, stop),
        cmocka_unit_test_teardown(what_waits_for_a_mark, stop),
        cmocka_unit_test_teardown(what_a_trim_has_in_hand, stop),
        cmocka_unit_test_teardown(what_a_limit_counts, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
