/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantee 3 for lifetimes: any driver call, and any allocation of host memory, may fail inside
 * recording, freeing, announcing, ending streams and collecting; fault.h says what is checked. A
 * free that fails leaves its block live; it is freed once faults are off.
 *
 * Seen to fail with these lines changed in the library:
 *   what the host waited for   announce.c: the call of tnri_stream_completed in
 *                              tnr_stream_synchronized, and that of tnri_device_completed
 *   single pages               order/range.c: pages_undo, the call
 *   streams that end           pool_end.c, pool_give_back: TNR_ERR_HOST_MEMORY in place of the
 *                              status of what could not be collected
 */
#include "fault/fault.h"

#include <string.h>

#include <tenure/lifetime.h>
#include <tenure/range.h>

enum { USED = 0, STREAMED, KEPT, SYNCED, ON, BLOCKS };

/* Blocks with work of other streams queued on them. */
static void prepare(fault_run *run)
{
    for (int i = 0; i < BLOCKS; i++) {
        (void)step_malloc(run, i, 4 * MIB, 0, -1, 0);
        prepare_fill(run, i);
    }
    assert_int_equal(cuEventCreate(&run->event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    for (int s = 1; s < FAULT_STREAMS; s++)
        assert_int_equal(cuMemsetD8Async((CUdeviceptr)(uintptr_t)run->slots[USED].ptr + MIB, 1, 64,
                                         run->streams[s]),
                         CUDA_SUCCESS);
    assert_int_equal(cuEventRecord(run->event, run->streams[1]), CUDA_SUCCESS);
}

/* A free that may fail; then the block is live as before. */
static void step_release(fault_run *run, int slot, tnr_status (*call)(void *))
{
    if (run->slots[slot].ptr == NULL)
        return;
    tnr_status status = call(run->slots[slot].ptr);
    if (status == TNR_OK)
        run->slots[slot].ptr = NULL;
    (void)step_status(run, status, "a free");
}

/* Returns 1 if the use is recorded. */
static int step_use(fault_run *run, int slot, int stream)
{
    return step_status(run, tnr_record_use(run->slots[slot].ptr, run->streams[stream]),
                       "tnr_record_use") == TNR_OK;
}

/* Records in every way, frees in every way, and asks for more than is free. */
static void uses_body(fault_run *run)
{
    int recorded = step_use(run, USED, 1) + step_use(run, USED, 2);
    for (int s = 1; s < FAULT_STREAMS; s++)
        (void)step_status(run, tnr_record_stream(run->slots[STREAMED].ptr, run->streams[s]),
                          "record_stream");
    (void)step_status(run, tnr_event_recorded(run->event, 0, run->streams[1], tnr_moment_now()),
                      "event_recorded");
    (void)step_status(run, tnr_stream_waited(run->event, 0, run->streams[2], tnr_moment_now()),
                      "stream_waited");
    tnr_status kept = tnr_keep_until(run->slots[KEPT].ptr, run->event);
    (void)step_status(run, kept, "keep_until");
    if (recorded == 2) /* the work that `prepare` has queued on the block is recorded */
        step_release(run, USED, tnr_free);
    step_release(run, STREAMED, tnr_free);
    step_release(run, KEPT, tnr_free);
    step_release(run, SYNCED, tnr_free_sync);
    if (run->slots[ON].ptr != NULL) {
        tnr_status status = tnr_free_on(run->slots[ON].ptr, run->streams[2]);
        if (status == TNR_OK)
            run->slots[ON].ptr = NULL;
        (void)step_status(run, status, "free_on");
    }
    (void)step_malloc(run, BLOCKS, 6 * MIB, 0, -1, 0);
    (void)step_malloc(run, BLOCKS + 1, 12 * MIB, 0, -1, 1);
    step_free(run, BLOCKS);
    (void)step_trim(run, 0);
}

/* The same with streams that end. */
static void streams_body(fault_run *run)
{
    (void)step_status(run, tnr_stream_created(0, run->streams[1]), "stream_created");
    (void)step_status(run, tnr_record_stream(run->slots[STREAMED].ptr, run->streams[1]),
                      "record_stream");
    int recorded = step_use(run, USED, 1) + step_use(run, USED, 2);
    step_release(run, SYNCED, tnr_free_sync);
    (void)step_status(run, tnr_stream_destroying(0, run->streams[1]), "stream_destroying");
    if (recorded == 2)
        step_release(run, USED, tnr_free);
    step_release(run, STREAMED, tnr_free);
    (void)step_malloc(run, BLOCKS, 6 * MIB, 0, -1, 2);
    step_release(run, KEPT, tnr_free);
    step_release(run, ON, tnr_free_sync);
    int live = 0;
    for (int i = 0; i < BLOCKS; i++)
        live += run->slots[i].ptr != NULL;
    if (live == 0) /* what is live would have another stream once its arena is adopted */
        (void)step_status(run, tnr_stream_destroying(0, run->streams[0]), "stream_destroying");
    (void)step_malloc(run, BLOCKS + 1, 6 * MIB, 0, -1, 2);
    simcuda_run(UINT64_MAX); /* work whose use could not be recorded */
    (void)step_shutdown(run, 1);
}

/* Frees the block, whose uses are all recorded, after the host has waited. `status` says whether
 * that could be announced; if it could, the memory is there again, and the driver is not asked. */
static void step_free_waited(fault_run *run, int slot, tnr_status status, const char *what)
{
    uint64_t queries = simcuda_calls("cuEventQuery");
    uint64_t waits = simcuda_calls("cuEventSynchronize");
    if (step_status(run, status, what) != TNR_OK || run->slots[slot].ptr == NULL)
        return;
    step_free(run, slot);
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    assert_int_equal(tnr_stats_get(&stats, NULL, 0), TNR_OK);
    assert_int_equal(stats.blocks_retired, 0);
    assert_int_equal(simcuda_calls("cuEventQuery"), queries);
    assert_int_equal(simcuda_calls("cuEventSynchronize"), waits);
}

/* What the program says that the host has waited for, of streams that Tenure knows and of one that
 * it must ask the driver about. The simulation runs out instead of waiting: a call of the test's
 * own must not fail. */
static void synchronized_body(fault_run *run)
{
    tnr_moment began = tnr_moment_now();
    (void)step_status(run, tnr_stream_synchronized(0, run->streams[2], began),
                      "stream_synchronized of an unknown stream");
    int used = step_use(run, USED, 1);
    int kept = step_use(run, KEPT, 1) + step_use(run, KEPT, 2);
    (void)step_status(run, tnr_event_recorded(run->event, 0, run->streams[1], tnr_moment_now()),
                      "event_recorded");
    began = tnr_moment_now();
    simcuda_run(UINT64_MAX);
    if (used)
        step_free_waited(run, USED, tnr_stream_synchronized(0, run->streams[1], began),
                         "stream_synchronized");
    if (kept == 2)
        step_free_waited(run, KEPT, tnr_device_synchronized(0, began), "device_synchronized");
    if (step_use(run, ON, 1)) {
        tnr_status status = tnr_event_recorded(run->event, 0, run->streams[1], tnr_moment_now());
        simcuda_run(UINT64_MAX); /* so the event would have completed, had it been recorded */
        tnr_event_synchronized(run->event, tnr_moment_now());
        tnr_event_destroyed(run->event);
        step_free_waited(run, ON, status, "event_recorded");
    }
    (void)step_malloc(run, BLOCKS, 6 * MIB, 0, -1, 0);
    (void)step_trim(run, 0);
}

/* The same as the first calls of all, which start the library. */
static void first_body(fault_run *run)
{
    (void)step_status(run, tnr_device_synchronized(0, tnr_moment_now()), "device_synchronized");
    (void)step_status(run, tnr_stream_synchronized(0, run->streams[0], tnr_moment_now()),
                      "stream_synchronized");
}

/* ---- single pages --------------------------------------------------------------------------- */

enum { PAGED = 0, GIVEN, PAGED_PAGES = 12 };

static int has[PAGED_PAGES]; /* pages that have memory */

/* The range has holes, which nobody can fill. */
static void pages_settle(fault_run *run)
{
    step_release(run, PAGED, tnr_free);
}

/* Work of another stream is queued on the pages, and idle memory lies beside. */
static void pages_prepare(fault_run *run)
{
    memset(has, 0, sizeof(has));
    run->settle = pages_settle;
    (void)step_reserve(run, PAGED, (size_t)PAGED_PAGES * 2 * MIB, 0);
    assert_int_equal(tnr_commit_range(run->slots[PAGED].ptr, 0, 8 * MIB), TNR_OK);
    for (int page = 0; page < 4; page++)
        has[page] = 1;
    run->slots[PAGED].bytes = 8 * MIB;
    run->slots[PAGED].pages = 4;
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)(uintptr_t)run->slots[PAGED].ptr + 2 * MIB, 1,
                                     4 * MIB, run->streams[1]),
                     CUDA_SUCCESS);
    assert_int_equal(tnr_record_use(run->slots[PAGED].ptr, run->streams[1]), TNR_OK);
    assert_int_equal(tnr_record_stream(run->slots[PAGED].ptr, run->streams[2]), TNR_OK);
    (void)step_malloc(run, GIVEN, 6 * MIB, 0, -1, 2);
    prepare_fill(run, GIVEN);
    step_free(run, GIVEN);
}

