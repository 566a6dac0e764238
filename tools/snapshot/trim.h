/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks begin at the program's own frame. The innermost frames are left out if they are Tenure's,
 * or of the library that `tenure run` puts under the program, or of the CUDA runtime. If a program
 * has the runtime linked in, only names tell the frames apart. So names are looked up before this.
 */
#ifndef TENURE_TOOLS_TRIM_H
#define TENURE_TOOLS_TRIM_H

#include "model.h"

/* Leaves at least one frame of each stack that has any. */
void stacks_trim(model *snapshot);

#endif
