/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that a program loads while it runs: fat binaries and machine code, from memory or a file.
 *
 * A library is registered as nvcc's output registers itself (module.c), with a byte of its own as
 * the entry of each kernel and the shadow of each variable. So its kernels are launched, described
 * and run on the host as others are. PTX would have to be compiled, and is refused.
 */
#include "rt.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"

typedef struct library {
    void *image; /* a copy: the program may free its own */
    void **binary;
    const rt_code *code;
    char *entries; /* a byte for each kernel */
    char *shadows; /* and for each variable */
    struct library *next;
} library;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static library *libraries; /* under the lock */

static library *library_get(cudaLibrary_t handle)
{
    pthread_mutex_lock(&lock);
    library *one = libraries;
    while (one != NULL && (cudaLibrary_t)(void *)one != handle)
        one = one->next;
    pthread_mutex_unlock(&lock);
    return one;
}

/* ---- loading -------------------------------------------------------------------------------- */

static void library_free(library *gone)
{
    if (gone->binary != NULL)
        __cudaUnregisterFatBinary(gone->binary);
    free(gone->image);
    free(gone->entries);
    free(gone->shadows);
    free(gone);
}

static cudaError_t names_register(library *made)
{
    made->entries = malloc(made->code->kernel_count + 1);
    made->shadows = malloc(made->code->variable_count + 1);
    if (made->entries == NULL || made->shadows == NULL)
        return cudaErrorMemoryAllocation;
    for (size_t i = 0; i < made->code->kernel_count; i++)
        __cudaRegisterFunction(made->binary, &made->entries[i], &made->entries[i],
                               made->code->kernels[i].name, -1, NULL, NULL, NULL, NULL, NULL);
    for (size_t i = 0; i < made->code->variable_count; i++)
        __cudaRegisterVar(made->binary, &made->shadows[i], &made->shadows[i],
                          made->code->variables[i].name, 0, made->code->variables[i].bytes, 0, 0);
    return cudaSuccess;
}

/* Takes the image, also where it fails. */
static cudaError_t image_load(library **out, void *image)
{
    rt_fatbin_wrapper wrapper = {RT_WRAPPER_MAGIC, 1, image, NULL};
    library *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        free(image);
        return cudaErrorMemoryAllocation;
    }
    made->image = image;
    made->binary = __cudaRegisterFatBinary(&wrapper);
    made->code = rt_binary_code((rt_binary *)made->binary);
    cudaError_t error = cudaSuccess;
    if (made->code->kernel_count == 0 && made->code->variable_count == 0) {
        rt_say("code that the program loads has no machine code that can be read here: build it "
               "for an architecture (-arch=sm_90), and not as PTX alone");
        error = cudaErrorNoKernelImageForDevice;
    }
    if (error == cudaSuccess)
        error = names_register(made);
    if (error != cudaSuccess) {
        library_free(made);
        return error;
    }
    pthread_mutex_lock(&lock);
    made->next = libraries;
    libraries = made;
    pthread_mutex_unlock(&lock);
    *out = made;
    return cudaSuccess;
}

/* How long the code is, which says so itself; 0: it is of no kind that is known. */
static size_t image_bytes(const void **image)
{
    rt_fatbin_wrapper wrapper;
    memcpy(&wrapper.magic, *image, sizeof(wrapper.magic));
    if (wrapper.magic == RT_WRAPPER_MAGIC) {
        memcpy(&wrapper, *image, sizeof(wrapper));
        *image = wrapper.data;
    }
    return rt_fatbin_bytes(*image, SIZE_MAX);
}

/* Of text: PTX begins with comments and its version. */
static cudaError_t text_refuse(const char *text)
{
    int is_text = strncmp(text, "//", 2) == 0 || strncmp(text, ".version", 8) == 0;
    if (is_text)
        rt_say("the program loads PTX, for which the simulated device has no compiler: load code "
               "for an architecture (nvcc -cubin -arch=sm_90)");
    return is_text ? cudaErrorJitCompilerNotFound : cudaErrorInvalidKernelImage;
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library_out, const void *code,
                                enum cudaJitOption *jitOptions, void **jitOptionsValues,
                                unsigned int numJitOptions, enum cudaLibraryOption *libraryOptions,
                                void **libraryOptionValues, unsigned int numLibraryOptions)
{
    (void)jitOptions, (void)jitOptionsValues, (void)numJitOptions;
    (void)libraryOptions, (void)libraryOptionValues, (void)numLibraryOptions;
    library *made = NULL;
    RT_BEGIN();
    if (library_out == NULL || code == NULL)
        return rt_fail(cudaErrorInvalidValue);
    size_t bytes = image_bytes(&code);
    if (bytes == 0)
        return rt_fail(text_refuse(code));
    void *copy = malloc(bytes);
    if (copy == NULL)
        return rt_fail(cudaErrorMemoryAllocation);
    memcpy(copy, code, bytes);
    cudaError_t error = image_load(&made, copy);
    if (error == cudaSuccess)
        *library_out = (cudaLibrary_t)(void *)made;
    return rt_fail(error);
}

