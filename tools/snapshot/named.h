/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By which frames a stack is named. A stack of PyTorch has 75 frames, of which five are the
 * program's: alloc/see/snapshot/whose.h says which those are. C++ functions lose their parameters
 * and what their templates were made for. Names are looked up before this (symbols.h).
 */
#ifndef TENURE_TOOLS_NAMED_H
#define TENURE_TOOLS_NAMED_H

#include "model.h"

/* Leaves the frames by which each stack is named, the innermost `most` of them, and puts stacks
 * that are then equal together: for text that names stacks. Returns 0, or -1 without memory. */
int stacks_shorten(model *snapshot, uint32_t most);

/* Makes `shown` of the model, and keeps the stacks: for a file whose reader may ask for all. */
int stacks_show(model *snapshot);

/* Puts stacks with equal frames together. Frames of which a place in the code is all that is known
 * are like no other. Returns 0, or -1 without memory. */
int stacks_merge(model *snapshot);

#endif
