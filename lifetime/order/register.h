/* SPDX-License-Identifier: Apache-2.0 */
/* What the layer below asks of this one: tnri_upper. */
#ifndef TNRI_LIFETIME_REGISTER_H
#define TNRI_LIFETIME_REGISTER_H

#include "memory/arena/upper.h"

extern const tnri_upper tnri_lifetime_hooks;

/* Registers this layer with the one below; any thread. Some calls may be the first to make
 * something that the hooks give back: a list of uses, an announcement. Each of them begins with
 * this call. */
static inline void tnri_lifetime_register(void)
{
    if (tnri_unlikely(tnri_upper_get() == NULL))
        atomic_store_explicit(&tnri_upper_table, &tnri_lifetime_hooks, memory_order_release);
}

#endif
