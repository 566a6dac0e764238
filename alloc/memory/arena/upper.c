/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the layers above: see upper.h. */
#include "memory/arena/upper.h"

_Atomic(const tnri_upper *) tnri_upper_table;
_Atomic(const tnri_sharing *) tnri_sharing_table;
_Atomic(const tnri_captures *) tnri_captures_table;
tnr_status (*tnri_upper_free_sync)(tnri_block *block, void *ptr);
