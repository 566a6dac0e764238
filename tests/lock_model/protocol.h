/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of alloc/base/lock.c under the explorer: what its threads do in each program. */
#ifndef LOCK_MODEL_PROTOCOL_H
#define LOCK_MODEL_PROTOCOL_H

#include <stddef.h>

#include "explorer.h"

extern const explorer_program protocol_programs[];
extern const size_t protocol_programs_count;

#endif
