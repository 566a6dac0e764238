/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of the source, for reports that come while a program runs. The file of code that was asked
 * last stays open, since the frames of a stack come from few files.
 *
 * One thread at a time; two of them have a `code_lines` each.
 */
#ifndef TENURE_TOOLS_CODE_LINES_H
#define TENURE_TOOLS_CODE_LINES_H

#include "debug_info.h"

enum { CODE_LINES_PATH_BYTES = 1 << 13 };

typedef struct code_lines {
    budget limits;
    debug_info *opened; /* null: nothing is known of the file that was asked last, which is: */
    char path[CODE_LINES_PATH_BYTES], build_id[256];
} code_lines;

void code_lines_begin(code_lines *self);
void code_lines_end(code_lines *self);

/* What debug_info_find tells of a place in a file that has the build id (empty: any). The texts
 * live until the next call. */
size_t code_lines_find(code_lines *self, const char *path, const char *build_id, uint64_t offset,
                       debug_place *places);

#endif
