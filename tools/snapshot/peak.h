/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who held memory at a moment of the history: the picture, from which records are taken back. Costs
 * memory for what was held then and is held at the end, however long the history is.
 */
#ifndef TENURE_TOOLS_PEAK_H
#define TENURE_TOOLS_PEAK_H

#include "holders.h"

/* Adds up by stack what the device had live and waiting after the first `records` records, into an
 * array of holders, largest first. What was allocated before the history, and freed in it, has
 * stack 0. Returns 0, or -1 without memory; the array is to be released in both cases. */
int peak_holders(const model *snapshot, size_t device_at, size_t records, array *result);

#endif
