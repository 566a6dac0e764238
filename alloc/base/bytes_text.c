/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of bytes, for people: see bytes_text.h. */
#include "base/bytes_text.h"

#include <stdio.h>

const char *tnri_bytes_text(uint64_t bytes, char *text, size_t text_bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    snprintf(text, text_bytes, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
    return text;
}
