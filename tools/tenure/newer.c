/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver is asked for each function as of the driver's own version, and as of every version
 * that `tenure run` replaces. It gives equal addresses for equal versions of a function. Functions
 * that only the checker follows are left out.
 */
#include "newer.h"

#include <dlfcn.h>
#include <string.h>

#include "entries.h"

static const struct {
    const char *name;
    int since;
    entry_form form;
    entry_group group;
} rows[] = {
#define PRELOAD_ENTRY(name, symbol, type, since, form, group)                                      \
    {#name, since, FORM_##form, GROUP_##group},
#define PRELOAD_CALL(name, type, since)
#include "../preload/entries.def"
#undef PRELOAD_ENTRY
#undef PRELOAD_CALL
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static void *resolve(PFN_cuGetProcAddress_v12000 look_up, const char *name, int version,
                     entry_form form)
{
    void *found = NULL;
    CUdriverProcAddressQueryResult status;
    cuuint64_t flags = form == FORM_THREAD ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                           : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    return look_up(name, &found, version, flags, &status) == CUDA_SUCCESS ? found : NULL;
}

/* 1 if what the driver has of the function now is in no row of it. */
static int is_newer(PFN_cuGetProcAddress_v12000 look_up, const char *name, int version)
{
    void *latest = resolve(look_up, name, version, FORM_LEGACY);
    for (int i = 0; i < ROWS && latest != NULL; i++)
        if (strcmp(rows[i].name, name) == 0 &&
            resolve(look_up, name, rows[i].since, rows[i].form) == latest)
            return 0;
    return latest != NULL;
}

size_t newer_find(const char **names, size_t room, const tnr_driver_info *driver)
{
    void *handle = dlopen(driver->path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    void *symbol = handle == NULL ? NULL : dlsym(handle, "cuGetProcAddress_v2");
    PFN_cuGetProcAddress_v12000 look_up;
    memcpy(&look_up, &symbol, sizeof(look_up));
    size_t count = 0;
    for (int i = 0; i < ROWS && look_up != NULL; i++) {
        int is_known = rows[i].group == GROUP_CHECK;
        for (int j = 0; j < i && !is_known; j++)
            is_known = strcmp(rows[j].name, rows[i].name) == 0;
        if (is_known || !is_newer(look_up, rows[i].name, driver->version))
            continue;
        if (count < room)
            names[count] = rows[i].name;
        count++;
    }
    if (handle != NULL)
        dlclose(handle);
    return count;
}
