/* SPDX-License-Identifier: Apache-2.0 */
/* Files that come with the command, and lie in a known place as seen from it. */
#ifndef TENURE_TOOLS_BESIDE_H
#define TENURE_TOOLS_BESIDE_H

#include <limits.h>
#include <stddef.h>

/* The first of some files that is there and can be read, each given by its path from the command's
 * own folder: as it is installed, as it is built. `path` gets its whole path, without links. 0, or
 * -1 with an empty path: there is none. */
int beside_find(char path[PATH_MAX], const char *const *files, size_t count);

#endif
