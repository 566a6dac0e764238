/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The race detector: small programs, each right or wrong in one way, under every schedule and
 * several seeds. What is reported must not depend on the schedule.
 */
#include "race_program.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- running a program under every schedule ------------------------------------------------- */

typedef void (*program_run)(struct program *program);

/* Under each schedule: the program must give this many reports of the kind, and no others. */
static void expect_reports(program_run run, simcuda_report_kind kind, uint64_t reports)
{
    static const char *const schedules[] = {"SCHEDULE=lazy", "SCHEDULE=eager", "SCHEDULE=random",
                                            "SCHEDULE=threads"};
    for (size_t i = 0; i < (reports == 0 || MAY_RACE ? 4 : 3); i++) {
        for (unsigned seed = 0; seed < (i == 2 ? 20u : i == 3 ? 4u : 1u); seed++) {
            char text[32];
            struct program program;
            (void)snprintf(text, sizeof(text), "SEED=%u", seed);
            fixture_start(schedules[i], text, "RACES=1", "RESERVE=64G", NULL);
            simcuda_races_callback(quiet, NULL);
            program_start(&program);
            run(&program);
            assert_ok(cuCtxSynchronize());
            if (simcuda_races() != reports || simcuda_races_of(kind) != reports)
                print_message("%s %s: %llu reports, %llu of the kind, last: %s\n", schedules[i],
                              text, (unsigned long long)simcuda_races(),
                              (unsigned long long)simcuda_races_of(kind), simcuda_race_last());
            assert_int_equal(simcuda_races(), reports);
            assert_int_equal(simcuda_races_of(kind), reports);
        }
    }
}

static void expect_none(program_run run)
{
    expect_reports(run, SIMCUDA_RACE, 0);
}

static void expect_race(program_run run)
{
    expect_reports(run, SIMCUDA_RACE, 1);
}

/* ---- order ---------------------------------------------------------------------------------- */

static void same_stream(struct program *p)
{
    write_on(p->a, p->at, "");
    read_on(p->a, p->at, "");
    write_on(p->a, p->at, "");
}

static void event_wait(struct program *p)
{
    write_on(p->a, p->at, "");
    assert_ok(cuEventRecord(p->event, p->a));
    assert_ok(cuStreamWaitEvent(p->b, p->event, 0));
    read_on(p->b, p->at, "");
    write_on(p->b, p->at, "");
}

static void recorded_too_early(struct program *p)
{
    assert_ok(cuEventRecord(p->event, p->a));
    write_on(p->a, p->at, "");
    assert_ok(cuStreamWaitEvent(p->b, p->event, 0));
    write_on(p->b, p->at, "");
}

static void waited_too_late(struct program *p)
{
    write_on(p->a, p->at, "");
    assert_ok(cuEventRecord(p->event, p->a));
    write_on(p->b, p->at, "");
    assert_ok(cuStreamWaitEvent(p->b, p->event, 0));
}

/* The wait is for the record at the call, not for the one that follows. */
static void recorded_again(struct program *p)
{
    assert_ok(cuEventRecord(p->event, p->a));
    assert_ok(cuStreamWaitEvent(p->b, p->event, 0));
    write_on(p->a, p->at, "");
    assert_ok(cuEventRecord(p->event, p->a));
    write_on(p->b, p->at, "");
}

static void through_a_third(struct program *p)
{
    write_on(p->a, p->at, "");
    assert_ok(cuEventRecord(p->event, p->a));
    assert_ok(cuStreamWaitEvent(p->b, p->event, 0));
    assert_ok(cuEventRecord(p->event, p->b));
    assert_ok(cuStreamWaitEvent(p->c, p->event, 0));
    write_on(p->c, p->at, "");
}

/* b learns of a only after it was recorded, so c, which waits for the record, does not. */
static void through_a_third_too_late(struct program *p)
{
    CUevent other = event_new();
    write_on(p->a, p->at, "");
    assert_ok(cuEventRecord(p->event, p->a));
    assert_ok(cuEventRecord(other, p->b));
    assert_ok(cuStreamWaitEvent(p->b, p->event, 0));
    assert_ok(cuStreamWaitEvent(p->c, other, 0));
    write_on(p->c, p->at, "");
}

