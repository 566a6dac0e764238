/* SPDX-License-Identifier: Apache-2.0 */
/* The writers of pictures, and what they share. */
#ifndef TNRI_SNAPSHOT_FORMATS_H
#define TNRI_SNAPSHOT_FORMATS_H

#include "see/snapshot/picture.h"
#include "see/snapshot/sink.h"

/* Each writes a picture. Errors of the sink are kept in the sink. 0: no host memory. */
int tnri_json_write(tnri_sink *sink, const tnri_picture *picture);
int tnri_pickle_write(tnri_sink *sink, const tnri_picture *picture);

/* What PyTorch makes of a record: up to three entries of a trace. */
enum {
    TNRI_TRACE_NONE = 0,
    TNRI_TRACE_ALLOC = 1,
    TNRI_TRACE_FREE_REQUESTED = 2,
    TNRI_TRACE_FREE_COMPLETED = 4,
    TNRI_TRACE_SEGMENT_MAP = 8,
    TNRI_TRACE_SEGMENT_UNMAP = 16,
    TNRI_TRACE_OTHER = 32 /* oom, snapshot */
};

typedef struct tnri_trace {
    size_t count;     /* of the picture's records, in its order */
    uint8_t *entries; /* for each record, what it is in a trace that is read backwards from the
                       * picture */
    uint64_t *before; /* for each growth, the size asked for before it; else nothing */
    size_t left_out;  /* records that the picture contradicts, or from before the first gap */
} tnri_trace;

/* Selects what can stand in a trace that PyTorch's viewer reads. 0: no host memory, and there is
 * nothing to free. */
int tnri_trace_select(const tnri_picture *picture, tnri_trace *trace);
void tnri_trace_free(tnri_trace *trace);

#endif
