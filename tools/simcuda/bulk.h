/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Setting and copying much memory at once.
 *
 * Memcheck follows each byte, and some tests spend most of their time on that. It learns nothing
 * from it: a device does not know which bytes of the host were never written. So in a build for
 * memcheck large pieces are set and copied on the real processor, unseen. Whether the memory is
 * there has been checked before (check.c).
 */
#ifndef SIM_BULK_H
#define SIM_BULK_H

#include <string.h>

#include "sim.h"

/* The first element is copied, and then what is there again and again, in pieces that stay in a
 * cache: a loop over elements was two fifths of some tests, which are compiled without -O. */
static inline void sim_elements_set(void *to, uint32_t pattern, unsigned width, size_t count)
{
    enum { PIECE_MAX = 16 << 10 };
    size_t bytes = count * width;
    if (width == 1) {
        memset(to, (int)pattern, count);
        return;
    }
    memcpy(to, &pattern, bytes < width ? 0 : width); /* of a little-endian number */
    for (size_t done = width; done < bytes;) {
        size_t piece = done < PIECE_MAX ? done : PIECE_MAX / width * width;
        if (piece > bytes - done)
            piece = bytes - done;
        memcpy((unsigned char *)to + done, to, piece);
        done += piece;
    }
}

#ifdef SIM_MEMCHECK
#include <valgrind/memcheck.h>

enum { SIM_BULK_BYTES_MIN = 1024 };

typedef struct sim_bulk {
    void *to;
    const void *from; /* null: set */
    size_t bytes;     /* copied */
    uint32_t pattern;
    unsigned width;
    size_t count; /* of elements set */
} sim_bulk;

/* Runs on the real processor. The first argument is memcheck's. */
static inline long sim_bulk_run(long thread, const sim_bulk *bulk)
{
    (void)thread;
    if (bulk->from != NULL)
        memmove(bulk->to, bulk->from, bulk->bytes);
    else
        sim_elements_set(bulk->to, bulk->pattern, bulk->width, bulk->count);
    return 0;
}

/* 1 if it was done unseen. */
static inline int sim_bulk_unseen(const sim_bulk *bulk)
{
    size_t bytes = bulk->from != NULL ? bulk->bytes : bulk->count * bulk->width;
    if (!RUNNING_ON_VALGRIND || bytes < SIM_BULK_BYTES_MIN)
        return 0;
    VALGRIND_NON_SIMD_CALL1(sim_bulk_run, bulk);
    VALGRIND_MAKE_MEM_DEFINED(bulk->to, bytes);
    return 1;
}
#endif

/* Sets `count` elements of `width` bytes. */
static inline void sim_bulk_set(void *to, uint32_t pattern, unsigned width, size_t count)
{
#ifdef SIM_MEMCHECK
    const sim_bulk bulk = {.to = to, .pattern = pattern, .width = width, .count = count};
    if (sim_bulk_unseen(&bulk))
        return;
#endif
    sim_elements_set(to, pattern, width, count);
}

/* Copies; the ranges may overlap. */
static inline void sim_bulk_copy(void *to, const void *from, size_t bytes)
{
#ifdef SIM_MEMCHECK
    const sim_bulk bulk = {.to = to, .from = from, .bytes = bytes};
    if (sim_bulk_unseen(&bulk))
        return;
#endif
    memmove(to, from, bytes);
}

#endif
