/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and their build ids: see modules.h. */
#include "see/snapshot/modules.h"

#include <limits.h>
#include <string.h>

#include "base/host_memory.h"
#include "base/prim/loader.h"
#include "base/prim/process.h"

static int module_count(const tnri_loaded_file *file, void *context)
{
    (void)file;
    ++*(size_t *)context;
    return 0;
}

static int module_add(const tnri_loaded_file *file, void *context)
{
    tnri_modules *modules = context;
    if (modules->count == modules->room)
        return 1;
    tnri_module *module = &modules->list[modules->count++];
    memset(module, 0, sizeof(*module));
    module->base = tnri_loaded_base(file);
    module->path = file->path[0] == '\0' ? modules->program : file->path;
    module->build_id_bytes = (uint8_t)tnri_loaded_build_id(file, module->build_id);
    return 0;
}

int tnri_modules_make(tnri_modules *modules)
{
    size_t loaded = 0;
    memset(modules, 0, sizeof(*modules));
    (void)tnri_loader_each(module_count, &loaded);
    modules->room = loaded + 16; /* what another thread loads meanwhile */
    modules->list = tnri_host_reserve(modules->room * sizeof(modules->list[0]) + TNRI_PATH_BYTES);
    if (modules->list == NULL)
        return 0;
    /* The linker calls the program by the name that it was started by, which is found from its
     * folder of then only, or by its PATH. */
    modules->program = (char *)(modules->list + modules->room);
    (void)tnri_program_path(modules->program, TNRI_PATH_BYTES);
    (void)tnri_loader_each(module_add, modules);
    return 1;
}

void tnri_modules_free(tnri_modules *modules)
{
    tnri_host_unreserve(modules->list, modules->room * sizeof(modules->list[0]) + TNRI_PATH_BYTES);
    memset(modules, 0, sizeof(*modules));
}

tnri_module *tnri_modules_find(tnri_modules *modules, uintptr_t base)
{
    if (modules->latest < modules->count && modules->list[modules->latest].base == base)
        return &modules->list[modules->latest];
    for (size_t i = 0; i < modules->count; i++) {
        if (modules->list[i].base == base) {
            modules->latest = i;
            return &modules->list[i];
        }
    }
    return NULL;
}
