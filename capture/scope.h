/* SPDX-License-Identifier: Apache-2.0 */
/* Ending captures that Tenure began, for the layer itself. Inside the room. */
#ifndef TNRI_CAPTURE_SCOPE_H
#define TNRI_CAPTURE_SCOPE_H

#include "capture.h"

/* 1 if the calling thread may end the capture: Tenure began it, and the driver lets it. */
int tnri_scope_may_end(const tnri_capture *capture);

/* Ends a capture, in the driver too, and throws its graph away. */
void tnri_scope_abort(tnri_capture *capture);

#endif
