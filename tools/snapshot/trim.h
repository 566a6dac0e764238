/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks begin at the program's own frame: the innermost frames of Tenure, of the library that
 * `tenure run` puts under the program, and of the CUDA runtime, are left out. In a program that has
 * the runtime inside, only names tell them apart, so this comes after they were looked up.
 */
#ifndef TENURE_TOOLS_TRIM_H
#define TENURE_TOOLS_TRIM_H

#include "model.h"

/* Leaves at least one frame of each stack that has any. */
void stacks_trim(model *snapshot);

#endif
