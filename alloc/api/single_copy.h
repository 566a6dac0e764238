/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One libtenure in a process. A second copy (another file, or the same one from another folder) has
 * tables of its own. It knows none of the first copy's blocks, streams and captures, so a pointer
 * or an announcement that reaches the wrong copy is lost, and nothing shows it until memory is
 * corrupt. So the copy that is started second refuses.
 */
#ifndef TNRI_API_SINGLE_COPY_H
#define TNRI_API_SINGLE_COPY_H

#include <tenure/status.h>

/* Claims the process for this copy. TNR_ERR_SECOND_COPY, with a text that names both files: another
 * copy has claimed it. If two copies claim at once, one is refused, or both are. Under the library
 * lock. */
tnr_status tnri_single_copy_claim(void);

/* Gives it back: the start has failed, or the library was shut down. */
void tnri_single_copy_release(void);

#endif
