/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading JSON into values, as a stream: yajl takes the text apart, this makes values of it.
 */
#ifndef TENURE_TOOLS_JSON_READ_H
#define TENURE_TOOLS_JSON_READ_H

#include "input.h"
#include "value.h"

/* Reads the whole input, which must be one JSON text. Returns 0, or -1 with the complaint in
 * in->error; what was made until then stays in the heap. `taker` may be null; if it fails, -1
 * without a complaint. */
int json_read(input *in, value_heap *heap, const value_taker *taker, value *result);

#endif
