/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roundup_power2_divisions: PyTorch's way of making nearly equal sizes equal.
 *
 * The sizes between a power of two and the next are cut into d equal steps, and a size is rounded
 * up to the next step. d may differ by interval: entry i is for sizes from 2^i MiB up; smaller
 * sizes use entry 0. In the list form the first named interval also sets all below it, `>` sets all
 * above the last one named, and gaps in between are left without rounding. Semantics follow
 * PyTorch's, so that its values can be carried over.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf/conf.h"

enum { STEPS_DIVISIONS_MAX = 64 };
#define STEPS_MIB ((size_t)1 << 20)

/* The interval that a size falls into. */
static unsigned steps_interval(size_t bytes)
{
    unsigned interval = 0;
    for (size_t mib = bytes / STEPS_MIB; mib > 1 && interval + 1 < TNRI_STEPS_COUNT; mib >>= 1)
        interval++;
    return interval;
}

size_t tnri_steps_round(const tnri_steps *steps, size_t bytes)
{
    size_t divisions = steps->divisions[steps_interval(bytes)];
    if (divisions <= 1 || bytes <= TNR_ALIGNMENT_DEFAULT * divisions)
        return bytes;
    size_t power = TNR_ALIGNMENT_DEFAULT;
    while (power * 2 <= bytes)
        power *= 2;
    if (power == bytes)
        return bytes;
    size_t step = power / divisions;
    return power + (bytes - power + step - 1) / step * step;
}

static int steps_is_power_of_two(unsigned long value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* Reads a number of divisions: a power of two up to 64, or 0. */
static int steps_parse_divisions(const char **text, uint32_t *divisions)
{
    char *end;
    if (**text < '0' || **text > '9')
        return 0;
    unsigned long value = strtoul(*text, &end, 10);
    if (value > STEPS_DIVISIONS_MAX || (value != 0 && !steps_is_power_of_two(value)))
        return 0;
    *divisions = (uint32_t)value;
    *text = end;
    return 1;
}

/* Reads the size before the colon: the interval it names, or TNRI_STEPS_COUNT for `>`. */
static int steps_parse_size(const char **text, unsigned *interval)
{
    if (**text == '>') {
        *interval = TNRI_STEPS_COUNT;
        (*text)++;
        return 1;
    }
    char *end;
    if (**text < '0' || **text > '9')
        return 0;
    unsigned long mib = strtoul(*text, &end, 10);
    if (!steps_is_power_of_two(mib) || mib >= 1ul << TNRI_STEPS_COUNT)
        return 0;
    *interval = steps_interval((size_t)mib * STEPS_MIB);
    *text = end;
    return 1;
}

/* Reads "[64:8,256:4,>:1]". */
static int steps_parse_list(tnri_steps *steps, const char *text)
{
    int first = 1;
    unsigned above = 0; /* the first interval that `>` would set */
    do {
        unsigned interval;
        uint32_t divisions;
        text++; /* over [ or , */
        if (!steps_parse_size(&text, &interval) || *text++ != ':' ||
            !steps_parse_divisions(&text, &divisions))
            return 0;
        unsigned from = first && interval < TNRI_STEPS_COUNT ? 0 : interval;
        unsigned to = interval + 1;
        if (interval == TNRI_STEPS_COUNT) {
            from = above;
            to = TNRI_STEPS_COUNT;
        }
        for (unsigned i = from; i < to; i++)
            steps->divisions[i] = divisions;
        above = to;
        first = 0;
    } while (*text == ',');
    return strcmp(text, "]") == 0;
}

int tnri_steps_parse(tnri_steps *steps, const char *value)
{
    memset(steps, 0, sizeof(*steps));
    if (value[0] == '[') {
        if (!steps_parse_list(steps, value))
            return 0;
    } else if (strcmp(value, "off") != 0) {
        uint32_t divisions;
        if (!steps_parse_divisions(&value, &divisions) || *value != '\0')
            return 0;
        for (unsigned i = 0; i < TNRI_STEPS_COUNT; i++)
            steps->divisions[i] = divisions;
    }
    for (unsigned i = 0; i < TNRI_STEPS_COUNT; i++)
        steps->any |= steps->divisions[i] > 1;
    return 1;
}

void tnri_steps_print(const tnri_steps *steps, char *text, size_t bytes)
{
    int equal = 1;
    for (unsigned i = 1; i < TNRI_STEPS_COUNT; i++)
        equal &= steps->divisions[i] == steps->divisions[0];
    if (equal && steps->divisions[0] <= 1) {
        snprintf(text, bytes, "off");
        return;
    }
    if (equal) {
        snprintf(text, bytes, "%u", steps->divisions[0]);
        return;
    }
    size_t length = 0;
    for (unsigned i = 0; i < TNRI_STEPS_COUNT && length < bytes; i++)
        length += (size_t)snprintf(text + length, bytes - length, "%c%lu:%u", i == 0 ? '[' : ',',
                                   1ul << i, steps->divisions[i]);
    if (length < bytes)
        snprintf(text + length, bytes - length, "]");
}