static void reads_together(struct program *p)
{
    write_on(p->a, p->at, "");
    assert_ok(cuEventRecord(p->event, p->a));
    assert_ok(cuStreamWaitEvent(p->b, p->event, 0));
    assert_ok(cuStreamWaitEvent(p->c, p->event, 0));
    read_on(p->a, p->at, "");
    read_on(p->b, p->at, "");
    read_on(p->c, p->at, "");
}

/* The writer waits for one of two readers. */
static void one_reader_forgotten(struct program *p)
{
    reads_together(p);
    assert_ok(cuEventRecord(p->event, p->b));
    assert_ok(cuStreamWaitEvent(p->a, p->event, 0));
    write_on(p->a, p->at, "");
}

static void neighbours(struct program *p)
{
    write_on(p->a, p->at, "");
    write_on(p->b, p->at + BYTES, "");
    write_on(p->c, p->at + 2 * BYTES, "");
}

static void overlap_by_a_byte(struct program *p)
{
    write_on(p->a, p->at, "");
    write_on(p->b, p->at + BYTES - 1, "");
}

static void test_order(void **state)
{
    (void)state;
    expect_none(same_stream);
    expect_none(event_wait);
    expect_none(through_a_third);
    expect_none(reads_together);
    expect_none(neighbours);
}

static void test_no_order(void **state)
{
    (void)state;
    expect_race(no_wait);
    expect_race(recorded_too_early);
    expect_race(waited_too_late);
    expect_race(recorded_again);
    expect_race(through_a_third_too_late);
    expect_race(one_reader_forgotten);
    expect_race(overlap_by_a_byte);
}

/* ---- the host ------------------------------------------------------------------------------- */

static void stream_synchronized(struct program *p)
{
    write_on(p->a, p->at, "");
    assert_ok(cuStreamSynchronize(p->a));
    write_on(p->b, p->at, "");
}

static void event_synchronized(struct program *p)
{
    write_on(p->a, p->at, "");
    assert_ok(cuEventRecord(p->event, p->a));
    assert_ok(cuEventSynchronize(p->event));
    write_on(p->b, p->at, "");
}

static void event_polled(struct program *p)
{
    write_on(p->a, p->at, "");
    assert_ok(cuEventRecord(p->event, p->a));
    while (cuEventQuery(p->event) == CUDA_ERROR_NOT_READY) {}
    write_on(p->b, p->at, "");
}

static void stream_polled(struct program *p)
{
    write_on(p->a, p->at, "");
    while (cuStreamQuery(p->a) == CUDA_ERROR_NOT_READY) {}
    write_on(p->b, p->at, "");
}

static void context_synchronized(struct program *p)
{
    write_on(p->a, p->at, "");
    assert_ok(cuCtxSynchronize());
    write_on(p->b, p->at, "");
}

static void freed_waits_for_all(struct program *p)
{
    CUdeviceptr block = 0;
    assert_ok(cuMemAlloc(&block, 64));
    write_on(p->a, p->at, "");
    assert_ok(cuMemFree(block));
    write_on(p->b, p->at, "");
}

static void pageable_copy(struct program *p)
{
    unsigned char byte = 0;
    write_on(p->a, p->at, "");
    assert_ok(cuMemcpyDtoHAsync(&byte, p->at, 1, p->a)); /* the host waits */
    write_on(p->b, p->at, "");
}

/* The event is done, but it was recorded before the write. */
static void host_waited_for_too_little(struct program *p)
{
    assert_ok(cuEventRecord(p->event, p->a));
    write_on(p->a, p->at, "");
    assert_ok(cuEventSynchronize(p->event));
    write_on(p->b, p->at, "");
}

static void host_waited_for_another(struct program *p)
{
    write_on(p->a, p->at, "");
    write_on(p->c, p->at + BYTES, "");
    assert_ok(cuStreamSynchronize(p->c));
    write_on(p->b, p->at, "");
}

