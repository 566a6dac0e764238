/* SPDX-License-Identifier: Apache-2.0 */
/* Files that come with the command, in a known place relative to it. */
#ifndef TENURE_TOOLS_BESIDE_H
#define TENURE_TOOLS_BESIDE_H

#include <limits.h>
#include <stddef.h>

/* Finds the first of some files that exists and can be read. Each is given by its path from the
 * command's own folder: as installed, as built. `path` gets the whole path, without links. Returns
 * 0, or -1 with an empty path if there is none. */
int beside_find(char path[PATH_MAX], const char *const *files, size_t count);

#endif
