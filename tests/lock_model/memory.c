/* SPDX-License-Identifier: Apache-2.0 */
/* Values that were stored, and who knows of them: see memory.h. */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void view_join(memory_view *view, const memory_view *other)
{
    for (int i = 0; i < PLACES_MAX; i++)
        if (view->at[i] < other->at[i])
            view->at[i] = other->at[i];
}

static int newest(const model_memory *memory, int object)
{
    return memory->values_count[object] - 1;
}

/* ---- loads ---------------------------------------------------------------------------------- */

int memory_load_outcomes(const model_memory *memory, int thread, int object)
{
    return newest(memory, object) - memory->threads[thread].known.at[object] + 1;
}

/* The thread reads the value at the index. */
static uint64_t value_read(model_memory *memory, int thread, int object, int index, int is_acquire)
{
    memory_thread *self = &memory->threads[thread];
    const memory_value *value = &memory->values[object][index];
    self->known.at[object] = (uint8_t)index;
    if (self->acquirable.at[object] < index)
        self->acquirable.at[object] = (uint8_t)index;
    view_join(&self->acquirable, &value->published);
    if (is_acquire)
        view_join(&self->known, &value->published);
    self->seen.last[object] = (uint8_t)(index + 1);
    if (self->seen.first[object] == 0)
        self->seen.first[object] = (uint8_t)(index + 1);
    return value->value;
}

uint64_t memory_load(model_memory *memory, int thread, int object, int outcome, int is_acquire)
{
    return value_read(memory, thread, object, newest(memory, object) - outcome, is_acquire);
}

/* ---- stores --------------------------------------------------------------------------------- */

static void view_shift(uint8_t *known, int index, int plus)
{
    if (*known >= index + plus)
        (*known)++;
}

/* Makes room for a value at the index of an object: whatever knew of a later one still does. */
static void values_shift(model_memory *memory, int object, int index)
{
    int count = memory->values_count[object];
    if (count == VALUES_MAX) {
        fprintf(stderr, "lock_model: VALUES_MAX is too small\n");
        abort();
    }
    memmove(&memory->values[object][index + 1], &memory->values[object][index],
            sizeof(memory_value) * (size_t)(count - index));
    memory->values_count[object]++;
    for (int i = 0; i < ATOMICS_MAX; i++)
        for (int j = 0; j < memory->values_count[i]; j++)
            view_shift(&memory->values[i][j].published.at[object], index, 0);
    for (int i = 0; i < EXPLORER_THREADS_MAX; i++) {
        memory_thread *thread = &memory->threads[i];
        view_shift(&thread->known.at[object], index, 0);
        view_shift(&thread->acquirable.at[object], index, 0);
        view_shift(&thread->releasable.at[object], index, 0);
        view_shift(&thread->at_light.at[object], index, 0);
        view_shift(&thread->by_barriers.at[object], index, 0);
        view_shift(&thread->seen.first[object], index, 1);
        view_shift(&thread->seen.last[object], index, 1);
        view_shift(&thread->seen_before.first[object], index, 1);
        view_shift(&thread->seen_before.last[object], index, 1);
    }
}

/* Puts a value of the thread at the index. `read` is what its exchange has read, or null. */
static void value_put(model_memory *memory, int thread, int object, int index, uint64_t stored,
                      int is_release, const memory_view *read)
{
    memory_thread *self = &memory->threads[thread];
    memory_view before = {{0}};
    if (read != NULL)
        before = *read;
    values_shift(memory, object, index);
    memory_value *value = &memory->values[object][index];
    self->known.at[object] = (uint8_t)index;
    if (self->acquirable.at[object] < index)
        self->acquirable.at[object] = (uint8_t)index;
    *value = (memory_value){.value = stored, .is_bound = read != NULL};
    value->published = is_release ? self->known : self->releasable;
    view_join(&value->published, &before); /* an exchange passes on what it has read */
    value->published.at[object] = (uint8_t)index;
    self->has_stored = 1;
}

