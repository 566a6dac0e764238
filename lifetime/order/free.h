/* SPDX-License-Identifier: Apache-2.0 */
/* Frees: what a block's free does before its retirement. Uses that tnr_record_stream left open end
 * there, and are marked; a block that is held is only noted as freed. */
#ifndef TNRI_LIFETIME_FREE_H
#define TNRI_LIFETIME_FREE_H

#include "order/uses.h"

/* tnri_upper.free: of a block with uses, or as tnr_free_sync does. */
tnr_status tnri_free_ordered(tnri_arena *arena, tnri_block *block, void *ptr, int is_sync);

/* tnr_free_sync of a block that may be live and start at `ptr`. With traps and `waits`, the host
 * waits a while for what the device still does with the block. */
tnr_status tnri_free_sync(tnri_block *block, void *ptr, int waits);

#endif
