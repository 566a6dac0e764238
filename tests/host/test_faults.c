/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantee 3 for host memory: any driver call, and any allocation of host memory for metadata, may
 * fail inside its first use, an allocation, a free, a trim and its end. What is held keeps its
 * bytes, and nothing is left.
 */
#include "fault/fault.h"

#include <stdio.h>
#include <string.h>

#include <tenure/host.h>
#include <tenure/lifetime.h>

enum { HELD = 8 };

static struct {
    unsigned char *ptr;
    size_t bytes;
} held[HELD];

static void host_step_malloc(fault_run *run, int slot, size_t bytes)
{
    void *ptr = run;
    tnr_status status = tnr_host_malloc(&ptr, bytes);
    assert_true((status == TNR_OK) == (ptr != NULL));
    held[slot].ptr = ptr;
    held[slot].bytes = bytes;
    if (ptr != NULL)
        memset(ptr, slot + 1, bytes);
    (void)step_status(run, status, "tnr_host_malloc");
}

static void host_step_free(fault_run *run, int slot, int stream)
{
    if (held[slot].ptr == NULL)
        return;
    tnr_status status = stream < 0 ? tnr_host_free(held[slot].ptr)
                                   : tnr_free_on(held[slot].ptr, run->streams[stream]);
    if (status == TNR_OK)
        held[slot].ptr = NULL;
    (void)step_status(run, status, "a free");
}

static void host_step_trim(fault_run *run)
{
    (void)step_status(run, tnr_trim(NULL, 0, TNR_HOST(0)), "tnr_trim of host memory");
}

static void held_check(void)
{
    for (int i = 0; i < HELD; i++)
        for (size_t at = 0; held[i].ptr != NULL && at < held[i].bytes; at += 4093)
            assert_int_equal(held[i].ptr[at], i + 1);
}

/* Faults are off: what is held is whole, and goes back. */
static void settle(fault_run *run)
{
    held_check();
    tnr_block_info info;
    for (int i = 0; i < HELD; i++) /* a shutdown may have come about, or not */
        if (held[i].ptr != NULL &&
            (!run->pools_ended || tnr_block_get(&info, held[i].ptr) == TNR_OK))
            assert_int_equal(tnr_host_free(held[i].ptr), TNR_OK);
    memset(held, 0, sizeof(held));
    void *ptr = NULL;
    if (tnr_host_malloc(&ptr, 5 * MIB) != TNR_OK) {
        fprintf(stderr, "host memory does not serve afterwards: %s\n", tnr_last_error());
        fail();
    }
    memset(ptr, 0, 5 * MIB);
    assert_int_equal(tnr_host_free(ptr), TNR_OK);
    assert_int_equal(tnr_trim(NULL, 0, TNR_HOST(0)), TNR_OK);
    tnr_stats stats = TNR_STATS_INIT;
    assert_int_equal(tnr_stats_get(&stats, NULL, TNR_HOST(0)), TNR_OK);
    assert_int_equal(stats.reserved_bytes.current, 0);
    assert_int_equal(tnr_validate(-1), TNR_OK);
}

/* The GPU is in use, its host memory is not. */
static void first_prepare(fault_run *run)
{
    memset(held, 0, sizeof(held));
    run->settle = settle;
    step_malloc(run, 0, 1 * MIB, 0, -1, 0);
}

static void first_body(fault_run *run)
{
    host_step_malloc(run, 0, 3 * MIB);
    host_step_malloc(run, 1, 1000);
    host_step_free(run, 0, -1);
    host_step_malloc(run, 2, 6 * MIB); /* moves, or grows */
    held_check();
    host_step_trim(run);
}

/* Copies out of buffers are under way. */
static void copies_prepare(fault_run *run)
{
    first_prepare(run);
    step_malloc(run, 1, 4 * MIB, 0, -1, 1);
    for (int i = 0; i < 4; i++) {
        host_step_malloc(run, i, (size_t)(i + 1) * MIB);
        assert_int_equal(cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)run->slots[1].ptr, held[i].ptr,
                                           held[i].bytes, run->streams[i % 2 + 1]),
                         CUDA_SUCCESS);
    }
    assert_int_equal(tnr_record_use(held[0].ptr, run->streams[1]), TNR_OK);
    assert_int_equal(tnr_record_stream(held[1].ptr, run->streams[2]), TNR_OK);
}

static void copies_body(fault_run *run)
{
    host_step_free(run, 1, -1);
    host_step_free(run, 0, 2);
    host_step_free(run, 2, 1);
    host_step_malloc(run, 4, 3 * MIB);
    host_step_free(run, 3, 2);
    host_step_trim(run); /* waits */
    host_step_malloc(run, 5, 9 * MIB);
    held_check();
}

/* Its end, alone, and with all. */
static void ends_body(fault_run *run)
{
    for (int i = 0; i < 4; i++)
        host_step_free(run, i, 1);
    (void)step_status(run, tnr_device_end(TNR_HOST(0), 0), "tnr_device_end of host memory");
    host_step_malloc(run, 4, 3 * MIB);
    host_step_free(run, 4, -1);
    step_free(run, 0);
    step_free(run, 1);
    step_shutdown(run, 0);
}

static const fault_scenario scenarios[] = {
    {"first use, mapped", "host:auto", "64M", first_prepare, first_body},
    {"first use, slabs", "host:allocated", "64M", first_prepare, first_body},
    {"copies, mapped", "host:mapped", "64M", copies_prepare, copies_body},
    {"copies, slabs", "host:allocated", "64M", copies_prepare, copies_body},
    {"ends, mapped", "host:auto", "64M", copies_prepare, ends_body},
    {"ends, slabs", "host:allocated", "64M", copies_prepare, ends_body},
};

/* Arguments: see fault_main. */
int main(int argc, char **argv)
{
    return fault_main(scenarios, sizeof(scenarios) / sizeof(scenarios[0]), argc, argv);
}
