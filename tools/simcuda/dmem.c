/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's side of a control group: dmem.current in the folder that TENURE_SIM_DMEM names, kept
 * as memory is taken and given back. Limits are files that a test writes beside it. They are for
 * programs to read; the simulated driver refuses nothing because of them.
 *
 * Also its side of memory that devices share with the host: the file that plays /proc/meminfo
 * (TENURE_SIM_INTEGRATED).
 */
#include "sim.h"

#include <stdio.h>

/* Puts a whole file in the place of the former, so that no reader finds half of one. */
static void file_put(const char *path, void (*write)(FILE *file))
{
    char fresh[sizeof(sim.settings.dmem) + 64];
    snprintf(fresh, sizeof(fresh), "%s.fresh", path);
    FILE *file = fopen(fresh, "we");
    if (file == NULL)
        return;
    write(file);
    if (fclose(file) == 0)
        (void)rename(fresh, path);
}

static void dmem_write(FILE *file)
{
    for (uint64_t i = 0; i < sim.settings.devices; i++)
        fprintf(
            file, "nvidia/0000:%02x:00.0/vidmem %llu\n", (unsigned)i + 1,
            (unsigned long long)(sim.devices[i].capacity_bytes - sim_memory_left(&sim.devices[i])));
}

static void meminfo_write(FILE *file)
{
    unsigned long long kib = sim.devices[0].capacity_bytes >> 10;
    unsigned long long left = sim_memory_left(&sim.devices[0]) >> 10;
    fprintf(file, "MemTotal: %llu kB\nMemFree: %llu kB\nMemAvailable: %llu kB\n", kib, left / 2,
            left);
}

void sim_dmem_tell(void)
{
    char path[sizeof(sim.settings.dmem) + 32];
    if (sim.is_forked)
        return;
    snprintf(path, sizeof(path), "%s/dmem.current", sim.settings.dmem);
    if (sim.settings.dmem[0] != '\0')
        file_put(path, dmem_write);
    if (sim.settings.meminfo[0] != '\0')
        file_put(sim.settings.meminfo, meminfo_write);
}
