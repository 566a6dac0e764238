/* SPDX-License-Identifier: Apache-2.0 */
/* Amounts of bytes, for people: see bytes_text.h. */
#include "base/bytes_text.h"

#include <stdio.h>

static unsigned unit_of(uint64_t bytes)
{
    unsigned unit = 0;
    while (unit < 6 && bytes >> 10 * (unit + 1) > 0)
        unit++;
    return unit;
}

const char *tnri_bytes_text(uint64_t bytes, uint64_t most, char *text, size_t text_bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned unit = unit_of(most);
    if (bytes < (UINT64_C(1) << 10 * unit) / 100 || bytes >> 10 * unit >= 1024)
        unit = unit_of(bytes);
    double value = (double)bytes / (double)(UINT64_C(1) << 10 * unit);
    int digits = unit == 0 || value >= 999.95 ? 0 : value >= 99.995 ? 1 : 2;
    snprintf(text, text_bytes, "%.*f %s", digits, value, units[unit]);
    return text;
}
