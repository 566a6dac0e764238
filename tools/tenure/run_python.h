/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `tenure run --check` puts under programs that are Python: tenure.torch and tenure.cupy, so
 * that the blocks of PyTorch and CuPy are checked, and not only the segments of their pools.
 */
#ifndef TENURE_TOOLS_RUN_PYTHON_H
#define TENURE_TOOLS_RUN_PYTHON_H

/* Sets the environment so that each Python begins with Tenure's module (its folder _startup:
 * tools/python/tenure/_under.py). If the module is not found, or cannot be named, a line says what
 * is not checked. Called whether or not the program is a Python, because it may start one later. */
void run_python_begin(void);

#endif