/* A call that fails has changed nothing. */
static void step_pages(fault_run *run, int out, size_t first, size_t pages)
{
    unsigned char *ptr = run->slots[PAGED].ptr;
    size_t bytes = 0;
    tnr_status status = out ? tnr_decommit_range(ptr, first * 2 * MIB, pages * 2 * MIB)
                            : tnr_commit_range(ptr, first * 2 * MIB, pages * 2 * MIB);
    for (size_t page = first; status == TNR_OK && page < first + pages; page++)
        has[page] = !out;
    for (int page = 0; page < PAGED_PAGES; page++)
        bytes += has[page] ? 2 * MIB : 0;
    run->slots[PAGED].bytes = bytes;
    run->slots[PAGED].pages = bytes / (2 * MIB);
    (void)step_status(run, status, out ? "tnr_decommit_range" : "tnr_commit_range");
}

static void pages_body(fault_run *run)
{
    step_pages(run, 1, 1, 2);
    step_pages(run, 0, 5, 3);
    step_pages(run, 0, 1, 4);
    step_pages(run, 1, 0, 12);
    step_pages(run, 0, 6, 2);
    (void)step_trim(run, 0);
    step_pages(run, 0, 0, 12);
    simcuda_run(UINT64_MAX);
    step_pages(run, 1, 3, 6);
    step_pages(run, 1, 0, 1);
    (void)step_malloc(run, GIVEN, 8 * MIB, 0, -1, 2);
    step_release(run, PAGED, tnr_free);
}

static const fault_scenario scenarios[] = {
    {"uses, waiting on the device", "reuse:wait,reuse_mark_percent:0", "40M", prepare, uses_body},
    {"uses, waiting on the host", "reuse:poll,cross_stream:off", "40M", prepare, uses_body},
    {"streams that end", "reuse:follow", "40M", prepare, streams_body},
    {"what the host waited for", "reuse:poll", "40M", prepare, synchronized_body},
    {"the first thing said", NULL, "40M", NULL, first_body},
    {"single pages", "chunk_max_mb:2", "40M", pages_prepare, pages_body},
};

/* Arguments: see fault_main. */
int main(int argc, char **argv)
{
    return fault_main(scenarios, sizeof(scenarios) / sizeof(scenarios[0]), argc, argv);
}
