/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading Python pickles that hold plain data, without Python and without running anything.
 *
 * A pickle is a program for a small stack machine, and Python's own machine can be told to import
 * and call whatever it likes. This one knows only how to build numbers, texts, lists, tuples and
 * dictionaries, in protocols 0 to 5. Every other instruction is refused by its name and place.
 */
#ifndef TENURE_TOOLS_PICKLE_H
#define TENURE_TOOLS_PICKLE_H

#include "input.h"
#include "value.h"

/* Reads the pickle that begins at the input's place, to its STOP. Returns 0, or -1 with the
 * complaint in in->error; what was made until then stays in the heap. `taker` may be null; if it
 * fails, -1 without a complaint. */
int pickle_read(input *in, value_heap *heap, const value_taker *taker, value *result);

#endif
