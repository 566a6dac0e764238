/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a stack begins for its reader: at the program's own frame. Between that frame and the
 * allocator lie Tenure, the library that `tenure run` puts under the program, the driver and the
 * CUDA runtime. A program may have the runtime linked in. Then only the function's name tells.
 *
 * For the checker, and for commands that show stacks.
 */
#ifndef TENURE_PRELOAD_BETWEEN_H
#define TENURE_PRELOAD_BETWEEN_H

/* 1 for a frame that lies between. `file` is the last part of its file's path; either may be empty,
 * or null where it is not known. */
int between_is(const char *file, const char *function);

#endif
