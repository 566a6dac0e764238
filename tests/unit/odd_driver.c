/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver as of CUDA 11: it has cuGetProcAddress, but not yet its second form. It hands out the
 * simulated device's entry points, but for what ODD_DRIVER says:
 *
 *   nothing   it has no entry point at all
 *   none      it counts no devices
 *   many      it counts more devices than there can be
 *   mute      it does not say its version
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))
enum { SUCCESS = 0, UNKNOWN = 999 };

SHOWN int cuGetProcAddress(const char *name, void **function, int version,
                           unsigned long long flags);
SHOWN int cuDriverGetVersion(int *version);

static int is_odd(const char *how)
{
    const char *wanted = getenv("ODD_DRIVER");
    return wanted != NULL && strcmp(wanted, how) == 0;
}

/* The simulated device's, which the program is linked to. */
static void *original(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

/* In place of cuDeviceGetCount; odd as long as ODD_DRIVER says so. */
static int count_devices(int *count)
{
    int (*ask)(int *);
    void *found = original("cuDeviceGetCount");
    memcpy(&ask, &found, sizeof(ask));
    int result = ask(count);
    *count = is_odd("none") ? 0 : is_odd("many") ? 100000 : *count;
    return result;
}

SHOWN int cuGetProcAddress(const char *name, void **function, int version, unsigned long long flags)
{
    int (*ask)(const char *, void **, int, unsigned long long);
    void *found = original("cuGetProcAddress");
    int (*counts)(int *) = count_devices;
    memcpy(&ask, &found, sizeof(ask));
    *function = NULL;
    if (is_odd("nothing"))
        return SUCCESS;
    if (strcmp(name, "cuDeviceGetCount") == 0) {
        memcpy(function, &counts, sizeof(counts));
        return SUCCESS;
    }
    return ask(name, function, version, flags);
}

SHOWN int cuDriverGetVersion(int *version)
{
    *version = 11030;
    return is_odd("mute") ? UNKNOWN : SUCCESS;
}
