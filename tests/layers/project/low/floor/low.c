/* SPDX-License-Identifier: Apache-2.0 */
/* The lower room of the lower layer: sees its own headers, and those above only if PLANT gets
 * through. */
#include <tenure/low.h>

#include "floor/inside_low.h"
#ifdef PLANT
#include PLANT
#endif

int low(void)
{
    return LOW_INSIDE;
}
