/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two things that a trap makes a stream do: fill memory, and copy it to the host. Both name the
 * stream, so they are done under its lock, after a look whether it has ended or may be captured. In
 * the device's context, no lock held. Both return 0 if the stream was given nothing: it cannot be
 * named, or the driver refuses.
 */
#ifndef TNRI_TRAP_WORK_H
#define TNRI_TRAP_WORK_H

#include "see/trap/story.h"

int tnri_work_fill(tnri_stream *stream, uintptr_t address, unsigned char value, size_t bytes);
/* Asks what is to be looked at whether it is still there, under the stream's lock. Memory that is
 * free then loses its mapping only after a later mark of its stream, and so after the copy. */
int tnri_work_copy(tnri_stream *stream, void *host, const tnri_looked *looked);

#endif
