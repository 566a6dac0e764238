/* SPDX-License-Identifier: Apache-2.0 */
/* Spinning, yielding and napping: see rest.h. */
#include "base/rest.h"

#include "base/heuristics.h"
#include "base/prim/clock.h"

void tnri_rest(unsigned round)
{
    if (round < TNRI_REST_SPINS) {
        for (unsigned i = 0; i < 1u << (round < TNRI_REST_DOUBLED ? round : TNRI_REST_DOUBLED); i++)
            tnri_pause();
    } else if (round < TNRI_REST_SPINS + TNRI_REST_YIELDS) {
        tnri_yield();
    } else {
        tnri_nap(TNRI_REST_NAP_NS);
    }
}
