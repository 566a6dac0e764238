/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of stream.h, the registry and the marks, ask of each other. */
#ifndef TNRI_STREAM_MARK_H
#define TNRI_STREAM_MARK_H

#include "stream/stream.h"

/* What the driver's refusal of a call that names a stream means. */
tnr_status tnri_stream_error(CUresult result, const char *call, tnr_stream handle);

/* Asks the driver who a stream is that was met in a capture and has not been asked since, if it may
 * be asked now. Does nothing for all others. Best effort. In the context, no lock held. */
void tnri_stream_introduce(tnri_stream *stream);

#endif
