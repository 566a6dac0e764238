/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver under the runtime, and the context that each thread works in.
 *
 * A thread without a current context gets the primary context of its device at its first call, as
 * with NVIDIA's runtime. The lock guards which primary contexts are retained.
 */
#include "rt.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

rt_driver rt;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cudaError_t opened = cudaErrorInitializationError;
static int is_forked;                   /* in a child of a process that had the driver */
static int is_retained[RT_DEVICES_MAX]; /* under the lock */

static _Thread_local int thread_device;

void rt_say(const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    fprintf(stderr, "simcudart: %s\n", text);
}

/* ---- the driver ----------------------------------------------------------------------------- */

/* ISO C has no cast from an object's pointer to a function's. */
static int call_find(void *library, const char *name, void *out)
{
    void *symbol = dlsym(library, name);
    memcpy(out, &symbol, sizeof(symbol));
    return symbol != NULL;
}

static cudaError_t calls_find(void *library)
{
    static const char *const names[] = {
#define CALL_NAME(name) #name
#define CALL(name) CALL_NAME(name),
#include "driver.def"
#include "graph_driver.def"
#undef CALL
    };
    char *table = (char *)&rt;
    if (!call_find(library, "simcuda_kernel_known", &rt.kernel_known)) {
        rt_say("this CUDA runtime is for the simulated device, and the driver is a real one. Start "
               "the program with tenure run --driver sim, or take this library off its path");
        return cudaErrorInsufficientDriver;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!call_find(library, names[i], table + i * sizeof(void *))) {
            rt_say("the driver has no %s: it and this runtime are of two versions of Tenure",
                   names[i]);
            return cudaErrorInsufficientDriver;
        }
    return cudaSuccess;
}

static void fork_child(void)
{
    is_forked = 1;
}

static void driver_open(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        rt_say("no driver: %s", dlerror());
        opened = cudaErrorInsufficientDriver;
        return;
    }
    opened = calls_find(library);
    if (opened == cudaSuccess)
        opened = (cudaError_t)rt.cuInit(0);
    (void)pthread_atfork(NULL, NULL, fork_child);
}

cudaError_t rt_open(void)
{
    pthread_once(&once, driver_open);
    if (!is_forked)
        return rt_fail(opened);
    static int was_said;
    if (!was_said) {
        was_said = 1;
        rt_say("this process was forked by one that used CUDA before: CUDA does not work here, as "
               "on a GPU. Fork before the first call, or start a program of its own");
    }
    return rt_fail(cudaErrorInitializationError);
}

/* ---- contexts ------------------------------------------------------------------------------- */

CUresult rt_primary(int device, CUcontext *context)
{
    unsigned flags = 0;
    int is_active = 0;
    pthread_mutex_lock(&lock);
    CUresult result = rt.cuDevicePrimaryCtxGetState(device, &flags, &is_active);
    if (result == CUDA_SUCCESS)
        result = rt.cuDevicePrimaryCtxRetain(context, device);
    if (result == CUDA_SUCCESS && is_active && is_retained[device])
        (void)rt.cuDevicePrimaryCtxRelease(device); /* one reference of ours is enough */
    else if (result == CUDA_SUCCESS)
        is_retained[device] = 1;
    pthread_mutex_unlock(&lock);
    return result;
}

int rt_device(void)
{
    CUcontext context = NULL;
    CUdevice device = thread_device;
    if (rt.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != NULL)
        (void)rt.cuCtxGetDevice(&device);
    return device;
}

void rt_device_choose(int device)
{
    thread_device = device;
}

cudaError_t rt_begin(void)
{
    CUcontext context = NULL;
    cudaError_t error = rt_open();
    if (error != cudaSuccess)
        return error;
    CUresult result = rt.cuCtxGetCurrent(&context);
    if (result == CUDA_SUCCESS && context == NULL) {
        result = rt_primary(thread_device, &context);
        if (result == CUDA_SUCCESS)
            result = rt.cuCtxSetCurrent(context);
    }
    return rt_end(result);
}