/* The file's contents, with zeros behind them; null where it cannot be read. */
static char *file_read(const char *path, size_t *bytes)
{
    size_t used = 0, room = 1 << 16;
    FILE *file = fopen(path, "rb");
    char *contents = file == NULL ? NULL : malloc(room);
    while (contents != NULL) {
        used += fread(contents + used, 1, room - used - 1, file);
        if (used + 1 < room)
            break;
        char *grown = realloc(contents, room *= 2);
        if (grown == NULL)
            free(contents);
        contents = grown;
    }
    int is_wrong = file != NULL && ferror(file);
    if (file != NULL)
        fclose(file);
    if (contents != NULL)
        memset(contents + used, 0, room - used);
    if (is_wrong) {
        free(contents);
        contents = NULL;
    }
    *bytes = used;
    return contents;
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *library_out, const char *fileName,
                                    enum cudaJitOption *jitOptions, void **jitOptionsValues,
                                    unsigned int numJitOptions,
                                    enum cudaLibraryOption *libraryOptions,
                                    void **libraryOptionValues, unsigned int numLibraryOptions)
{
    RT_BEGIN();
    if (library_out == NULL || fileName == NULL)
        return rt_fail(cudaErrorInvalidValue);
    size_t bytes = 0;
    char *contents = file_read(fileName, &bytes);
    if (contents == NULL)
        return rt_fail(cudaErrorFileNotFound);
    if (rt_fatbin_bytes(contents, bytes) > bytes) { /* it was cut short */
        free(contents);
        return rt_fail(cudaErrorInvalidKernelImage);
    }
    cudaError_t error =
        cudaLibraryLoadData(library_out, contents, jitOptions, jitOptionsValues, numJitOptions,
                            libraryOptions, libraryOptionValues, numLibraryOptions);
    free(contents);
    return error;
}

cudaError_t cudaLibraryUnload(cudaLibrary_t handle)
{
    RT_BEGIN();
    pthread_mutex_lock(&lock);
    library **at = &libraries;
    while (*at != NULL && (cudaLibrary_t)(void *)*at != handle)
        at = &(*at)->next;
    library *gone = *at;
    if (gone != NULL)
        *at = gone->next;
    pthread_mutex_unlock(&lock);
    if (gone == NULL)
        return rt_fail(cudaErrorInvalidResourceHandle);
    library_free(gone);
    return cudaSuccess;
}

/* ---- what is in it -------------------------------------------------------------------------- */

cudaError_t cudaLibraryGetKernelCount(unsigned int *count, cudaLibrary_t lib)
{
    RT_BEGIN();
    const library *one = library_get(lib);
    if (one == NULL || count == NULL)
        return rt_fail(one == NULL ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue);
    *count = (unsigned)one->code->kernel_count;
    return cudaSuccess;
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned int numKernels,
                                        cudaLibrary_t lib)
{
    RT_BEGIN();
    const library *one = library_get(lib);
    if (one == NULL || kernels == NULL)
        return rt_fail(one == NULL ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue);
    for (size_t i = 0; i < numKernels && i < one->code->kernel_count; i++)
        kernels[i] = (cudaKernel_t)(void *)rt_kernel_find(&one->entries[i]);
    return cudaSuccess;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *pKernel, cudaLibrary_t handle, const char *name)
{
    RT_BEGIN();
    const library *one = library_get(handle);
    if (one == NULL || pKernel == NULL || name == NULL)
        return rt_fail(one == NULL ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue);
    for (size_t i = 0; i < one->code->kernel_count; i++)
        if (strcmp(one->code->kernels[i].name, name) == 0) {
            *pKernel = (cudaKernel_t)(void *)rt_kernel_find(&one->entries[i]);
            return cudaSuccess;
        }
    return rt_fail(cudaErrorSymbolNotFound);
}

cudaError_t cudaLibraryGetGlobal(void **dptr, size_t *bytes, cudaLibrary_t handle, const char *name)
{
    CUdeviceptr address = 0;
    RT_BEGIN();
    const library *one = library_get(handle);
    if (one == NULL || name == NULL)
        return rt_fail(one == NULL ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue);
    size_t i = 0;
    while (i < one->code->variable_count && strcmp(one->code->variables[i].name, name) != 0)
        i++;
    if (i == one->code->variable_count)
        return rt_fail(cudaErrorSymbolNotFound);
    cudaError_t error = rt_variable(&one->shadows[i], &address, bytes);
    if (error == cudaSuccess && dptr != NULL)
        *dptr = (void *)(uintptr_t)address;
    return error;
}