/* What was queued before the host waited has no part in it. */
static void queued_before_the_host_waited(struct program *p)
{
    volatile uint32_t *gate = gate_new();
    gate_close(p->b, gate);
    write_on(p->b, p->at, "");
    write_on(p->a, p->at, "");
    assert_ok(cuStreamSynchronize(p->a));
    gate_open(gate);
}

static void CUDA_CB nothing(void *data)
{
    (void)data;
}

static void host_function(struct program *p)
{
    write_on(p->a, p->at, "");
    assert_ok(cuLaunchHostFunc(p->a, nothing, NULL));
    assert_ok(cuEventRecord(p->event, p->a));
    assert_ok(cuStreamWaitEvent(p->b, p->event, 0));
    write_on(p->b, p->at, "");
}

static void test_host(void **state)
{
    (void)state;
    expect_none(stream_synchronized);
    expect_none(event_synchronized);
    expect_none(event_polled);
    expect_none(stream_polled);
    expect_none(context_synchronized);
    expect_none(freed_waits_for_all);
    expect_none(pageable_copy);
    expect_none(host_function);
    expect_race(host_waited_for_too_little);
    expect_race(host_waited_for_another);
}

/* ---- default streams ------------------------------------------------------------------------ */

static void legacy_after_blocking(struct program *p)
{
    CUstream blocking = stream_new(CU_STREAM_DEFAULT);
    CUstream other = stream_new(CU_STREAM_DEFAULT);
    write_on(blocking, p->at, "");
    write_on(NULL, p->at, "");
    write_on(other, p->at, "");
    write_on(CU_STREAM_PER_THREAD, p->at, ""); /* not after other: see below */
}

static void legacy_between(struct program *p)
{
    CUstream blocking = stream_new(CU_STREAM_DEFAULT);
    write_on(blocking, p->at, "");
    write_on(NULL, p->at, "");
    write_on(CU_STREAM_PER_THREAD, p->at, "");
    write_on(NULL, p->at, "");
    write_on(blocking, p->at, "");
}

/* Any operation of the legacy stream orders blocking streams, whatever it touches. */
static void legacy_touches_nothing(struct program *p)
{
    CUstream blocking = stream_new(CU_STREAM_DEFAULT);
    CUstream other = stream_new(CU_STREAM_DEFAULT);
    write_on(blocking, p->at, "");
    assert_ok(cuEventRecord(p->event, NULL));
    write_on(other, p->at, "");
}

static void legacy_and_destroyed(struct program *p)
{
    CUstream blocking = stream_new(CU_STREAM_DEFAULT);
    write_on(blocking, p->at, "");
    assert_ok(cuStreamDestroy(blocking));
    write_on(NULL, p->at, "");
}

static void legacy_and_separate(struct program *p)
{
    write_on(p->a, p->at, "");
    write_on(NULL, p->at, "");
}

static void blocking_alone(struct program *p)
{
    write_on(stream_new(CU_STREAM_DEFAULT), p->at, "");
    write_on(stream_new(CU_STREAM_DEFAULT), p->at, "");
}

static void test_default_streams(void **state)
{
    (void)state;
    expect_none(legacy_between);
    expect_none(legacy_touches_nothing);
    expect_none(legacy_and_destroyed);
    expect_race(legacy_after_blocking);
    expect_race(legacy_and_separate);
    expect_race(blocking_alone);
}

/* ---- value waits ---------------------------------------------------------------------------- */

static CUdeviceptr flag_new(void)
{
    return (uintptr_t)gate_new();
}

