/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Borrowed addresses without memory go back to the world whose span they lie in.
 *
 * A free run is lent with its addresses (miss/lend.h). When its chunks have moved on or gone to
 * the driver, the borrower has a hole there, and the lender keeps a LENT record for good. With
 * further loans both would take new addresses again and again, until the device's range is used up.
 * So holes in borrowed ranges go home before a world that has lent takes a new span, and at a trim.
 */
#ifndef TNRI_MISS_GIVE_BACK_H
#define TNRI_MISS_GIVE_BACK_H

#include "memory/arena/arena.h"

/* Gives back the borrowed holes of all arenas of the pool. Returns how many. No lock held; the pool
 * does not end meanwhile. */
size_t tnri_give_back(tnr_pool pool);

#endif
