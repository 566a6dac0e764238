/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening the ELF files that a snapshot names, and the separate files that hold their debug
 * information.
 *
 * A path is data from a file that may be hostile. So only regular files are opened for reading, and
 * no files of the kernel's (in /proc or /sys, where reading can wait or do something). Only a file
 * with the requested build id is used. Nothing is ever fetched.
 */
#ifndef TENURE_TOOLS_DEBUG_FILE_H
#define TENURE_TOOLS_DEBUG_FILE_H

#include <stddef.h>

#include "elfutils.h"

typedef struct debug_file {
    int fd;   /* -1: closed */
    Elf *elf; /* null: closed */
} debug_file;

/* Opens the file if it is an executable or a shared library of this build (a build id in lower case
 * hexadecimal; null: of any, for a program that runs now). Returns 0, or -1; then `why` continues a
 * sentence that begins with the path. */
int debug_file_open(debug_file *file, const char *path, const char *build_id, char *why,
                    size_t why_bytes);
void debug_file_close(debug_file *file);

/* Opens the file with the debug information that was taken out of `from`, which is at `path`. It is
 * found by the build id, or beside `from` by the name that is left in `from`. Returns 0, or -1 if
 * there is none. */
int debug_file_open_apart(debug_file *file, const debug_file *from, const char *path,
                          const char *build_id);

#endif
