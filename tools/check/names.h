/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a frame of a stack is. Of a return address: the file, the place in it and the function. Of
 * an interpreter's frame (python.h): the file, the line and the function. Functions that are not
 * exported are looked up in the file's table of symbols, if it was not stripped. Lines of the
 * source are not looked up here: `tenure run` does that when the program has ended.
 *
 * It asks the loader and opens files: call it without locks, and outside of Tenure. Any thread.
 */
#ifndef TENURE_PRELOAD_CHECK_NAMES_H
#define TENURE_PRELOAD_CHECK_NAMES_H

#include <stdint.h>

typedef struct check_frame {
    const char *path;     /* of the file; null: in none that is known */
    const char *name;     /* the last part of it */
    const char *build_id; /* hexadecimal digits; empty: it has none */
    uint64_t offset;      /* from where the file's first page lies */
    const char *function; /* null: not known */
    int is_interpreted;   /* an interpreter's: `path` is that of the code, and this is the line: */
    int line;
    int is_between;      /* of the CUDA runtime, the driver or Tenure: not the program's own */
    int is_outside;      /* of the C library and the like: between_is_outside */
    const char *mangled; /* the function as the linker names it, if that is another name */
} check_frame;

/* The texts live as long as the process. */
check_frame check_frame_of(const void *address);

#endif
