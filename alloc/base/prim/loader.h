/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked of the system: libraries, the files that code was loaded from, and the stack.
 *
 * Texts are the loader's, and stay while the file is loaded.
 */
#ifndef TNRI_BASE_PRIM_LOADER_H
#define TNRI_BASE_PRIM_LOADER_H

#include <execinfo.h>
#include <stddef.h>
#include <stdint.h>

/* ---- libraries ------------------------------------------------------------------------------ */

/* LATE: its own symbols are looked up when they are used. LOADED: null unless it is loaded already;
 * the same copy then. */
enum { TNRI_LOADER_LATE = 1, TNRI_LOADER_LOADED = 2 };

/* By its path, or by a name that the loader finds. Null: tnri_loader_error says why. */
void *tnri_loader_open(const char *path, unsigned flags);
void tnri_loader_close(void *library);
/* Stores the function of that name into `function`, a pointer to a pointer to a function; null if
 * the library has none, and the result is 0. */
int tnri_loader_function(void *library, const char *name, void *function);
const char *tnri_loader_error(void);

/* ---- files ---------------------------------------------------------------------------------- */

/* Where an address lies. */
typedef struct tnri_loaded_at {
    const char *path;   /* of the file, null: it has none; the program's may be relative */
    uintptr_t base;     /* where the file begins */
    const char *symbol; /* the exported one at or before the address; null: there is none */
    uintptr_t symbol_address;
} tnri_loaded_at;

/* 0: in no file that is known. */
int tnri_loader_find(uintptr_t address, tnri_loaded_at *at);
/* 1 if the address lies in the program's own file. */
int tnri_loader_is_program(uintptr_t address);

/* Longer build ids than those of SHA-256 are taken for none. */
enum { TNRI_BUILD_ID_BYTES = 32 };

/* A file that is loaded; valid in the callback. */
typedef struct tnri_loaded_file {
    const char *path; /* empty: the program's */
    const void *own;  /* the system's */
} tnri_loaded_file;

/* Calls `each` for the files that are loaded, until it returns other than 0, and returns that. The
 * loader's lock is held meanwhile: it can only be asked by what follows. */
int tnri_loader_each(int (*each)(const tnri_loaded_file *file, void *user), void *user);
/* Where the loader says that the file begins: the page of what is loaded first; 0: nowhere. */
uintptr_t tnri_loaded_base(const tnri_loaded_file *file);
/* The file's build id, read from memory; the result is its length, 0: there is none. */
size_t tnri_loaded_build_id(const tnri_loaded_file *file,
                            unsigned char build_id[TNRI_BUILD_ID_BYTES]);
/* The name by which other files ask for this one; null: it has none. */
const char *tnri_loaded_name(const tnri_loaded_file *file);
/* 1 if the address lies in it. */
int tnri_loaded_has(const tnri_loaded_file *file, const void *address);

/* ---- the stack ------------------------------------------------------------------------------ */

/* The return addresses of the calling thread, innermost first, from the function on that this is
 * inlined into. Returns how many. */
static inline __attribute__((always_inline)) int tnri_stack_walk(void **addresses, int room)
{
    return backtrace(addresses, room);
}

#endif
