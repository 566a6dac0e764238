/* SPDX-License-Identifier: Apache-2.0 */
/* See host.h. */
#include "host.h"

#include <stdio.h>
#include <string.h>

void host_start(host_kind kind, const char *more, const char *first, const char *second)
{
    char conf[256];
    snprintf(conf, sizeof(conf), "host:%s,%s", kind == HOST_MAPPED ? "mapped" : "allocated",
             more == NULL ? "" : more);
    if (more == NULL)
        conf[strlen(conf) - 1] = '\0';
    unit_start(conf, "SCHEDULE=lazy", "RACES=1", first == NULL ? "DEVICES=1" : first, second, NULL);
}

void host_context_enter(int device)
{
    CUcontext context;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
}

void host_context_leave(int device)
{
    assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(device), CUDA_SUCCESS);
}

unsigned char *host_malloc(size_t bytes)
{
    void *ptr = NULL;
    assert_ok(tnr_host_malloc(&ptr, bytes));
    assert_non_null(ptr);
    return ptr;
}

static unsigned char byte_of(size_t i, unsigned seed)
{
    return (unsigned char)(i * 7 + (i >> 12) + seed);
}

void host_fill(unsigned char *ptr, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i += 509)
        ptr[i] = byte_of(i, seed);
    ptr[bytes - 1] = byte_of(bytes - 1, seed);
}

int host_matches(const unsigned char *ptr, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i += 509)
        if (ptr[i] != byte_of(i, seed))
            return 0;
    return ptr[bytes - 1] == byte_of(bytes - 1, seed);
}

tnr_stats host_stats(int device)
{
    tnr_stats stats = TNR_STATS_INIT;
    assert_ok(tnr_validate(-1));
    assert_ok(tnr_stats_get(&stats, NULL, TNR_HOST(device)));
    assert_int_equal(stats.bytes_live + stats.bytes_binned + stats.bytes_free +
                         stats.bytes_retired + stats.bytes_slack,
                     stats.reserved_bytes.current + stats.bytes_asleep + stats.bytes_parked_away);
    return stats;
}

uint64_t host_pending(void)
{
    simcuda_live live;
    assert_int_equal(simcuda_live_get(-1, &live), 0);
    return live.pending;
}
