/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files for contents (TNR_CONTENT_DISK): a piece of ordinary memory with a file behind it, so that
 * the system can write it out and take the memory back.
 *
 * A file lies in the folder that the setting contents_dir names, for the process's user alone. It
 * has all its blocks of the disk before anything is written to it: a full disk refuses the sleep,
 * and not a store to the mapping. It goes when its contents are not needed any more, and at the
 * process's exit; a process that is killed leaves it. Its name is not removed while it is open,
 * which would end it with any process: programs of torch_memory_saver, and its tests, list the
 * folder during a pause, and add up what lies there.
 *
 * Any thread, with no lock.
 */
#ifndef TNRI_AWAY_DISK_H
#define TNRI_AWAY_DISK_H

#include <stddef.h>

#include <tenure/status.h>

/* A file has at most so many bytes. Each is a mapping, of which a process may have 65,530: those of
 * eight GPUs of 192 GiB take 24,576. Tests make it less. */
extern size_t tnri_disk_file_bytes;
/* The first of a pool has at most so many: programs of torch_memory_saver look for more than one
 * file. */
enum { TNRI_DISK_FIRST_BYTES = 8 << 20 };

typedef struct tnri_disk_file tnri_disk_file;

/* Makes a file of so many bytes, and maps it. TNR_ERR_INVALID_ARGUMENT: no folder is set.
 * TNR_ERR_FILE, TNR_ERR_HOST_MEMORY: it cannot be made. */
tnr_status tnri_disk_map(tnri_disk_file **file, void **memory, size_t bytes);
/* Waits until the disk has it all, and gives the memory back until it is read. TNR_ERR_FILE: the
 * disk has not; the contents are still in memory. */
tnr_status tnri_disk_settle(const tnri_disk_file *file, void *memory, size_t bytes);
/* Removes it. */
void tnri_disk_unmap(tnri_disk_file *file, void *memory, size_t bytes);

#endif
