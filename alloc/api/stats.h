/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics that no public function of this layer asks for. */
#ifndef TNRI_API_STATS_H
#define TNRI_API_STATS_H

#include "memory/arena/arena.h"
#include "memory/device/tag.h"

/* 1: the struct has a size that a released header had. */
int tnri_stats_has_size(const tnr_stats *stats);
/* Fills a caller's struct, as large as it says. */
void tnri_stats_hand(tnr_stats *to, const tnr_stats *stats);

/* Sums over the pools of a device that carry a tag. Values that only a device counts (moves, driver
 * calls, retries) are 0. */
void tnri_stats_of_tag(tnr_stats *stats, const tnri_tag *tag, tnri_device *device);

/* Sums of one pool, or of one arena, without those of the whole library (metadata_*), because these
 * would cost a walk over all arenas. */
void tnri_stats_of_pool(tnr_stats *stats, tnr_pool pool);
void tnri_stats_of_arena(tnr_stats *stats, tnri_arena *arena);

/* Statistics as tnr_stats_json writes them, as far as they fit; returns how long all of it is. */
size_t tnri_stats_json(char *buffer, size_t bytes, const tnr_stats *stats, int device);

#endif
