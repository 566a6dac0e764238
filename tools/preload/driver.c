/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the program's driver: see driver.h. */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

driver_functions driver;
_Atomic int driver_is_found;
_Atomic(void (*)(void)) driver_when_found;

static struct {
    void *handle;
    const void *object;
} found; /* constant once driver_is_found */

static pthread_mutex_t finding = PTHREAD_MUTEX_INITIALIZER;

typedef void *(*dlsym_function)(void *, const char *);

/* ---- the C library's dlsym ------------------------------------------------------------------ */

/* The versions that it has had, newest first, on the machines that CUDA runs on. */
static const char *const dlsym_versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};

dlsym_function dlsym_of_libc(void)
{
    static _Atomic(dlsym_function) known;
    dlsym_function function = atomic_load_explicit(&known, memory_order_acquire);
    for (size_t i = 0; function == NULL && i < sizeof(dlsym_versions) / sizeof(*dlsym_versions);
         i++) {
        void *symbol = dlvsym(RTLD_NEXT, "dlsym", dlsym_versions[i]);
        memcpy(&function, &symbol, sizeof(function));
    }
    atomic_store_explicit(&known, function, memory_order_release);
    return function;
}

const void *object_of(const void *address)
{
    Dl_info info;
    return address != NULL && dladdr(address, &info) != 0 ? info.dli_fbase : NULL;
}

/* ---- finding -------------------------------------------------------------------------------- */

typedef struct call {
    const char *name, *symbol;
    int since;
    entry_form form;
    size_t offset;
} call;

#define OFFSET(symbol) offsetof(driver_functions, fn_##symbol)
static const call calls[] = {
#define PRELOAD_ENTRY(name, symbol, type, since, form, group)                                      \
    {#name, #symbol, since, FORM_##form, OFFSET(symbol)},
#define PRELOAD_CALL(name, type, since) {#name, #name, since, FORM_ONLY, OFFSET(name)},
#include "entries.def"
#undef PRELOAD_ENTRY
#undef PRELOAD_CALL
};

void *driver_symbol(const char *symbol)
{
    return dlsym_of_libc()(found.handle, symbol);
}

static void *resolve(const driver_functions *by, const char *name, int version, cuuint64_t flags)
{
    void *function = NULL;
    CUdriverProcAddressQueryResult status;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    if (by->fn_cuGetProcAddress_v2 != NULL)
        result = by->fn_cuGetProcAddress_v2(name, &function, version, flags, &status);
    else if (by->fn_cuGetProcAddress != NULL)
        result = by->fn_cuGetProcAddress(name, &function, version, flags);
    return result == CUDA_SUCCESS ? function : NULL;
}

void *driver_resolve(const char *name, int version, cuuint64_t flags)
{
    return resolve(&driver, name, version, flags);
}

/* Fills the table from a library: by symbol, which is what a program that knows only dlsym gets,
 * or by the driver's own look-up for what is not exported (as in CUDA's newest calls). */
static void functions_fill(driver_functions *table, void *handle)
{
    dlsym_function look_up = dlsym_of_libc();
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        void *symbol = look_up(handle, calls[i].symbol);
        memcpy((char *)table + calls[i].offset, &symbol, sizeof(symbol));
    }
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        void *symbol;
        memcpy(&symbol, (char *)table + calls[i].offset, sizeof(symbol));
        if (symbol != NULL)
            continue;
        symbol =
            resolve(table, calls[i].name, calls[i].since,
                    calls[i].form == FORM_THREAD ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                                 : CU_GET_PROC_ADDRESS_LEGACY_STREAM);
        memcpy((char *)table + calls[i].offset, &symbol, sizeof(symbol));
    }
}

/* 1 if the handle is a CUDA driver: has what every one has since CUDA 4. */
static int is_driver(void *handle, const void *object)
{
    dlsym_function look_up = dlsym_of_libc();
    const void *init = look_up(handle, "cuInit");
    const void *version = look_up(handle, "cuDriverGetVersion");
    return init != NULL && version != NULL && object_of(init) == object &&
           look_up(handle, "cuMemAlloc_v2") != NULL;
}

/* The loader's lock is never taken inside ours: another thread may be in the loader, on its way
 * here. So the table is filled first, and whoever comes first has it count. */
static void driver_take(void *handle, const void *object)
{
    driver_functions table;
    int is_first = 0;
    memset(&table, 0, sizeof(table));
    functions_fill(&table, handle);
    pthread_mutex_lock(&finding);
    if (!atomic_load(&driver_is_found)) {
        driver = table;
        found.handle = handle;
        found.object = object;
        atomic_store_explicit(&driver_is_found, 1, memory_order_release);
        is_first = 1;
    }
    pthread_mutex_unlock(&finding);
    void (*when_found)(void) = atomic_load(&driver_when_found);
    if (is_first && when_found != NULL)
        when_found();
}

int driver_look(void)
{
    static _Thread_local int is_finding; /* a look-up below may come here again */
    if (is_finding || dlsym_of_libc() == NULL)
        return 0;
    is_finding = 1;
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    const void *object = handle == NULL ? NULL : object_of(dlsym_of_libc()(handle, "cuInit"));
    if (handle != NULL && object != NULL && is_driver(handle, object))
        driver_take(handle, object);
    is_finding = 0;
    return atomic_load_explicit(&driver_is_found, memory_order_acquire);
}

/* A program that changes its root finds no library any more, unless the loader has it already. Of
 * the simulated driver, which alone `tenure run` chooses, that is seen to here. */
__attribute__((constructor)) static void driver_keep(void)
{
    if (getenv("TENURE_PRELOAD_SIMULATED") != NULL && geteuid() == 0)
        (void)dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
}

void driver_consider(void *handle, const void *symbol)
{
    if (driver_find())
        return;
    const void *object = object_of(symbol);
    if (object == NULL || object == object_of((const void *)&found) || !is_driver(handle, object))
        return;
    Dl_info info;
    /* A handle of our own: the program may close its. */
    void *own = dladdr(symbol, &info) != 0
                    ? dlopen(info.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)
                    : NULL;
    if (own == NULL)
        return;
    driver_take(own, object);
}

int driver_has(const void *address)
{
    return atomic_load_explicit(&driver_is_found, memory_order_acquire) &&
           object_of(address) == found.object;
}

CUresult driver_absent(void)
{
    return driver_find() ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_NOT_INITIALIZED;
}
