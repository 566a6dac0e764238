/* SPDX-License-Identifier: Apache-2.0 */
/* The higher layer: sees its own headers and those below, public and internal. */
#include <tenure/high.h>
#include <tenure/low.h>

#include "bottom/inside_low.h"
#include "top/inside.h"

int high(void)
{
    return low() + LOW_INSIDE + HIGH_INSIDE;
}