/* The index of an outcome, or -1 if nothing may come there. */
static int store_index(const model_memory *memory, int thread, int object, int outcome)
{
    for (int index = memory->values_count[object]; index > memory->threads[thread].known.at[object];
         index--) {
        int is_free =
            index == memory->values_count[object] || !memory->values[object][index].is_bound;
        if (is_free && outcome-- == 0)
            return index;
    }
    return -1;
}

int memory_store_outcomes(const model_memory *memory, int thread, int object)
{
    int count = 0;
    while (store_index(memory, thread, object, count) >= 0)
        count++;
    return count;
}

void memory_store(model_memory *memory, int thread, int object, int outcome, uint64_t value,
                  int is_release)
{
    value_put(memory, thread, object, store_index(memory, thread, object, outcome), value,
              is_release, NULL);
}

/* ---- exchanges, fences, plain memory -------------------------------------------------------- */

uint64_t memory_value_at(const model_memory *memory, int object, int outcome)
{
    return memory->values[object][newest(memory, object) - outcome].value;
}

int memory_exchange_is_possible(const model_memory *memory, int object, int outcome)
{
    int index = newest(memory, object) - outcome;
    return outcome == 0 || !memory->values[object][index + 1].is_bound;
}

uint64_t memory_exchange(model_memory *memory, int thread, int object, int outcome, uint64_t value,
                         int is_acquire, int is_release)
{
    int index = newest(memory, object) - outcome;
    uint64_t read = value_read(memory, thread, object, index, is_acquire);
    memory_view published = memory->values[object][index].published;
    value_put(memory, thread, object, index + 1, value, is_release, &published);
    return read;
}

void memory_light_fence(model_memory *memory, int thread)
{
    memory_thread *self = &memory->threads[thread];
    view_join(&self->known, &self->by_barriers);
    view_join(&self->acquirable, &self->known);
    self->at_light = self->known;
}

void memory_barrier_begin(model_memory *memory, int thread)
{
    memory_thread *self = &memory->threads[thread];
    self->known = self->acquirable;
    self->releasable = self->known;
}

void memory_barrier_in(model_memory *memory, int thread, int other)
{
    view_join(&memory->threads[other].by_barriers, &memory->threads[thread].releasable);
    view_join(&memory->threads[thread].acquirable, &memory->threads[other].at_light);
}

void memory_barrier_end(model_memory *memory, int thread)
{
    memory_barrier_begin(memory, thread);
}

int memory_access(model_memory *memory, int thread, int plain)
{
    memory_thread *self = &memory->threads[thread];
    uint8_t *known = &self->known.at[ATOMICS_MAX + plain];
    if (*known != memory->accesses[plain])
        return 0;
    *known = ++memory->accesses[plain];
    self->acquirable.at[ATOMICS_MAX + plain] = *known;
    return 1;
}

/* ---- looks ---------------------------------------------------------------------------------- */

memory_look memory_look_end(model_memory *memory, int thread)
{
    memory_thread *self = &memory->threads[thread];
    int is_same = memcmp(&self->seen, &self->seen_before, sizeof(self->seen)) == 0;
    memory_look look = !self->has_stored && is_same ? MEMORY_LOOK_IN_VAIN : MEMORY_LOOK_AGAIN;
    self->seen_before = self->seen;
    if (self->has_stored)
        memset(&self->seen_before, 0, sizeof(self->seen_before));
    memset(&self->seen, 0, sizeof(self->seen));
    return look;
}

int memory_has_news(const model_memory *memory, int thread)
{
    const memory_thread *self = &memory->threads[thread];
    if (self->has_stored)
        return 1;
    for (int i = 0; i < ATOMICS_MAX; i++)
        if (self->seen_before.first[i] > 0 && self->seen_before.first[i] < memory->values_count[i])
            return 1;
    return 0;
}

void memory_look_begin(model_memory *memory, int thread)
{
    memory_thread *self = &memory->threads[thread];
    memset(&self->seen, 0, sizeof(self->seen));
    memset(&self->seen_before, 0, sizeof(self->seen_before));
    self->has_stored = 0;
}

