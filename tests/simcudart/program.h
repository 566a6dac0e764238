/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program as nvcc would make it: its kernels and variables, registered before main.
 */
#ifndef TENURE_TESTS_SIMCUDART_PROGRAM_H
#define TENURE_TESTS_SIMCUDART_PROGRAM_H

#include "played.h"

/* Functions that stand for kernels on the host; what they do does not matter. */
void entry_add(void);     /* _Z3addPfPKfi: add(float *, const float *, int) */
void entry_fill(void);    /* _Z4fillIfEvPT_S0_i: a template's */
void entry_unknown(void); /* _Z7unknownPfS_: two pointers; nothing runs for it */
void entry_bounded(void); /* _Z7boundedv: launch bounds 64, 1,024 bytes of shared memory */
void entry_lost(void);    /* of a binary that has no machine code */

extern char shadow_counter, shadow_scale, shadow_zeros; /* an int of 7, 4 floats, 64 bytes */
extern void *managed_pointer;                           /* of a managed variable of 16 bytes */

void program_register(void);
void program_unregister(void);

/* f<<<1, threads, shared, stream>>>(...), as the compiler writes it. */
cudaError_t program_launch(void (*entry)(void), unsigned threads, size_t shared_bytes,
                           cudaStream_t stream, void **parameters);

#endif
