/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel may take of a multiprocessor: function.c.
 */
#ifndef TENURE_SIMCUDART_FUNCTION_H
#define TENURE_SIMCUDART_FUNCTION_H

#include "rt.h"

/* Of dynamic shared memory, for a block. `code` may be null. */
int rt_dynamic_bytes_max(const rt_kernel *kernel, const rt_code_kernel *code);
int rt_multiprocessors(void); /* of the current device */

#endif
