/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to the driver: see engine.h. */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "engine.h"

driver_api cu;

#ifdef ENGINE_LINKED

/* Linked against libcuda.so.1: the loader has bound the symbols. */
#define API(name, symbol, type, version)                                                           \
    extern __typeof__(*(type)0) bound_##symbol __asm__(#symbol);
#define API_STREAM(name, symbol, type, version) API(name, symbol, type, version)
#include "api.def"
#undef API
#undef API_STREAM

int reach_driver(const char *way)
{
    if (strcmp(way, "linked") != 0)
        return -1;
#define API(name, symbol, type, version) cu.name = bound_##symbol;
#define API_STREAM(name, symbol, type, version) cu.name = bound_##symbol;
#include "api.def"
#undef API
#undef API_STREAM
    return 0;
}

#else

typedef struct function {
    const char *name, *symbol;
    int version, has_stream;
    size_t offset;
} function;

static const function functions[] = {
#define API(name, symbol, type, version) {#name, #symbol, version, 0, offsetof(driver_api, name)},
#define API_STREAM(name, symbol, type, version)                                                    \
    {#name, #symbol, version, 1, offsetof(driver_api, name)},
#include "api.def"
#undef API
#undef API_STREAM
};

/* In place of a function that the driver of a test lacks, whatever its arguments. */
static CUresult lacking(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

static void *library_open(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL)
        fprintf(stderr, "%s\n", dlerror());
    return library;
}

/* As programs did before CUDA 11.3: every function by its symbol. */
static void *by_symbol(void *library, const function *wanted, int is_thread)
{
    char symbol[128];
    snprintf(symbol, sizeof(symbol), "%s%s", wanted->symbol,
             is_thread && wanted->has_stream ? "_ptsz" : "");
    return dlsym(library, symbol);
}

/* As the runtime does since: the look-up by symbol, and the rest by the look-up. */
static void *by_look_up(void *library, const function *wanted, int is_first, cuuint64_t flags)
{
    void *found = NULL,
         *symbol = dlsym(library, is_first ? "cuGetProcAddress" : "cuGetProcAddress_v2");
    CUdriverProcAddressQueryResult status;
    PFN_cuGetProcAddress_v11030 first;
    PFN_cuGetProcAddress_v12000 second;
    memcpy(&first, &symbol, sizeof(first));
    memcpy(&second, &symbol, sizeof(second));
    if (symbol == NULL)
        return NULL;
    /* The one asks for the oldest version that will do, the other for what it was compiled with:
     * the same function, but for the one that has changed since. */
    int version = is_first || strcmp(wanted->name, "cuCtxCreate") == 0 ? wanted->version : 12080;
    CUresult result = is_first ? first(wanted->name, &found, version, flags)
                               : second(wanted->name, &found, version, flags, &status);
    return result == CUDA_SUCCESS ? found : NULL;
}

int reach_driver(const char *way)
{
    void *library = library_open();
    if (library == NULL)
        return -1;
    int is_thread = strstr(way, "thread") != NULL;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *found = NULL;
        if (strncmp(way, "dlsym", 5) == 0)
            found = by_symbol(library, &functions[i], is_thread);
        else if (strncmp(way, "lookup", 6) == 0)
            found = by_look_up(library, &functions[i], way[6] == '1',
                               is_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                         : CU_GET_PROC_ADDRESS_LEGACY_STREAM);
        CUresult (*instead)(void) = lacking;
        if (found == NULL && getenv("ENGINE_MAY_LACK") != NULL)
            memcpy(&found, &instead, sizeof(found));
        memcpy((char *)&cu + functions[i].offset, &found, sizeof(found));
        if (found == NULL) {
            fprintf(stderr, "%s was not found by %s\n", functions[i].name, way);
            return -1;
        }
    }
    return 0;
}

#endif
