/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for return addresses: function and module, as the dynamic linker knows them, and the offset
 * in the module. With the offset a debugger's tools find file and line. A frame is looked up once.
 */
#ifndef TNRI_SNAPSHOT_SYMBOLS_H
#define TNRI_SNAPSHOT_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

#include "see/snapshot/modules.h"

/* A frame. The texts belong to the dynamic linker, or to an interpreter. */
typedef struct tnri_frame {
    uintptr_t address;
    const char *function; /* "" if not known */
    const char *file;     /* of an interpreter's frame, with its line; else "" and 0 */
    int line;
    const char *module;     /* the file; "" if not known */
    uint32_t module_number; /* in tnri_symbols.modules, from 1; 0 if it is not there */
    uint64_t offset;        /* in the module */
    uint64_t function_offset;
} tnri_frame;

typedef struct tnri_symbols {
    tnri_frame *frames;
    size_t frames_count, frames_room;
    tnri_modules modules;
    uint32_t *slots; /* a hash: index of a frame + 1; 0: empty */
    size_t slots_count;
    size_t stacks_count;  /* stacks have the numbers 0 to this */
    uint32_t *stack_skip; /* by number: innermost frames that are the library's own */
} tnri_symbols;

/* Looks up the frames of all stacks that are kept now. 0: no host memory. */
int tnri_symbols_make(tnri_symbols *symbols);
void tnri_symbols_free(tnri_symbols *symbols);

/* The frames of a stack, the library's own left out: *count return addresses. */
const uintptr_t *tnri_symbols_stack(const tnri_symbols *symbols, size_t number, size_t *count);
/* Index of the frame of a return address. */
size_t tnri_symbols_find(const tnri_symbols *symbols, uintptr_t address);

#endif
