/* SPDX-License-Identifier: Apache-2.0 */
/* What the layer below asks of this room: tnri_upper. */
#ifndef TNRI_LIFETIME_REGISTER_H
#define TNRI_LIFETIME_REGISTER_H

#include "base/assert.h"
#include "memory/device/upper.h"

extern const tnri_upper tnri_order_upper;

/* Registers this room with the layer below; any thread. Some calls may be the first to make
 * something that the table gives back: a list of uses, an announcement. Each of them begins with
 * this call. */
static inline void tnri_lifetime_register(void)
{
    if (tnri_unlikely(tnri_upper_of(TNRI_ROOM_ORDER) != &tnri_order_upper))
        tnri_upper_register(TNRI_ROOM_ORDER, &tnri_order_upper);
}

#endif
