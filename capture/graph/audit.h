/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a CUDA graph refers to, and whether the guarantee holds for it.
 *
 * A report is made in two steps. nodes.h finds the words that are addresses of Tenure's. Then each
 * is judged against what the graph's capture handed out, what is kept for the graph, and the blocks
 * that are live. The report is a picture of one moment. Both steps are done under the graph lock.
 * Code that reads the report, a program's visitor among it, runs outside the lock, and may call
 * whatever it likes.
 */
#ifndef TNRI_GRAPH_AUDIT_H
#define TNRI_GRAPH_AUDIT_H

#include "graph/graph.h"
#include "graph/nodes.h"

typedef struct tnri_report {
    tnr_graph graph; /* 0: none */
    char name[TNRI_GRAPH_NAME_BYTES];
    int device; /* of the graph; -1: none */
    tnr_audit sums;
    tnri_unread unread[TNRI_UNREAD_MAX]; /* the first of them */
    tnr_audit_finding *findings;         /* in the order of the walk */
    size_t *extents; /* bytes from each one's address on; while the report is made */
    size_t findings_count, findings_room, extents_room;
} tnri_report;

/* Writes one to a file descriptor. */
tnr_status tnri_report_write(const tnri_report *report, tnr_audit_format format, int file);

#endif
