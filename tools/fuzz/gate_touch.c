/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents: what a write leaves in a block and a read checks. The kernel is in PTX
 * (gate_kernels.c), and here in C for the simulated device. Read this file to learn what contents
 * are.
 *
 * Each write has its own tag, and a word holds a mix of the tag and the word's address. So a word
 * says which write it comes from, and two writes never agree. A tag with its highest byte set
 * stands for what cuMemsetD8 left: that byte everywhere.
 *
 * In a small block every word is visited. In a large block the kernel visits the ends, a page whose
 * place the tag decides, and one word in so many bytes. The addresses of those words do not depend
 * on where the block begins. So if two blocks share memory, anywhere, one writes a word that the
 * other reads.
 */
#include <sched.h>
#include <string.h>

#include "gate_state.h"

enum {
    SMALL_WORDS = 4096, /* 32 KiB */
    END_WORDS = 8,
    PAGE_WORDS = 512,
    GRID_FIRST = 2 * END_WORDS + PAGE_WORDS, /* number of the first visit of the grid */
    THREADS = 128,
    BLOCKS_MAX = 64
};

enum { VISIT_CHECK, VISIT_WRITE, VISIT_LOAD };

/* One block's part of a launch. The kernels know these offsets. */
typedef struct gate_visit {
    uint64_t address, words, tag;
    uint64_t count; /* visits; as many as there are words: each of these */
    uint64_t page_word, grid_word, grid_step;
    uint64_t how;
} gate_visit;

typedef struct gate_launch {
    gate_visit visits[2];
    uint64_t step;
    uint64_t found;  /* two words of the device: whether the record is taken, how many were wrong */
    uint64_t record; /* a gate_record */
} gate_launch;

_Static_assert(sizeof(gate_visit) == 64 && sizeof(gate_launch) == 152, "as the kernels have it");

/* ---- which words ---------------------------------------------------------------------------- */

static gate_visit visit_of(const fuzz_touch *touch)
{
    uint64_t grid = gate_state.grid_bytes;
    gate_visit visit = {.address = touch->address, .words = touch->bytes / 8, .tag = touch->tag};
    visit.how = touch->is_write ? VISIT_WRITE : touch->tag != 0 ? VISIT_CHECK : VISIT_LOAD;
    visit.count = visit.words;
    if (visit.words <= SMALL_WORDS)
        return visit;
    uint64_t pages = visit.words / PAGE_WORDS;
    uint64_t first = (touch->address + grid - 1) / grid * grid;
    uint64_t end = touch->address + visit.words * 8;
    visit.page_word = (touch->tag * UINT64_C(0x9e3779b97f4a7c15) >> 32) % pages * PAGE_WORDS;
    visit.grid_word = (first - touch->address) / 8;
    visit.grid_step = grid / 8;
    visit.count = GRID_FIRST + (first < end ? (end - first + grid - 1) / grid : 0);
    return visit;
}

static uint64_t visit_word(const gate_visit *visit, uint64_t number)
{
    if (visit->count == visit->words || number < END_WORDS)
        return number;
    if (number < 2 * END_WORDS)
        return visit->words - 1 - (number - END_WORDS);
    if (number < GRID_FIRST)
        return visit->page_word + (number - 2 * END_WORDS);
    return visit->grid_word + (number - GRID_FIRST) * visit->grid_step;
}

static uint64_t word_value(uint64_t tag, uint64_t address)
{
    if (tag >> 56 != 0)
        return tag;
    return tag * UINT64_C(0x9E3779B97F4A7C15) + address * UINT64_C(0xBF58476D1CE4E5B9);
}

/* ---- the kernels on the simulated device ---------------------------------------------------- */

