/* SPDX-License-Identifier: Apache-2.0 */
/* tnri_flow of alloc/memory/device/held.h under the explorer. */
#ifndef LOCK_MODEL_FLOW_H
#define LOCK_MODEL_FLOW_H

#include "explorer.h"

extern const explorer_program flow_program;

#endif
