/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for places in a file of code: functions, files and lines, from the file's symbols and its
 * DWARF debug information. elfutils does the reading (elfutils.h).
 *
 * Memory that is kept here is counted against the budget. Memory that elfutils keeps for a file is
 * not counted. Any thread may call; one is served at a time.
 */
#ifndef TENURE_TOOLS_DEBUG_INFO_H
#define TENURE_TOOLS_DEBUG_INFO_H

#include <stddef.h>
#include <stdint.h>

#include "budget.h"

/* A function that a place is in. An unknown text is null, an unknown line 0. */
typedef struct debug_place {
    const char *function, *file;
    uint32_t line;
} debug_place;

enum { DEBUG_PLACES_MAX = 64, DEBUG_WHY_BYTES = 256 };

typedef struct debug_info debug_info;

/* Opens the file if it has the build id (null: any). Null if not: then `why` continues a sentence
 * that begins with the path, or is empty if memory ran out. `why` has room for DEBUG_WHY_BYTES. */
debug_info *debug_info_open(const char *path, const char *build_id, budget *limits, char *why);
void debug_info_close(debug_info *from);

/* The functions that contain the instruction `offset` bytes from the file's first page: first those
 * that were inlined there, then the one around them. Returns how many, at most DEBUG_PLACES_MAX; 0
 * if nothing is known. The texts live until the file is closed. */
size_t debug_info_find(debug_info *from, uint64_t offset, debug_place *places);

#endif
