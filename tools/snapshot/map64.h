/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table from 64-bit numbers to 32-bit ones, counted against a budget: open addressing, never
 * more than two thirds full, removal by moving back what was displaced.
 *
 * The keys are hashed with a constant that a hostile file can know. So such a file can make a table
 * slow, but not wrong, and not larger.
 */
#ifndef TENURE_TOOLS_MAP64_H
#define TENURE_TOOLS_MAP64_H

#include <stddef.h>
#include <stdint.h>

#include "budget.h"

#define MAP64_ABSENT UINT32_MAX

/* A table that is all zero except for `limits` is empty. */
typedef struct map64 {
    budget *limits;
    struct map64_entry *entries;
    size_t capacity; /* 0 or a power of two */
    size_t count;
} map64;

void map64_start(map64 *map, budget *limits);
void map64_release(map64 *map);

/* What was put, or MAP64_ABSENT. */
uint32_t map64_get(const map64 *map, uint64_t key);
/* Sets it; `number` is not MAP64_ABSENT. Returns 0, or -1 without memory. */
int map64_put(map64 *map, uint64_t key, uint32_t number);
void map64_remove(map64 *map, uint64_t key);

#endif
