/* SPDX-License-Identifier: Apache-2.0 */
/* The lower room of the lower layer: sees its own headers and one that it is allowed, and those
 * above only if PLANT gets through. */
#include <tenure/low.h>

#include "floor/inside_low.h"
#include "upstairs/asked.h"
#ifdef PLANT
#include PLANT
#endif

int low(void)
{
    return LOW_INSIDE + UPSTAIRS_ASKED;
}
