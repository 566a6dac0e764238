/* SPDX-License-Identifier: Apache-2.0 */
/* The gate's word: see gate.h. */
#include "base/gate.h"

_Atomic uint64_t tnri_gate_word = TNRI_GATE_STOPPED;
_Atomic uint64_t tnri_library_epoch;
