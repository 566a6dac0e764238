/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of C++ as people write them. The library knows exported functions by the names that the
 * linker has, "_ZN2at6detail10empty_cudaEN3c10..."; so do files without debug information. For
 * snapshots, and for what traps report.
 *
 * The C++ library has a function for this. It takes time and memory without a bound for names that
 * were made to do that, and a snapshot's names are not the reader's own. So this reads the name
 * alone, in one pass: parameters become "(...)", what templates were made for is left out.
 */
#ifndef TENURE_TOOLS_DEMANGLE_H
#define TENURE_TOOLS_DEMANGLE_H

#include "model.h"

/* Writes "at::detail::empty_cuda(...)" for a name of the linker's. Returns its length; 0: the name
 * is of another kind, or does not fit. */
size_t demangle(const char *mangled, char *text, size_t room);

/* All functions of a snapshot. Stacks that are equal then are put together. Returns 0, or -1
 * without memory; the model is sound in both cases. */
int functions_demangle(model *snapshot);

#endif
