/* SPDX-License-Identifier: Apache-2.0 */
/* Walks a world and compares every total both ways, by the equations of world.h. */
#ifndef TNRI_ARENA_WORLD_VALIDATE_H
#define TNRI_ARENA_WORLD_VALIDATE_H

#include "memory/arena/world.h"

/* The bytes that were asked for in all LIVE records, counted by walking. */
size_t tnri_world_requested(const tnri_world *world);

/* Walks everything. Returns null, or what is wrong, in a buffer of the thread. */
const char *tnri_world_validate(const tnri_world *world);

/* Length of the longest FREE run. */
size_t tnri_world_largest_free(const tnri_world *world);

#endif
