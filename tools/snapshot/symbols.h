/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for the frames of a snapshot. The library knows exported functions only, and of all others
 * the module and the place in it. Here the modules' files are looked into: each that is still the
 * build that ran, one after the other, and each distinct frame once.
 */
#ifndef TENURE_TOOLS_SYMBOLS_H
#define TENURE_TOOLS_SYMBOLS_H

#include <stdint.h>

#include "model.h"

typedef struct symbols_options {
    /* Called now and then with how many frames have been looked up. May be null. */
    void (*on_progress)(void *context, uint64_t done, uint64_t total);
    void *context;
} symbols_options;

/* 1 if this build can look names up. */
int symbols_available(void);

/* How many frames have a module and no file. */
size_t symbols_wanted(const model *snapshot);

/* Fills functions, files and lines. Functions that were inlined become frames of their own in front
 * of the one that they were inlined into. Frames of modules that are not there any more, or another
 * build by now, stay as they are, and the model's notes say which. Returns 0, or -1 without memory;
 * the model is sound in both cases. */
int symbols_look_up(model *snapshot, const symbols_options *options);

#endif
