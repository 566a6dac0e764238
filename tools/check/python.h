/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that are Python, and frames of an interpreter in stacks. The functions are those that an
 * interpreter's module gives libtenure (tnr_frames_source_set in <tenure/history.h>). */
#ifndef TENURE_PRELOAD_CHECK_PYTHON_H
#define TENURE_PRELOAD_CHECK_PYTHON_H

#include <tenure/history.h>

/* For Tenure's Python module (tools/python/tenure/_under.py): it is under the program. */
void tenure_preload_python(void);

/* The same: the module has put Tenure under an engine's memory, in a program that knows nothing of
 * Tenure and is written for the engine's own allocator. Then no graph keeps alive what it uses. */
void tenure_preload_under(void);
int check_is_put_under(void);

/* The same: the interpreter ends, and frees what the program has left allocated. */
void tenure_preload_ending(void);
int check_python_ends(void);

/* Says, once, if this process has an interpreter in which the module is not. When memory is first
 * served; outside of all locks. */
void check_python_missing(void);

/* The functions, as tnr_frames_source_set was given them. */
void check_frames_from(tnr_frames_take take, tnr_frames_describe describe);

/* The interpreter's frames of the calling thread; 0: none. Outside of all locks. */
size_t check_frames_take(uintptr_t *frames, size_t room);

/* 1 if a frame of a stack is an interpreter's: no address of code has its uppermost bit. */
static inline int check_frame_is_described(const void *frame)
{
    return (uintptr_t)frame >> (sizeof(frame) * 8 - 1) != 0;
}

/* The same; then *info says what it is. */
int check_frame_describe(tnr_frame_info *info, const void *frame);

#endif