/* ---- hash ----------------------------------------------------------------------------------- */

/* What there is of one object in a word of all: more than VALUES_MAX, and all fit. */
enum { OBJECT_BITS = 6, WORDS = 2 };
_Static_assert(VALUES_MAX + 1 < 1 << OBJECT_BITS && OBJECT_BITS * ATOMICS_MAX <= 64,
               "a word of all");
_Static_assert(ATOMICS_MAX <= 8 * WORDS && PLAINS_MAX <= 8 * WORDS, "a byte for each");

static void hash_add(uint64_t hash[2], uint64_t word)
{
    hash[0] = (hash[0] ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    hash[0] ^= hash[0] >> 29;
    hash[1] = (hash[1] + word) * UINT64_C(0xd6e8feb86659fd93);
    hash[1] ^= hash[1] >> 32;
}

/* What each thread that goes on knows of an object at least: older values are nobody's. */
static memory_view known_to_all(const model_memory *memory)
{
    memory_view least;
    memset(&least, 0xff, sizeof(least));
    for (int i = 0; i < EXPLORER_THREADS_MAX; i++)
        for (int object = 0; object < ATOMICS_MAX && !memory->threads[i].is_over; object++)
            if (least.at[object] > memory->threads[i].known.at[object])
                least.at[object] = memory->threads[i].known.at[object];
    return least;
}

/* A view as far as it matters: of plain memory, whether all accesses are known. */
static void view_hash(uint64_t hash[2], const model_memory *memory, const memory_view *view,
                      const memory_view *least)
{
    uint64_t words[2 * WORDS] = {0};
    uint8_t *bytes = (uint8_t *)words; /* of each object one: the compiler does many at once */
    for (int i = 0; i < ATOMICS_MAX; i++)
        bytes[i] = (uint8_t)((view->at[i] > least->at[i] ? view->at[i] : least->at[i]) -
                             least->at[i]);
    for (int i = 0; i < PLAINS_MAX; i++)
        bytes[8 * WORDS + i] = view->at[ATOMICS_MAX + i] == memory->accesses[i];
    /* Of a byte an atomic object has the low bits only. */
    hash_add(hash, words[0] | words[2] << OBJECT_BITS);
    hash_add(hash, words[1] | words[3] << OBJECT_BITS);
}

static void seen_hash(uint64_t hash[2], const memory_seen *seen, const memory_view *least)
{
    uint64_t first = 0, last = 0;
    for (int i = 0; i < ATOMICS_MAX; i++) {
        int none = 40 + least->at[i]; /* so that neither 0 nor too much comes out */
        first = first << OBJECT_BITS | (uint8_t)(seen->first[i] == 0 ? 0 : none - seen->first[i]);
        last = last << OBJECT_BITS | (uint8_t)(seen->last[i] == 0 ? 0 : none - seen->last[i]);
    }
    hash_add(hash, first);
    hash_add(hash, last);
}

void memory_hash(const model_memory *memory, uint64_t hash[2])
{
    memory_view least = known_to_all(memory);
    for (int i = 0; i < ATOMICS_MAX; i++)
        for (int j = least.at[i]; j < memory->values_count[i]; j++) {
            const memory_value *value = &memory->values[i][j];
            hash_add(hash, value->value);
            hash_add(hash, (uint64_t)i << 1 | value->is_bound);
            view_hash(hash, memory, &value->published, &least);
        }
    for (int i = 0; i < EXPLORER_THREADS_MAX; i++) {
        const memory_thread *thread = &memory->threads[i];
        hash_add(hash, (uint64_t)thread->has_stored << 1 | thread->is_over);
        view_hash(hash, memory, &thread->at_light, &least);
        if (thread->is_over)
            continue;
        view_hash(hash, memory, &thread->known, &least);
        view_hash(hash, memory, &thread->acquirable, &least);
        view_hash(hash, memory, &thread->releasable, &least);
        view_hash(hash, memory, &thread->by_barriers, &least);
        seen_hash(hash, &thread->seen, &least);
        seen_hash(hash, &thread->seen_before, &least);
    }
}
