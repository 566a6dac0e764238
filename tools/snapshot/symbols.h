/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for the frames of a snapshot. The library knows only exported functions. For all others it
 * knows the module and the place in it. Here the modules' files are read: one after the other, if
 * the file is still the build that ran, and each distinct frame once.
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

/* How many frames have a module and no file. */
size_t symbols_wanted(const model *snapshot);

/* Fills functions, files and lines. Inlined functions become frames of their own, in front of the
 * frame that they were inlined into. If a module is gone, or is another build by now, its frames
 * stay as they are, and the model's notes name it. Returns 0, or -1 without memory; the model is
 * sound in both cases. */
int symbols_look_up(model *snapshot, const symbols_options *options);

#endif
