/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pattern kernels in C: see pattern_sim.h. Read this file to learn what a pattern is.
 *
 * The device says where the host finds its memory: at its addresses, or, with TENURE_SIM_VIEW=1,
 * elsewhere. Both kernels declare the whole block as touched, not only the words that they visit.
 * They stand for kernels that touch all of it, and so the simulation can check every mapping under
 * the block.
 */
#include "pattern_sim.h"

#include <dlfcn.h>
#include <string.h>

#include <tenure/simcuda.h>

enum {
    WORD_BYTES = 16,
    END_WORDS = 4,    /* at each end of the block */
    BORDER_SHIFT = 21 /* 2 MiB: chunks are multiples of it and lie at multiples of it */
};

uint64_t pattern_points_count(uint64_t block, uint64_t bytes)
{
    if (bytes / WORD_BYTES < 2 * END_WORDS || block % WORD_BYTES != 0)
        return 0;
    uint64_t borders = ((block + bytes - 1) >> BORDER_SHIFT) - (block >> BORDER_SHIFT);
    return 2 * END_WORDS + 2 * borders;
}

/* The word that point number `point` stands for. A border's second word may be the one past the
 * last whole word if the block ends right behind the border; that place is skipped by callers. */
static uint64_t pattern_point_word(uint64_t block, uint64_t words, uint64_t point)
{
    if (point < END_WORDS)
        return point;
    if (point < 2 * END_WORDS)
        return words - 1 - (point - END_WORDS);
    uint64_t border = ((block >> BORDER_SHIFT) + 1 + ((point - 2 * END_WORDS) >> 1))
                      << BORDER_SHIFT;
    return (border - block) / WORD_BYTES - 1 + (point & 1);
}

/* The two halves of a word: any change of seed or offset changes about half of the bits, and no
 * word is all zero or all one. */
static void pattern_word(uint64_t seed, uint64_t word, uint64_t halves[2])
{
    uint64_t x = word * UINT64_C(0xBF58476D1CE4E5B9) + seed * UINT64_C(0x9E3779B97F4A7C15);
    x ^= x >> 29;
    x *= UINT64_C(0x94D049BB133111EB);
    x ^= x >> 32;
    halves[0] = x;
    halves[1] = ~x + word;
}

static void *(*memory_at)(CUdeviceptr); /* the simulated device's */

/* The parameters of a launch, in the kernels' order; and where the 2 MiB are that were touched
 * last, since each question takes the device's lock. */
typedef struct launch {
    uint64_t block, bytes, seed, points, counter;
    uint64_t part; /* address >> BORDER_SHIFT, and 1 more */
    unsigned char *begin;
} launch;

/* A word's address for the host. It lies in one part: blocks begin at multiples of a word. */
static unsigned char *launch_at(launch *work, uint64_t address)
{
    uint64_t part = address >> BORDER_SHIFT, base = part << BORDER_SHIFT;
    if (work->part != part + 1) {
        /* The part's beginning may be of other memory, or of none. */
        unsigned char *at = memory_at(address);
        work->begin = at - (address - base);
        work->part = part + 1;
    }
    return work->begin + (address - base);
}

static launch launch_of(void *const *params, int has_counter)
{
    launch result = {0};
    memcpy(&result.block, params[0], sizeof(uint64_t));
    memcpy(&result.bytes, params[1], sizeof(uint64_t));
    memcpy(&result.seed, params[2], sizeof(uint64_t));
    memcpy(&result.points, params[3], sizeof(uint64_t));
    if (has_counter)
        memcpy(&result.counter, params[4], sizeof(uint64_t));
    return result;
}

/* Writes or compares one word, which at the end of the block may be a part of one. Returns what
 * is wrong there: 0 or 1 for a whole word, the number of wrong bytes for a part. */
static uint64_t word_visit(launch *work, uint64_t word, int is_check)
{
    uint64_t halves[2];
    uint64_t offset = word * WORD_BYTES;
    if (offset >= work->bytes)
        return 0;
    size_t length = work->bytes - offset < WORD_BYTES ? (size_t)(work->bytes - offset) : WORD_BYTES;
    unsigned char *at = launch_at(work, work->block + offset);
    pattern_word(work->seed, word, halves);
    if (!is_check) {
        memcpy(at, halves, length);
        return 0;
    }
    if (length == WORD_BYTES)
        return memcmp(at, halves, WORD_BYTES) != 0;
    uint64_t wrong = 0;
    for (size_t i = 0; i < length; i++)
        wrong += at[i] != ((const unsigned char *)halves)[i];
    return wrong;
}

/* Visits all words of a launch. Returns the number of wrong ones and where one of them was. */
static uint64_t launch_run(launch *work, int is_check, uint64_t *first_offset)
{
    uint64_t words = work->bytes / WORD_BYTES;
    uint64_t count = work->points ? work->points : words;
    uint64_t wrong = 0;
    for (uint64_t i = 0; i <= count; i++) {
        /* The last round is the part of a word at the block's end, which is always done. */
        uint64_t word = i;
        if (i == count)
            word = words;
        else if (work->points)
            word = pattern_point_word(work->block, words, i);
        uint64_t found = i < count && word >= words ? 0 : word_visit(work, word, is_check);
        if (found)
            *first_offset = word * WORD_BYTES;
        wrong += found;
    }
    return wrong;
}

static void fill_run(void *const *params)
{
    launch work = launch_of(params, 0);
    uint64_t unused = 0;
    launch_run(&work, 0, &unused);
}

static void check_run(void *const *params)
{
    launch work = launch_of(params, 1);
    uint64_t first_offset = 0;
    uint64_t wrong = launch_run(&work, 1, &first_offset);
    if (!wrong)
        return;
    /* Each stream has counters of its own, and a stream runs one kernel at a time. */
    uint64_t *counter = memory_at(work.counter);
    counter[0] += wrong;
    if (counter[1] == 0) {
        counter[1] = work.seed;
        counter[2] = first_offset;
    }
}

static size_t fill_accesses(void *const *params, simcuda_access *out, size_t capacity)
{
    launch work = launch_of(params, 0);
    if (capacity >= 1)
        out[0] = (simcuda_access){work.block, work.bytes, 1};
    return 1;
}

static size_t check_accesses(void *const *params, simcuda_access *out, size_t capacity)
{
    launch work = launch_of(params, 1);
    if (capacity >= 2) {
        out[0] = (simcuda_access){work.block, work.bytes, 0};
        out[1] = (simcuda_access){work.counter, 3 * sizeof(uint64_t), 1};
    }
    return 2;
}

int pattern_sim_register(void *library)
{
    static const size_t sizes[] = {8, 8, 8, 8, 8};
    int (*kernel_register)(const char *, size_t, const size_t *, simcuda_kernel_run,
                           simcuda_kernel_accesses);
    void *symbol = dlsym(library, "simcuda_kernel_register");
    void *at = dlsym(library, "simcuda_memory_at");
    if (!symbol || !at)
        return 1;
    memcpy(&kernel_register, &symbol, sizeof(symbol));
    memcpy(&memory_at, &at, sizeof(at));
    if (kernel_register("tenure_fill", 4, sizes, fill_run, fill_accesses) != 0 ||
        kernel_register("tenure_check", 5, sizes, check_run, check_accesses) != 0)
        return -1;
    return 0;
}
