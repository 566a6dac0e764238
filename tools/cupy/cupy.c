/* SPDX-License-Identifier: Apache-2.0 */
/* See tenure_cupy.h. */
#include "tenure_cupy.h"

#include <stdatomic.h>
#include <stdio.h>

static atomic_ulong failures;

unsigned long tenure_cupy_failures(void)
{
    return atomic_load(&failures);
}

static tnr_stream stream_now(const tenure_cupy *self)
{
    return (tnr_stream)self->current_stream();
}

void *tenure_cupy_malloc(void *param, size_t bytes, int device)
{
    void *ptr = NULL;
    if (tnr_malloc(&ptr, bytes, device, stream_now(param)) != TNR_OK)
        return NULL; /* the sentence is the thread's, and still there when Python asks for it */
    return ptr;
}

void tenure_cupy_free(void *param, void *ptr, int device)
{
    const tenure_cupy *self = param;
    (void)device;
    tnr_status status = TNR_ERR_INVALID_STREAM;
    if (self->is_freed_on_both)
        status = tnr_free_on(ptr, stream_now(self));
    /* A stream of another device cannot have used it without being ordered by hand. */
    if (status == TNR_ERR_INVALID_STREAM)
        status = tnr_free(ptr);
    /* A forked child destroys the arrays that it was born with: they are its parent's. */
    if (status != TNR_OK && status != TNR_ERR_AFTER_FORK) {
        atomic_fetch_add(&failures, 1);
        fprintf(stderr, "tenure: freeing an array: %s\n", tnr_last_error());
    }
}
