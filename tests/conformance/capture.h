/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that the scenarios about capture share. */
#ifndef TENURE_TESTS_CONFORMANCE_CAPTURE_H
#define TENURE_TESTS_CONFORMANCE_CAPTURE_H

#include "scenario.h"

void capture_begin(CUstream stream, CUstreamCaptureMode mode);
CUstreamCaptureStatus capture_status_of(CUstream stream);
void expect_status(const char *label, CUstream stream, CUstreamCaptureStatus expected);
void expect_end(const char *label, CUstream stream, CUresult expected);
void expect_outcome(CUstream origin, int broken); /* its capture is invalid, or active; ends it */
size_t capture_dependencies(CUstream stream);     /* of the stream's next operation */
CUgraph capture_graph(CUstream stream);
CUgraphNode capture_node(CUstream stream); /* the stream's latest; it must have one */
size_t capture_node_count(CUgraph graph);
void expect_node_type(const char *label, CUstream stream, CUgraphNodeType expected);
void capture_fork_to(CUstream from, CUstream to); /* by an event */

#endif
