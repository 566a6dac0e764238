/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libtenure_cupy.so: the functions that CuPy's CFunctionAllocator calls, over Tenure. CuPy does not
 * say which stream memory is for, but it has a function that tells the current stream. The Python
 * module passes that function on.
 *
 * CuPy calls with Python's lock held, and these functions cannot report an error to it. They return
 * null, and the Python module turns that into an error.
 */
#ifndef TENURE_CUPY_H
#define TENURE_CUPY_H

#include <tenure/tenure.h>

#define TNR_CUPY_API __attribute__((visibility("default")))

/* The `param` of both functions. Constant while CuPy uses it. */
typedef struct tenure_cupy {
    intptr_t (*current_stream)(void); /* CuPy's own: of the calling thread, for its device */
    int is_freed_on_both; /* 1: a free also waits for the stream that is current when it comes */
} tenure_cupy;

TNR_CUPY_API void *tenure_cupy_malloc(void *param, size_t bytes, int device);
TNR_CUPY_API void tenure_cupy_free(void *param, void *ptr, int device);
/* Frees that failed so far; each has been printed. */
TNR_CUPY_API unsigned long tenure_cupy_failures(void);

#endif
