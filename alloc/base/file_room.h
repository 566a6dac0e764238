/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room for a file, before it is written to or mapped.
 *
 * Two signals would end the program where a write should fail: SIGXFSZ, when a file grows beyond
 * the process's limit (RLIMIT_FSIZE), and SIGBUS, when a mapped file has a hole and the disk is
 * full. So the limit is asked first, and a file that is to be mapped gets all its blocks first.
 */
#ifndef TNRI_BASE_FILE_ROOM_H
#define TNRI_BASE_FILE_ROOM_H

#include <stdint.h>

/* 0, or EFBIG: this process may not have a file of so many bytes. */
int tnri_file_limit(uint64_t bytes);

/* Gives a file at least so many bytes, and a block of the disk for each of them; what it holds
 * stays. 0, or an error number. */
int tnri_file_fill(int file, uint64_t bytes);

#endif
