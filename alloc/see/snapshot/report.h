/* SPDX-License-Identifier: Apache-2.0 */
/* The report on an allocation that failed, for people: a text beside the snapshot. */
#ifndef TNRI_SNAPSHOT_REPORT_H
#define TNRI_SNAPSHOT_REPORT_H

#include "base/bytes_text.h"
#include "see/snapshot/picture.h"
#include "see/snapshot/sink.h"

/* Writes it. `sentence` is the error's text; `device` and `bytes` are of the request. */
void tnri_oom_text_write(tnri_sink *sink, const tnri_picture *picture, const char *sentence,
                         int device, size_t bytes);

#endif
