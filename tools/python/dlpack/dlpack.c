/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exports of blocks by DLPack: see dlpack.h.
 *
 * A deleter uses nothing of Python's, so it may run in any thread and at any time up to the end of
 * the process. It cannot report that something failed. So a failure makes the block stay longer,
 * never shorter. If the use of a stream cannot be recorded, the block is freed as by cudaFree,
 * behind all that the device was given. If that fails too, the block stays.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_DEFAULT */
#endif

#include "dlpack.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct tenure_shared {
    void *ptr;
    atomic_int count;         /* of those who have it */
    atomic_int must_wait_all; /* a use could not be recorded */
};

typedef struct exported {
    union {
        dlpack_managed managed;
        dlpack_versioned versioned;
    } is;
    tenure_shared *shared;
    tnr_stream stream;
    tenure_dlpack_end end;
    int64_t numbers[]; /* shape and strides */
} exported;

/* Written once, before there is a block. */
static struct {
    tnr_status (*record_use)(const void *, tnr_stream);
    tnr_status (*free_ordered)(void *);
    tnr_status (*free_sync)(void *);
} tenure;

__attribute__((visibility("default"))) void tenure_dlpack_begin(
    tnr_status (*record_use)(const void *, tnr_stream), tnr_status (*free_ordered)(void *),
    tnr_status (*free_sync)(void *))
{
    tenure.record_use = record_use;
    tenure.free_ordered = free_ordered;
    tenure.free_sync = free_sync;
}

__attribute__((visibility("default"))) tenure_shared *tenure_shared_create(void *ptr)
{
    tenure_shared *shared = malloc(sizeof(*shared));
    if (shared == NULL)
        return NULL;
    shared->ptr = ptr;
    atomic_init(&shared->count, 1);
    atomic_init(&shared->must_wait_all, 0);
    return shared;
}

__attribute__((visibility("default"))) void tenure_shared_drop(tenure_shared *shared)
{
    if (atomic_fetch_sub(&shared->count, 1) != 1)
        return;
    /* A refusal cannot be told to anybody: the memory stays allocated, and nobody else gets it. */
    if (shared->ptr != NULL &&
        (atomic_load(&shared->must_wait_all) || tenure.free_ordered(shared->ptr) != TNR_OK)) {
        tnr_status ignored = tenure.free_sync(shared->ptr);
        (void)ignored;
    }
    free(shared);
}

static void export_end(exported *made)
{
    tenure_shared *shared = made->shared;
    if (shared->ptr != NULL && (made->end == TENURE_DLPACK_UNKNOWN ||
                                (made->end == TENURE_DLPACK_STREAM &&
                                 tenure.record_use(shared->ptr, made->stream) != TNR_OK)))
        atomic_store(&shared->must_wait_all, 1);
    free(made);
    tenure_shared_drop(shared);
}

static void managed_delete(dlpack_managed *managed)
{
    if (managed != NULL)
        export_end(managed->manager);
}

static void versioned_delete(dlpack_versioned *versioned)
{
    if (versioned != NULL)
        export_end(versioned->manager);
}

__attribute__((visibility("default"))) void *tenure_dlpack_export(tenure_shared *shared,
                                                                  const dlpack_tensor *tensor,
                                                                  int is_versioned,
                                                                  tnr_stream stream,
                                                                  tenure_dlpack_end end)
{
    size_t count = (size_t)tensor->dimensions, bytes = count * sizeof(int64_t);
    exported *made = malloc(sizeof(*made) + 2 * bytes);
    if (made == NULL)
        return NULL;
    dlpack_tensor *copy = is_versioned ? &made->is.versioned.tensor : &made->is.managed.tensor;
    *copy = *tensor;
    copy->shape = made->numbers;
    copy->strides = made->numbers + count;
    if (count > 0) {
        memcpy(copy->shape, tensor->shape, bytes);
        memcpy(copy->strides, tensor->strides, bytes);
    }
    if (is_versioned) {
        made->is.versioned.major = 1;
        made->is.versioned.minor = 0;
        made->is.versioned.manager = made;
        made->is.versioned.deleter = versioned_delete;
        made->is.versioned.flags = 0;
    } else {
        made->is.managed.manager = made;
        made->is.managed.deleter = managed_delete;
    }
    made->shared = shared;
    made->stream = stream;
    made->end = end;
    atomic_fetch_add(&shared->count, 1);
    return made;
}

__attribute__((visibility("default"))) void tenure_dlpack_cancel(void *made, int is_versioned)
{
    if (is_versioned)
        versioned_delete(made);
    else
        managed_delete(made);
}

/* Called by the interpreter, so it has these. */
__attribute__((visibility("default"))) void tenure_dlpack_capsule_end(void *capsule)
{
    static const char *const names[] = {"dltensor", "dltensor_versioned"};
    int (*is_valid)(void *, const char *);
    void *(*pointer_of)(void *, const char *);
    void *symbol = dlsym(RTLD_DEFAULT, "PyCapsule_IsValid");
    memcpy(&is_valid, &symbol, sizeof(symbol));
    symbol = dlsym(RTLD_DEFAULT, "PyCapsule_GetPointer");
    memcpy(&pointer_of, &symbol, sizeof(symbol));
    for (int i = 0; i < 2 && is_valid != NULL && pointer_of != NULL; i++) {
        /* A consumer gives the capsule another name. */
        if (is_valid(capsule, names[i]))
            tenure_dlpack_cancel(pointer_of(capsule, names[i]), i);
    }
}
