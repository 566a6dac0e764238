/* SPDX-License-Identifier: Apache-2.0 */
/* What states of records are called: see block.h. */
#include "memory/space/block.h"

const char *tnri_state_name(unsigned state)
{
    static const char *const names[TNRI_STATE_COUNT] = {"unused",  "free", "live",  "binned",
                                                        "retired", "hole", "stale", "pending",
                                                        "parked",  "lent", "alias"};
    return state < TNRI_STATE_COUNT ? names[state] : "?";
}
