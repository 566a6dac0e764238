/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of the system: host memory by the page. */
#ifndef TNRI_BASE_PRIM_PAGES_H
#define TNRI_BASE_PRIM_PAGES_H

#include <stddef.h>

/* Zeroed memory, or null. `is_sparse`: most of it will never be touched, so the system need not be
 * able to give all of it. */
void *tnri_host_pages_map(size_t bytes, int is_sparse);
/* A file's first bytes, shared with the other processes that map them; null, and errno says why. */
void *tnri_host_pages_share(int file, size_t bytes);
/* Writes what is new in shared memory to its file, waits for the disk, and gives the memory back
 * until it is read again. 0, or an error number: the disk may not have it, and the memory has. */
int tnri_host_pages_settle(void *memory, size_t bytes);
/* Any part of what was mapped. */
void tnri_host_pages_unmap(void *memory, size_t bytes);
/* Asks for large pages there. The system may have none. */
void tnri_host_pages_enlarge(void *memory, size_t bytes);

#endif
