/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a driver takes for itself: for contexts, modules, the first launch of a function or
 * of an executable graph, and events. The simulation takes none unless TENURE_SIM_OVERHEAD says how
 * much. What a real driver takes depends on its version and its device.
 */
#include "sim.h"

int sim_overhead_take(struct sim_device *device, enum sim_overhead what)
{
    uint64_t bytes = sim.settings.overhead_bytes[what];
    return bytes == 0 || sim_memory_take(device, bytes);
}

void sim_overhead_give(struct sim_device *device, enum sim_overhead what)
{
    if (sim.settings.overhead_bytes[what] != 0)
        sim_memory_give(device, sim.settings.overhead_bytes[what]);
}
