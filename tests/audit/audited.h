/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of audits share: kernels that only take addresses, graphs, and their findings. */
#ifndef TENURE_TESTS_AUDITED_H
#define TENURE_TESTS_AUDITED_H

#include "unit/unit.h"

#include <tenure/capture.h>
#include <tenure/sleep.h>

enum { AUDITED_MAX = 64 };

/* unit_start with the kernel known and device 0's context current. */
void audited_start(const char *conf, const char *setting);
/* unit_stop, and the context is current no more. */
int audited_stop(void **state);

/* Launches `taker`, which takes a pointer, a structure with a pointer in it, and a number; its
 * parameters as an array of pointers, or packed. The second pointer is the word at 16 of them. */
void take_pointers(tnr_stream stream, const void *first, const void *second);
void take_packed(tnr_stream stream, const void *first, const void *second);
void take_set(tnr_stream stream, void *at, size_t bytes);
void take_copy(tnr_stream stream, void *to, const void *from, size_t bytes);

void audited_begin(tnr_stream stream, tnr_pool pool, const char *name);
tnr_graph audited_end(tnr_stream stream, tnr_cuda_graph *cuda_graph);
/* Destroys a CUDA graph, and lets Tenure see it. */
void audited_destroy(tnr_cuda_graph cuda_graph);

/* The latest audit. A finding's text is a copy. */
typedef struct audited {
    tnr_audit sums;
    tnr_audit_finding findings[AUDITED_MAX];
    size_t count;
} audited;
extern audited seen;

/* Audits: the sums must agree with the findings. */
void audit(tnr_cuda_graph cuda_graph, tnr_graph graph);
/* The finding of the latest audit for an address, of which there must be one. */
const tnr_audit_finding *finding_at(const void *address);
/* How many findings have the verdict. */
size_t count_of(tnr_audit_verdict verdict);

/* What tnr_graph_audit_write writes, in memory that the fixture owns until the next call. */
const char *audit_text(tnr_cuda_graph cuda_graph, tnr_graph graph, tnr_audit_format format);

#endif
