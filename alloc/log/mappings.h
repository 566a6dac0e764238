/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mappings that somebody follows (tnr_mappings_follow): which addresses got memory, and which lost
 * it, in the order in which that happened, until they are taken. For one address the order is
 * exact, because each mapping and unmapping is written down under the arena's lock, before anybody
 * else can have the address.
 */
#ifndef TNRI_HISTORY_MAPPINGS_H
#define TNRI_HISTORY_MAPPINGS_H

#include <stdatomic.h>

#include <tenure/history.h>

extern _Atomic int tnri_mappings_followed;

static inline int tnri_is_following(void)
{
    return atomic_load_explicit(&tnri_mappings_followed, memory_order_relaxed) != 0;
}

/* Writes one down. Any lock may be held but those of the history and leaves. */
void tnri_mapping_add(const tnr_mapping *mapping);

void tnri_mappings_follow(int is_wanted);
size_t tnri_mappings_take(tnr_mapping *mappings, uint64_t *lost, size_t room);

#endif
