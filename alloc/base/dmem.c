/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory of control groups: see dmem.h. */
#include "base/dmem.h"

#include <stdio.h>
#include <string.h>

#include "base/cgroup.h"

/* A walk over the groups. */
typedef struct look {
    const tnri_pci *gpu;
    tnri_dmem *dmem;
} look;

/* 1 if a line begins with the name of the GPU's region; *number is what follows it. */
static int region_is(const char *line, const tnri_pci *gpu, const char **number)
{
    unsigned domain, bus, device;
    int length = 0;
    if (sscanf(line, "nvidia/%x:%x:%x.0/vidmem %n", &domain, &bus, &device, &length) != 3 ||
        length == 0)
        return 0;
    *number = line + length;
    return domain == (unsigned)gpu->domain && bus == (unsigned)gpu->bus &&
           device == (unsigned)gpu->device;
}

/* The number of the GPU's region in a file of a group. 0: there is none, as with "max". */
static int region_read(const char *group, const char *file, const tnri_pci *gpu, uint64_t *number)
{
    char path[TNRI_CGROUP_PATH_BYTES], text[TNRI_CGROUP_FILE_BYTES];
    const char *found;
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", group, file) >= sizeof(path) ||
        tnri_cgroup_file(path, text, sizeof(text)) == 0)
        return 0;
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (region_is(line, gpu, &found))
            return tnri_cgroup_number(found, number);
    }
    return 0;
}

static void limit_lower(tnri_dmem_limit *least, uint64_t limit, uint64_t used, const char *group,
                        const char *file)
{
    uint64_t most = INT64_MAX;
    if (limit >= most || used >= most || (int64_t)limit - (int64_t)used >= least->left)
        return;
    *least =
        (tnri_dmem_limit){.left = (int64_t)limit - (int64_t)used, .limit = limit, .used = used};
    snprintf(least->file, sizeof(least->file), "%.*s/%s",
             (int)(sizeof(least->file) - sizeof("/dmem.max")), group, file);
}

static void group_look(const char *group, void *with)
{
    const look *self = with;
    uint64_t used, limit;
    if (!region_read(group, "dmem.current", self->gpu, &used))
        return;
    self->dmem->is_found = 1;
    if (region_read(group, "dmem.max", self->gpu, &limit))
        limit_lower(&self->dmem->hard, limit, used, group, "dmem.max");
    if (region_read(group, "dmem.min", self->gpu, &limit) && limit > 0)
        limit_lower(&self->dmem->soft, limit, used, group, "dmem.min");
    else if (region_read(group, "dmem.low", self->gpu, &limit) && limit > 0)
        limit_lower(&self->dmem->soft, limit, used, group, "dmem.low");
}

void tnri_dmem_read(tnri_dmem *dmem, const tnri_pci *gpu, const char *folder)
{
    look self = {gpu, dmem};
    *dmem = (tnri_dmem){.soft = {.left = INT64_MAX}, .hard = {.left = INT64_MAX}};
    if (folder[0] == '/')
        tnri_cgroup_walk(folder, "::", group_look, &self);
}
