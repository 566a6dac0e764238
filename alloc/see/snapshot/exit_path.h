/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that a process leaves at its end. A program may have many processes, which all have the
 * one setting: each gets a file of its own.
 */
#ifndef TNRI_SNAPSHOT_EXIT_PATH_H
#define TNRI_SNAPSHOT_EXIT_PATH_H

#include <stddef.h>
#include <stdint.h>

enum { TNRI_EXIT_PATH_BYTES = 2048 };

/* The path that the setting says: %p is the process's number, %r its rank (of torchrun, Open MPI,
 * Slurm or PMI; 0 without one), %h the machine's name. */
void tnri_exit_path(char path[TNRI_EXIT_PATH_BYTES], const char *setting);

/* Makes sure that the file at the path is no other process's of the same run: one that was written
 * since `since_ns` of the real-time clock, and not by this process. If it is, the path becomes
 * another one, with the process's number before the end of the name. Returns a descriptor that
 * keeps others out until tnri_exit_path_leave, or -1 where nothing can. *is_moved: 1 if the path
 * is another one now. One thread of the process at a time. */
int tnri_exit_path_enter(char path[TNRI_EXIT_PATH_BYTES], int64_t since_ns, int *is_moved);
void tnri_exit_path_leave(int descriptor, const char *path);

#endif
