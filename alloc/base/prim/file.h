/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked of the system: files. A file is a descriptor, which exec closes. Where a result
 * says that a call was refused, errno says why.
 *
 * Two signals would end the program where a write should fail: SIGXFSZ, when a file grows beyond
 * the process's limit (RLIMIT_FSIZE), and SIGBUS, when a mapped file has a hole and the disk is
 * full. So the limit is asked first, and a file that is to be mapped gets all its blocks first.
 */
#ifndef TNRI_BASE_PRIM_FILE_H
#define TNRI_BASE_PRIM_FILE_H

#include <stddef.h>
#include <stdint.h>

/* How a file is opened: to read, unless for one of the next two. MAKE: it is made if it is not
 * there; NEW: it must not be there. UNWAITED: opening a pipe, and using it, waits for no process.
 * UNLINKED: not where a symbolic link leads. FOLDER: it must be one. */
enum {
    TNRI_FILE_WRITE = 1,
    TNRI_FILE_BOTH = 2,
    TNRI_FILE_MAKE = 4,
    TNRI_FILE_NEW = 8,
    TNRI_FILE_APPEND = 16,
    TNRI_FILE_UNWAITED = 32,
    TNRI_FILE_UNLINKED = 64,
    TNRI_FILE_FOLDER = 128
};
/* In place of an open folder: the process's own. */
enum { TNRI_FOLDER_OWN = -100 };

/* Opens what the path leads to from the folder; `mode` is what a new one allows whom, as chmod has
 * it. -1: refused. */
int tnri_file_open(int folder, const char *path, unsigned how, unsigned mode);
/* 0, or an error number: what was written may not be there. */
int tnri_file_close(int file);
/* How many bytes; less than was asked for, perhaps. -1: refused. */
int64_t tnri_file_read(int file, void *data, size_t bytes);
int64_t tnri_file_write(int file, const void *data, size_t bytes);

typedef struct tnri_file_facts {
    int is_regular, is_folder;
    unsigned mode; /* whom it allows what, as chmod has it */
    uint32_t user; /* whose it is */
    uint64_t bytes;
    int64_t written_ns;     /* since 1970 */
    uint64_t place, number; /* together they tell files apart */
} tnri_file_facts;

/* 0: refused. */
int tnri_file_ask(int file, tnri_file_facts *facts);
int tnri_path_ask(const char *path, tnri_file_facts *facts);
/* Of the name itself, if it is a symbolic link. */
int tnri_name_ask(int folder, const char *name, tnri_file_facts *facts);

/* 0: refused. */
int tnri_name_remove(int folder, const char *name);
/* Puts one in the place of another, at once. 0: refused. */
int tnri_name_move(int folder, const char *from, const char *to);
/* For the user alone. 0: refused; it may be there already. */
int tnri_folder_make(const char *path);
/* A path from the root without symbolic links; `real` has room for TNRI_PATH_BYTES. 0: there is no
 * such file. */
int tnri_path_real(const char *path, char *real);

/* 0, or EFBIG: this process may not have a file of so many bytes. */
int tnri_file_limit(uint64_t bytes);
/* Gives a file at least so many bytes, and a block of the disk for each of them; what it holds
 * stays. 0, or an error number. */
int tnri_file_fill(int file, uint64_t bytes);

/* Locks the whole file for this process and its forked children, until it is closed. 0: refused;
 * EWOULDBLOCK where another process has it and `is_patient` is 0. */
int tnri_file_lock(int file, int is_patient);
/* Locks one byte for this process alone, or unlocks it, at once or not at all. 0: refused. The
 * lock goes when the process closes the file. */
int tnri_byte_lock(int file, int at, int is_wanted);
/* 1 if another process has it, or that cannot be known. */
int tnri_byte_is_locked(int file, int at);

#endif
