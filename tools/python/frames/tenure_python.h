/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libtenure_python.so: frames of Python for the stacks of libtenure's history and of the checker
 * (tnr_frames_source_set in <tenure/history.h>). tools/python/tenure/_frames.py loads it when
 * stacks are wanted; other programs pay nothing for it.
 */
#ifndef TENURE_PYTHON_H
#define TENURE_PYTHON_H

#include <tenure/history.h>

/* Learns how the frames of this interpreter lie in memory. Frames of files in the folder are
 * Tenure's own, and left out. Call it with the interpreter's lock, from a Python function whose
 * caller, and that caller's caller, are Python functions too. 1: there are frames from now on.
 */
int tenure_python_begin(const char *folder);

/* The two functions for tnr_frames_source_set. */
size_t tenure_python_take(uintptr_t *frames, size_t room);
void tenure_python_describe(tnr_frame_info *info, uintptr_t frame);

#endif
