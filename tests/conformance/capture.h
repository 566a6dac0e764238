/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that the scenarios about capture share. */
#ifndef TENURE_TESTS_CONFORMANCE_CAPTURE_H
#define TENURE_TESTS_CONFORMANCE_CAPTURE_H

#include "scenario.h"

void capture_begin(CUstream stream, CUstreamCaptureMode mode);
CUstreamCaptureStatus capture_status_of(CUstream stream);
void expect_status(const char *label, CUstream stream, CUstreamCaptureStatus expected);
void expect_end(const char *label, CUstream stream, CUresult expected);
size_t capture_dependencies(CUstream stream);

#endif
