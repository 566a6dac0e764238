/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's side of a control group: dmem.current in the folder that TENURE_SIM_DMEM names, kept
 * as memory is taken and given back. Limits are files that a test writes beside it. They are for
 * programs to read; the simulated driver refuses nothing because of them.
 */
#include "sim.h"

#include <stdio.h>

/* Puts a whole file in the place of the former, so that no reader finds half of one. */
void sim_dmem_tell(void)
{
    char path[sizeof(sim.settings.dmem) + 32], fresh[sizeof(sim.settings.dmem) + 32];
    if (sim.settings.dmem[0] == '\0' || sim.is_forked)
        return;
    snprintf(path, sizeof(path), "%s/dmem.current", sim.settings.dmem);
    snprintf(fresh, sizeof(fresh), "%s/dmem.fresh", sim.settings.dmem);
    FILE *file = fopen(fresh, "we");
    if (file == NULL)
        return;
    for (uint64_t i = 0; i < sim.settings.devices; i++)
        fprintf(
            file, "nvidia/0000:%02x:00.0/vidmem %llu\n", (unsigned)i + 1,
            (unsigned long long)(sim.devices[i].capacity_bytes - sim_memory_left(&sim.devices[i])));
    if (fclose(file) == 0)
        (void)rename(fresh, path);
}
