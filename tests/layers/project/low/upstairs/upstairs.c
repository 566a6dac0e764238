/* SPDX-License-Identifier: Apache-2.0 */
/* The upper room of the lower layer: sees its own headers and those of the room below. */
#include <tenure/low.h>

#include "floor/inside_low.h"
#include "upstairs/room.h"

int low_upstairs(void)
{
    return low() + LOW_INSIDE + UPSTAIRS_ROOM;
}
