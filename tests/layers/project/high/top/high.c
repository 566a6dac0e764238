/* SPDX-License-Identifier: Apache-2.0 */
/* The higher layer: sees its own headers and those below, public and internal, of all rooms. */
#include <tenure/high.h>
#include <tenure/low.h>

#include "floor/inside_low.h"
#include "top/inside.h"
#include "upstairs/room.h"

int high(void)
{
    return low() + LOW_INSIDE + HIGH_INSIDE + UPSTAIRS_ROOM;
}
