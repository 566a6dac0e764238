/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `tenure run --check --findings FILE` has written: a line of JSON for each finding. Read,
 * with the lines of the source looked up, and put into the report.
 */
#ifndef TENURE_TOOLS_FINDINGS_H
#define TENURE_TOOLS_FINDINGS_H

#include "output.h"
#include "value.h"

typedef struct findings {
    value_heap heap;
    array lines; /* value: a dictionary each, as they stand in the file */
    budget *limits;
    int is_cut_off; /* the last line is not whole: the program died, or the disk was full */
} findings;

enum { FINDINGS_ERROR_BYTES = 2048 };

/* Reads a file. Returns 0, or -1 with a sentence; then limits->refused says if it was memory. To be
 * released in both cases. */
int findings_read(findings *to, const char *path, budget *limits, char error[FINDINGS_ERROR_BYTES]);
void findings_release(findings *from);

/* Adds `file`, `line` and the name of the function to each frame of the stacks, if the frame's
 * module is still the file that ran. Returns 0, or -1 without memory: then some frames have
 * none. */
int findings_look_up(findings *in);

/* Calls `visit` for the first `depth` frames of each stack. Leaves out lines in which the key `but`
 * is true; null: leaves out none. */
void findings_frames(const findings *in, const char *but, uint32_t depth,
                     void (*visit)(void *user, value frame), void *user);

/* A list of all lines as JSON that can stand inside HTML. */
void findings_write(const findings *from, output *out);

#endif
