/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantiles, and the cost of the clock: see samples.h and clock.h.
 */
#include "samples.h"

#include <stdlib.h>

#include "clock.h"

static int double_compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

double samples_quantile(double *values, size_t count, double share)
{
    if (count == 0)
        return 0;
    qsort(values, count, sizeof(*values), double_compare);
    double place = share * (double)(count - 1);
    size_t below = (size_t)place;
    if (below + 1 >= count)
        return values[count - 1];
    return values[below] + (values[below + 1] - values[below]) * (place - (double)below);
}

/* Values below 16 have a bin each; above, the 4 bits after the leading one choose the step. */
static size_t histogram_bin(uint64_t ns)
{
    if (ns < HISTOGRAM_STEPS)
        return (size_t)ns;
    int exponent = 63 - __builtin_clzll(ns);
    return (size_t)(exponent - 3) * HISTOGRAM_STEPS + ((ns >> (exponent - 4)) & 15);
}

/* The middle of a bin. */
static double histogram_value(size_t bin)
{
    if (bin < HISTOGRAM_STEPS)
        return (double)bin;
    size_t exponent = bin / HISTOGRAM_STEPS + 3;
    double width = (double)(UINT64_C(1) << (exponent - 4));
    return width * ((double)(16 + bin % HISTOGRAM_STEPS) + 0.5);
}

void histogram_add(histogram *times, uint64_t ns)
{
    times->counts[histogram_bin(ns)]++;
    times->total++;
    times->largest = ns > times->largest ? ns : times->largest;
}

void histogram_join(histogram *times, const histogram *more)
{
    for (size_t bin = 0; bin < HISTOGRAM_BINS; bin++)
        times->counts[bin] += more->counts[bin];
    times->total += more->total;
    times->largest = more->largest > times->largest ? more->largest : times->largest;
}

double histogram_quantile(const histogram *times, double share)
{
    uint64_t wanted = (uint64_t)(share * (double)times->total);
    uint64_t seen = 0;
    for (size_t bin = 0; bin < HISTOGRAM_BINS; bin++) {
        seen += times->counts[bin];
        if (times->counts[bin] && seen > wanted) {
            double value = histogram_value(bin);
            return value < (double)times->largest ? value : (double)times->largest;
        }
    }
    return 0;
}

uint64_t clock_overhead_ns(void)
{
    double samples[2001];
    for (size_t i = 0; i < 2001; i++) {
        uint64_t before = clock_now_ns();
        samples[i] = (double)(clock_now_ns() - before);
    }
    return (uint64_t)samples_quantile(samples, 2001, 0.5);
}
