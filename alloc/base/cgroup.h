/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups: the folders of the kernel that say what the process and the groups around it may
 * have, and what is read from the files there. What the numbers mean is their readers' business:
 * host_limit.h, dmem.h.
 *
 * A file may be missing, be empty, have text in it, or vanish while it is read: then it says
 * nothing. For any thread. No lock, no host memory; reads files.
 */
#ifndef TNRI_BASE_CGROUP_H
#define TNRI_BASE_CGROUP_H

#include <stddef.h>
#include <stdint.h>

enum { TNRI_CGROUP_PATH_BYTES = 4096, TNRI_CGROUP_FILE_BYTES = 16384 };

/* The folder that /proc and /sys are looked for in; tests have their own. */
extern const char *tnri_cgroup_root;

/* Reads the beginning of a file as text; 0: there is none, or nothing in it. */
size_t tnri_cgroup_file(const char *path, char *text, size_t room);

/* The number that a text begins with; 0 if it does not, as with "max" or "-1". */
int tnri_cgroup_number(const char *text, uint64_t *number);

/* Calls `visit` for the process's own group, and each around it, with the path of its folder: below
 * `folder`, by the path that stands behind `line` in /proc/self/cgroup. A container may see its own
 * group as the uppermost folder, and nothing of the path: `folder` itself comes last. */
typedef void (*tnri_cgroup_visit)(const char *path, void *with);
void tnri_cgroup_walk(const char *folder, const char *line, tnri_cgroup_visit visit, void *with);

#endif