static void word_wrong(const gate_launch *launch, uint64_t at, uint64_t expected, uint64_t found)
{
    uint64_t *counters = (uint64_t *)(uintptr_t)launch->found;
    gate_record *record = (gate_record *)(uintptr_t)launch->record;
    uint64_t free_record = 0;
    __atomic_add_fetch(&counters[1], 1, __ATOMIC_RELAXED);
    if (!__atomic_compare_exchange_n(&counters[0], &free_record, 1, 0, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return;
    record->step = launch->step;
    record->address = at;
    record->expected = expected;
    record->found = found;
    __atomic_store_n(&record->is_set, 1, __ATOMIC_RELEASE);
}

static void touch_run(void *const *params)
{
    const gate_launch *launch = params[0];
    for (int v = 0; v < 2; v++) {
        const gate_visit *visit = &launch->visits[v];
        for (uint64_t i = 0; i < visit->count; i++) {
            uint64_t at = visit->address + visit_word(visit, i) * 8;
            uint64_t *word = (uint64_t *)(uintptr_t)at;
            uint64_t value = word_value(visit->tag, at);
            if (visit->how == VISIT_WRITE) {
                __atomic_store_n(word, value, __ATOMIC_RELAXED);
                continue;
            }
            uint64_t found = __atomic_load_n(word, __ATOMIC_RELAXED);
            if (visit->how == VISIT_CHECK && found != value)
                word_wrong(launch, at, value, found);
        }
    }
}

static size_t touch_accesses(void *const *params, simcuda_access *out, size_t capacity)
{
    const gate_launch *launch = params[0];
    size_t count = 0;
    for (int v = 0; v < 2; v++) {
        const gate_visit *visit = &launch->visits[v];
        if (visit->words == 0)
            continue;
        if (count < capacity)
            out[count] =
                (simcuda_access){visit->address, visit->words * 8, visit->how == VISIT_WRITE};
        count++;
    }
    return count;
}

static void hold_run(void *const *params)
{
    uint64_t address;
    uint32_t gate;
    memcpy(&address, params[0], sizeof(address));
    memcpy(&gate, params[1], sizeof(gate));
    const uint32_t *word = (const uint32_t *)(uintptr_t)address;
    while ((int32_t)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - gate) < 0)
        sched_yield();
}

static void mark_run(void *const *params)
{
    uint64_t address;
    uint32_t gate;
    memcpy(&address, params[0], sizeof(address));
    memcpy(&gate, params[1], sizeof(gate));
    __atomic_store_n((uint32_t *)(uintptr_t)address, gate, __ATOMIC_RELEASE);
}

int gate_kernels_register(void)
{
    static const size_t launch_bytes = sizeof(gate_launch);
    static const size_t word_bytes[] = {8, 4};
    fuzz_device *device = gate_state.device;
    if (!gate_state.is_simulated)
        return 0;
    int bad =
        device->kernel_register("tenure_gate_touch", 1, &launch_bytes, touch_run, touch_accesses);
    bad |= device->kernel_register("tenure_gate_hold", 2, word_bytes, hold_run, NULL);
    bad |= device->kernel_register("tenure_gate_mark", 2, word_bytes, mark_run, NULL);
    return bad != 0 ? -1 : 0;
}

/* ---- launching ------------------------------------------------------------------------------ */

CUresult gate_touch(fuzz_device *device, int number, CUstream stream, const fuzz_launch *wanted)
{
    gates *self = &gate_state;
    gate_launch launch = {.step = wanted->step};
    uint64_t most = 1;
    launch.found = self->found[number];
    launch.record = self->record_device;
    for (int i = 0; i < 2; i++) {
        gate_visit *visit = &launch.visits[i];
        *visit = visit_of(&wanted->touches[i]);
        most = visit->count > most ? visit->count : most;
        if (self->counts == NULL || visit->words == 0)
            continue;
        self->counts->reads += visit->how == VISIT_CHECK;
        self->counts->words_read += visit->how == VISIT_CHECK ? visit->count : 0;
        self->counts->words_written += visit->how == VISIT_WRITE ? visit->count : 0;
    }
    uint64_t blocks = (most + THREADS - 1) / THREADS;
    void *params[] = {&launch};
    return device->launch(self->touch[number],
                          (unsigned)(blocks > BLOCKS_MAX ? BLOCKS_MAX : blocks), 1, 1, THREADS, 1,
                          1, 0, stream, params, NULL);
}
