/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measured times: exact quantiles of a small set, and a histogram for a large one.
 */
#ifndef TENURE_TOOLS_SAMPLES_H
#define TENURE_TOOLS_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

/* The value below which `share` (0 to 1) of the samples lie. Sorts `values`. 0 for no samples. */
double samples_quantile(double *values, size_t count, double share);

/* A histogram of nanoseconds with 16 steps per power of two: values are known to about 3 %. */
enum { HISTOGRAM_STEPS = 16, HISTOGRAM_BINS = 61 * HISTOGRAM_STEPS };

typedef struct histogram {
    uint64_t counts[HISTOGRAM_BINS];
    uint64_t total;
    uint64_t largest; /* exact */
} histogram;

void histogram_add(histogram *times, uint64_t ns);
/* The middle of the step in which this share of the times ends, but never more than the largest
 * time.
 */
double histogram_quantile(const histogram *times, double share);
/* Adds all of one to another. */
void histogram_join(histogram *times, const histogram *more);

#endif
