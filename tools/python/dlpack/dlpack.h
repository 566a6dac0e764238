/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of `tenure.dlpack` that must not be Python: consumers of DLPack end a tensor from any
 * thread, without the interpreter's lock, and even when there is no interpreter any more. It is in
 * libtenure_python.so, which tools/python/tenure/dlpack.py loads.
 *
 * A shared block is held by its maker and by every export. When an export ends, it says on which
 * stream its use of the block ended. The last holder frees the block.
 */
#ifndef TENURE_DLPACK_H
#define TENURE_DLPACK_H

#include <stddef.h>
#include <stdint.h>

#include <tenure/alloc.h>

/* DLPack's structures, by its document of version 1.0: they are the same in each version 1. */
typedef struct dlpack_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t dimensions;
    uint8_t type_code, type_bits;
    uint16_t type_lanes;
    int64_t *shape, *strides; /* in elements */
    uint64_t byte_offset;
} dlpack_tensor;

/* In a capsule "dltensor". */
typedef struct dlpack_managed {
    dlpack_tensor tensor;
    void *manager;
    void (*deleter)(struct dlpack_managed *);
} dlpack_managed;

/* In a capsule "dltensor_versioned". */
typedef struct dlpack_versioned {
    uint32_t major, minor;
    void *manager;
    void (*deleter)(struct dlpack_versioned *);
    uint64_t flags;
    dlpack_tensor tensor;
} dlpack_versioned;

/* Where the use of an export ends. */
typedef enum tenure_dlpack_end {
    TENURE_DLPACK_OWN,    /* on the block's own stream, or it is none */
    TENURE_DLPACK_STREAM, /* on the stream that it was made for */
    TENURE_DLPACK_UNKNOWN /* on streams that nobody has named */
} tenure_dlpack_end;

typedef struct tenure_shared tenure_shared;

/* The functions of the libtenure that the process has. To be called before all others. */
void tenure_dlpack_begin(tnr_status (*record_use)(const void *, tnr_stream),
                         tnr_status (*free_ordered)(void *), tnr_status (*free_sync)(void *));

/* Takes a block over. NULL: no host memory; then the block is still the caller's. */
tenure_shared *tenure_shared_create(void *ptr);

/* One holder gives the block up. */
void tenure_shared_drop(tenure_shared *shared);

/* Makes what goes into a capsule: a dlpack_versioned if `is_versioned`, else a dlpack_managed.
 * Copies `tensor`, whose data are the block's, and its shape and strides. NULL: no host memory. */
void *tenure_dlpack_export(tenure_shared *shared, const dlpack_tensor *tensor, int is_versioned,
                           tnr_stream stream, tenure_dlpack_end end);

/* Ends an export that was not put into a capsule. */
void tenure_dlpack_cancel(void *made, int is_versioned);

/* The end of a capsule; Python calls it. If nobody has taken the tensor out, the tensor ends,
 * too. */
void tenure_dlpack_capsule_end(void *capsule);

#endif
