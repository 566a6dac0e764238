/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program's driver calls would have cost on a real device, by a table (cost.def). So ways of
 * using the driver can be compared without a GPU. No time is spent for it.
 *
 * The cost of mapping counts for each mapping, not for the call: one cuMemSetAccess over a hundred
 * mappings costs as much as a hundred calls. Calls that fail cost nothing here.
 *
 * Sums are kept beside the counts of calls, by entry point, under the simulation's lock.
 */
#include "sim.h"

#include <string.h>

struct cost_row {
    uint64_t bytes;
    uint64_t ns[SIM_COST_KINDS];
};

static const struct cost_row rows[] = {
#define COST_OF_SIZE(mib, create, map, access, unmap, release, alloc, free)                        \
    {(uint64_t)(mib) << 20, {create, map, access, unmap, release, alloc, free}},
#include "cost.def"
#undef COST_OF_SIZE
};

enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

/* The table's value for a size: between two rows on the line through them. */
static uint64_t cost_at(enum sim_cost kind, uint64_t bytes)
{
    if (bytes <= rows[0].bytes)
        return rows[0].ns[kind];
    size_t i = 1;
    while (i < ROW_COUNT - 1 && bytes > rows[i].bytes)
        i++;
    const struct cost_row *low = &rows[i - 1];
    const struct cost_row *high = &rows[i];
    double slope =
        ((double)high->ns[kind] - (double)low->ns[kind]) / (double)(high->bytes - low->bytes);
    return (uint64_t)((double)low->ns[kind] + slope * (double)(bytes - low->bytes));
}

void sim_cost_add(enum sim_entry entry, enum sim_cost kind, uint64_t bytes)
{
    sim.modelled_ns[entry] += cost_at(kind, bytes);
}

void sim_cost_call(enum sim_entry entry)
{
    static const uint32_t of_call[SIM_ENTRY_COUNT] = {
#define COST_OF_CALL(symbol, ns) [SIM_##symbol] = (ns),
#include "cost.def"
#undef COST_OF_CALL
    };
    sim.modelled_ns[entry] += of_call[entry];
}

uint64_t simcuda_modelled_ns(const char *entry_point_or_star)
{
    uint8_t found[SIM_ENTRY_COUNT] = {0};
    if (entry_point_or_star == NULL)
        return 0;
    if (strcmp(entry_point_or_star, "*") == 0)
        memset(found, 1, sizeof(found));
    else if (sim_entry_by_name(entry_point_or_star, found) == 0)
        return 0;
    uint64_t sum = 0;
    sim_lock();
    for (int i = 0; i < SIM_ENTRY_COUNT; i++)
        sum += found[i] ? sim.modelled_ns[i] : 0;
    sim_unlock();
    return sum;
}
