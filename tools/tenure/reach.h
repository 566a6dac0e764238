/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices reach each other's memory, as the driver says. */
#ifndef TENURE_REACH_H
#define TENURE_REACH_H

#include <stdint.h>

#include <tenure/alloc.h>

/* For the first `count` devices, up to 64: bit j of reach[i] is 1 if device i can get access to the
 * memory of device j. All 0 if the driver cannot be asked. */
void reach_find(uint64_t *reach, int count, const tnr_driver_info *driver);

#endif