static void value_written(struct program *p)
{
    CUdeviceptr flag = flag_new();
    assert_ok(cuStreamWaitValue32(p->b, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
    write_on(p->b, p->at, "");
    write_on(p->a, p->at, "");
    assert_ok(cuStreamWriteValue32(p->a, flag, 1, 0));
}

static void value_written_first(struct program *p)
{
    CUdeviceptr flag = flag_new();
    write_on(p->a, p->at, "");
    assert_ok(cuStreamWriteValue32(p->a, flag, 1, 0));
    assert_ok(cuStreamWaitValue32(p->b, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    write_on(p->b, p->at, "");
}

static void value_set_by_memset(struct program *p)
{
    CUdeviceptr flag = flag_new();
    write_on(p->a, p->at, "");
    assert_ok(cuMemsetD32Async(flag, 1, 1, p->a));
    assert_ok(cuStreamWaitValue32(p->b, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    write_on(p->b, p->at, "");
}

static void value_written_too_early(struct program *p)
{
    CUdeviceptr flag = flag_new();
    assert_ok(cuStreamWriteValue32(p->a, flag, 1, 0));
    write_on(p->a, p->at, "");
    assert_ok(cuStreamWaitValue32(p->b, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
    write_on(p->b, p->at, "");
}

/* The host opens the gate after it has waited for the other stream. */
static void gate_opened_after_waiting(struct program *p)
{
    volatile uint32_t *gate = gate_new();
    gate_close(p->b, gate);
    write_on(p->b, p->at, "");
    write_on(p->a, p->at, "");
    assert_ok(cuStreamSynchronize(p->a));
    gate_open(gate);
}

/* ... and before: that it waits afterwards makes no difference. */
static void gate_opened_before_waiting(struct program *p)
{
    volatile uint32_t *gate = gate_new();
    gate_close(p->b, gate);
    write_on(p->b, p->at, "");
    write_on(p->a, p->at, "");
    gate_open(gate);
    assert_ok(cuStreamSynchronize(p->a));
}

static void test_values(void **state)
{
    (void)state;
    expect_none(value_written);
    expect_none(value_written_first);
    expect_none(value_set_by_memset);
    expect_none(gate_opened_after_waiting);
    expect_none(queued_before_the_host_waited);
    expect_race(value_written_too_early);
    expect_race(gate_opened_before_waiting);
}

/* ---- memory --------------------------------------------------------------------------------- */

static CUdeviceptr alias_of(CUdeviceptr at)
{
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr second = reserve(CHUNK);
    assert_ok(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)at));
    assert_ok(cuMemMap(second, CHUNK, 0, handle, 0));
    assert_ok(cuMemRelease(handle));
    chunk_access(second, CHUNK);
    return second;
}

static void alias_races(struct program *p)
{
    write_on(p->a, p->at + BYTES, "");
    write_on(p->b, alias_of(p->at) + BYTES, "");
}

/* The same through a handle that was exported and imported again. */
static void imported_races(struct program *p)
{
    CUmemGenericAllocationHandle handle = 0;
    CUmemGenericAllocationHandle imported = 0;
    CUdeviceptr second = reserve(CHUNK);
    int descriptor = -1;
    assert_ok(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)p->at));
    assert_ok(cuMemExportToShareableHandle(&descriptor, handle,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    assert_ok(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)descriptor,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    assert_int_equal(close(descriptor), 0);
    assert_ok(cuMemMap(second, CHUNK, 0, imported, 0));
    chunk_access(second, CHUNK);
    write_on(p->a, p->at + BYTES, "");
    write_on(p->b, second + BYTES, "");
}

static void alias_ordered(struct program *p)
{
    CUdeviceptr second = alias_of(p->at);
    write_on(p->a, p->at, "");
    assert_ok(cuEventRecord(p->event, p->a));
    assert_ok(cuStreamWaitEvent(p->b, p->event, 0));
    write_on(p->b, second, "");
    /* The old address goes once the work through it is done; the new one is in use. */
    assert_ok(cuEventSynchronize(p->event));
    chunk_unmapped(p->at, CHUNK);
}

/* One operation over two chunks, another over the second. */
static void across_chunks(struct program *p)
{
    CUdeviceptr at = reserve(2 * CHUNK);
    for (size_t i = 0; i < 2; i++) {
        CUmemGenericAllocationHandle handle = chunk_create(CHUNK);
        assert_ok(cuMemMap(at + i * CHUNK, CHUNK, 0, handle, 0));
        assert_ok(cuMemRelease(handle));
    }
    chunk_access(at, 2 * CHUNK);
    assert_ok(cuMemsetD8Async(at, 1, 2 * CHUNK, p->a));
    write_on(p->b, at + CHUNK + BYTES, "");
}

static void block_races(struct program *p)
{
    CUdeviceptr at = 0;
    assert_ok(cuMemAlloc(&at, CHUNK));
    write_on(p->a, at, "");
    write_on(p->b, at, "");
}

/* A free in one stream's order while another stream's use is not ordered before it. */
static void freed_on_the_wrong_stream(struct program *p)
{
    CUdeviceptr at = 0;
    assert_ok(cuMemAllocAsync(&at, CHUNK, p->a));
    assert_ok(cuEventRecord(p->event, p->a));
    assert_ok(cuStreamWaitEvent(p->b, p->event, 0));
    write_on(p->b, at, "");
    simcuda_run(UINT64_MAX); /* else the use itself may find the block gone */
    assert_ok(cuMemFreeAsync(at, p->a));
}

/* New memory has no past, though it may have the address of the old. */
static void memory_renewed(struct program *p)
{
    for (int i = 0; i < 3; i++) {
        CUdeviceptr at = chunk_mapped(CHUNK, NULL);
        write_on(p->a, at, "");
        assert_ok(cuStreamSynchronize(p->a));
        chunk_unmapped(at, CHUNK);
        write_on(p->b, p->at, "");
    }
}

static void test_memory(void **state)
{
    (void)state;
    expect_race(alias_races);
    expect_race(imported_races);
    expect_none(alias_ordered);
    expect_race(across_chunks);
    expect_race(block_races);
    expect_race(freed_on_the_wrong_stream);
    expect_none(memory_renewed);
}

/* A mapping that goes while the host does not know that its user has finished. */
static void test_unmapped_unfinished(void **state)
{
    (void)state;
    struct program p;
    fixture_start("SCHEDULE=eager", "RACES=1", NULL);
    program_start(&p);
    write_on(p.a, p.at, "last use"); /* has run: but who told the host? */
    assert_ok(cuMemUnmap(p.at, CHUNK));
    assert_int_equal(simcuda_violations(), 0);
    assert_int_equal(simcuda_races_of(SIMCUDA_UNFINISHED), 1);
    assert_non_null(strstr(simcuda_race_last(), "last use"));
    assert_non_null(strstr(simcuda_race_last(), "cuMemUnmap"));
}

/* ---- streams come and go -------------------------------------------------------------------- */

/* The stream with the recycled handle is another stream: it is not ordered after the old one. */
static void recycled_handle(struct program *p)
{
    CUstream old = stream_new(CU_STREAM_NON_BLOCKING);
    write_on(old, p->at, "");
    assert_ok(cuStreamDestroy(old));
    CUstream fresh = stream_new(CU_STREAM_NON_BLOCKING);
    assert_true(fresh == old);
    write_on(fresh, p->at, "");
}

static void recycled_handle_waited(struct program *p)
{
    for (int i = 0; i < 100; i++) {
        CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
        write_on(stream, p->at, "");
        assert_ok(cuStreamSynchronize(stream));
        assert_ok(cuStreamDestroy(stream));
    }
}

/* Destroyed with work queued; an event still speaks for it. */
static void destroyed_but_recorded(struct program *p)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    write_on(stream, p->at, "");
    assert_ok(cuEventRecord(p->event, stream));
    assert_ok(cuStreamDestroy(stream));
    assert_ok(cuStreamWaitEvent(p->b, p->event, 0));
    assert_ok(cuEventDestroy(p->event));
    write_on(p->b, p->at, "");
}

static void test_streams(void **state)
{
    (void)state;
    expect_race(recycled_handle);
    expect_none(recycled_handle_waited);
    expect_none(destroyed_but_recorded);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, fixture_stop)
    const struct CMUnitTest tests[] = {
        CASE(test_order),
        CASE(test_no_order),
        CASE(test_host),
        CASE(test_default_streams),
        CASE(test_values),
        CASE(test_memory),
        CASE(test_unmapped_unfinished),
        CASE(test_streams),
    };
    return cmocka_run_group_tests_name("races", tests, NULL, NULL);
}
