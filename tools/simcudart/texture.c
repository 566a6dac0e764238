/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface objects. No kernel reads one here: they are what the program said of them.
 *
 * An object's handle is an address inside of what it is made of, so that a kernel that has it as a
 * parameter counts as a use of that memory, as it does for a pointer.
 */
#include "array.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct texture {
    unsigned long long handle;
    int is_surface, has_view;
    struct cudaResourceDesc resource;
    struct cudaTextureDesc texture;
    struct cudaResourceViewDesc view;
    struct texture *next;
} texture;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static texture *textures; /* under the lock */

/* The object, and what leads to it. Under the lock. */
static texture **texture_find(unsigned long long handle, int is_surface)
{
    texture **at = &textures;
    while (*at != NULL && ((*at)->handle != handle || (*at)->is_surface != is_surface))
        at = &(*at)->next;
    return at;
}

void rt_textures_forget(CUdeviceptr begin, size_t bytes)
{
    pthread_mutex_lock(&lock);
    for (texture **at = &textures; *at != NULL;) {
        texture *one = *at;
        if (one->handle < begin || one->handle - begin >= bytes) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        free(one);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- making --------------------------------------------------------------------------------- */

/* Where its memory begins, and how much there is. */
static cudaError_t resource_check(const struct cudaResourceDesc *resource, CUdeviceptr *begin,
                                  size_t *bytes)
{
    const rt_array *array = NULL;
    switch (resource->resType) {
    case cudaResourceTypeArray:
        array = rt_array_get(resource->res.array.array);
        if (array == NULL)
            return cudaErrorInvalidResourceHandle;
        *begin = array->memory;
        *bytes = array->pitch * array->rows * array->layers;
        return cudaSuccess;
    case cudaResourceTypeMipmappedArray:
        return rt_unserved("mipmapped arrays");
    case cudaResourceTypeLinear:
        *begin = (CUdeviceptr)(uintptr_t)resource->res.linear.devPtr;
        *bytes = resource->res.linear.sizeInBytes;
        break;
    case cudaResourceTypePitch2D:
        *begin = (CUdeviceptr)(uintptr_t)resource->res.pitch2D.devPtr;
        if (__builtin_mul_overflow(resource->res.pitch2D.pitchInBytes, resource->res.pitch2D.height,
                                   bytes))
            return cudaErrorInvalidValue;
        break;
    default:
        return cudaErrorInvalidValue;
    }
    return *begin != 0 && *bytes != 0 ? cudaSuccess : cudaErrorInvalidValue;
}

/* Takes what was made, also where it fails. */
static cudaError_t texture_add(texture *made, CUdeviceptr begin, size_t bytes,
                               unsigned long long *handle)
{
    pthread_mutex_lock(&lock);
    made->handle = begin;
    while (made->handle < begin + bytes &&
           (*texture_find(made->handle, 0) != NULL || *texture_find(made->handle, 1) != NULL))
        made->handle++;
    int is_full = made->handle == begin + bytes;
    if (!is_full) {
        made->next = textures;
        textures = made;
        *handle = made->handle;
    }
    pthread_mutex_unlock(&lock);
    if (is_full)
        free(made);
    return is_full ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaCreateTextureObject(cudaTextureObject_t *pTexObject,
                                    const struct cudaResourceDesc *pResDesc,
                                    const struct cudaTextureDesc *pTexDesc,
                                    const struct cudaResourceViewDesc *pResViewDesc)
{
    CUdeviceptr begin = 0;
    size_t bytes = 0;
    RT_BEGIN();
    if (pTexObject == NULL || pResDesc == NULL || pTexDesc == NULL)
        return rt_fail(cudaErrorInvalidValue);
    cudaError_t error = resource_check(pResDesc, &begin, &bytes);
    if (error != cudaSuccess)
        return rt_fail(error);
    texture *made = calloc(1, sizeof(*made));
    if (made == NULL)
        return rt_fail(cudaErrorMemoryAllocation);
    made->resource = *pResDesc;
    made->texture = *pTexDesc;
    made->has_view = pResViewDesc != NULL;
    if (made->has_view)
        made->view = *pResViewDesc;
    return rt_fail(texture_add(made, begin, bytes, pTexObject));
}

cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *pSurfObject,
                                    const struct cudaResourceDesc *pResDesc)
{
    CUdeviceptr begin = 0;
    size_t bytes = 0;
    RT_BEGIN();
    if (pSurfObject == NULL || pResDesc == NULL || pResDesc->resType != cudaResourceTypeArray)
        return rt_fail(cudaErrorInvalidValue);
    cudaError_t error = resource_check(pResDesc, &begin, &bytes);
    if (error != cudaSuccess)
        return rt_fail(error);
    if ((rt_array_get(pResDesc->res.array.array)->flags & cudaArraySurfaceLoadStore) == 0)
        return rt_fail(cudaErrorInvalidValue);
    texture *made = calloc(1, sizeof(*made));
    if (made == NULL)
        return rt_fail(cudaErrorMemoryAllocation);
    made->is_surface = 1;
    made->resource = *pResDesc;
    return rt_fail(texture_add(made, begin, bytes, pSurfObject));
}

static cudaError_t texture_end(unsigned long long handle, int is_surface)
{
    RT_BEGIN();
    pthread_mutex_lock(&lock);
    texture **at = texture_find(handle, is_surface);
    texture *gone = *at;
    if (gone != NULL)
        *at = gone->next;
    pthread_mutex_unlock(&lock);
    free(gone);
    return rt_fail(gone == NULL ? cudaErrorInvalidValue : cudaSuccess);
}

cudaError_t cudaDestroyTextureObject(cudaTextureObject_t texObject)
{
    return texture_end(texObject, 0);
}

cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t surfObject)
{
    return texture_end(surfObject, 1);
}

/* ---- asking --------------------------------------------------------------------------------- */

/* A copy of the object; of none, an error. */
static cudaError_t texture_copy(unsigned long long handle, int is_surface, const void *out,
                                texture *copy)
{
    RT_BEGIN();
    pthread_mutex_lock(&lock);
    const texture *one = *texture_find(handle, is_surface);
    if (one != NULL)
        *copy = *one;
    pthread_mutex_unlock(&lock);
    return rt_fail(one == NULL || out == NULL ? cudaErrorInvalidValue : cudaSuccess);
}

cudaError_t cudaGetTextureObjectResourceDesc(struct cudaResourceDesc *pResDesc,
                                             cudaTextureObject_t texObject)
{
    texture copy;
    cudaError_t error = texture_copy(texObject, 0, pResDesc, &copy);
    if (error == cudaSuccess)
        *pResDesc = copy.resource;
    return error;
}

cudaError_t cudaGetTextureObjectTextureDesc(struct cudaTextureDesc *pTexDesc,
                                            cudaTextureObject_t texObject)
{
    texture copy;
    cudaError_t error = texture_copy(texObject, 0, pTexDesc, &copy);
    if (error == cudaSuccess)
        *pTexDesc = copy.texture;
    return error;
}

cudaError_t cudaGetTextureObjectResourceViewDesc(struct cudaResourceViewDesc *pResViewDesc,
                                                 cudaTextureObject_t texObject)
{
    texture copy;
    cudaError_t error = texture_copy(texObject, 0, pResViewDesc, &copy);
    if (error == cudaSuccess && !copy.has_view)
        return rt_fail(cudaErrorInvalidValue);
    if (error == cudaSuccess)
        *pResViewDesc = copy.view;
    return error;
}

cudaError_t cudaGetSurfaceObjectResourceDesc(struct cudaResourceDesc *pResDesc,
                                             cudaSurfaceObject_t surfObject)
{
    texture copy;
    cudaError_t error = texture_copy(surfObject, 1, pResDesc, &copy);
    if (error == cudaSuccess)
        *pResDesc = copy.resource;
    return error;
}
