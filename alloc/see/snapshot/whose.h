/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose code a frame of a stack is. A stack that was taken inside an allocator has a few frames of
 * the program's own among many of others: the recorder's, the allocator's, the framework's, the
 * interpreter's. A reader wants the program's. This is the one rule for all that names stacks: the
 * text of an allocation that failed, and the commands that show snapshots, which compile this file.
 *
 * The frame is judged by its names alone, so that it does not matter where the snapshot is read.
 */
#ifndef TNRI_SNAPSHOT_WHOSE_H
#define TNRI_SNAPSHOT_WHOSE_H

#include <stddef.h>

/* Kinds of frames, a bit each. */
enum {
    TNRI_WHOSE_PROGRAM = 1,    /* the program's own, or of a library that is not known here */
    TNRI_WHOSE_PLAIN = 2,      /* a function of C of which only the name is known: the program's, or
                               * the interpreter's where the stack has frames of Python */
    TNRI_WHOSE_FRAMEWORK = 4,  /* it tells what a framework was doing: backward of a layer */
    TNRI_WHOSE_MACHINERY = 8,  /* dispatchers, interpreters, threads */
    TNRI_WHOSE_ALLOCATOR = 16, /* what recorded the stack, allocators, the CUDA runtime, Tenure */
    TNRI_WHOSE_PYTHON = 32,    /* beside another bit: a frame of Python */
};

/* What a frame is; any of the texts may be empty, or null. `file` is that of the source. `module`
 * is the last part of the path of the program or library. */
unsigned tnri_frame_whose(const char *function, const char *file, const char *module);

/* Which kinds are shown of a stack. `all` is the bits of all its frames together. */
unsigned tnri_stack_shown(unsigned all);

/* 1 for a frame that lies between a program and its memory: Tenure, the library that `tenure run`
 * puts under the program, the driver, the CUDA runtime. If a program has the runtime linked in,
 * only the function's name tells. */
int tnri_frame_is_between(const char *function, const char *module);

/* Where the name in a demangled function begins and ends, without its type and its parameters:
 * "at::native::empty_cuda" of "at::Tensor at::native::empty_cuda(long)". */
void tnri_function_name(const char *function, size_t *first, size_t *end);

#endif
