/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of torch_memory_saver's library that programs look up by name, as in
 * ctypes.CDLL(None) and in extensions. tools/python/tenure/_saver_calls.py makes them visible.
 */
#ifndef TENURE_SAVER_H
#define TENURE_SAVER_H

typedef int (*tenure_saver_call)(const char *tag);

/* What the two below call. Once, before their names can be found. */
void tenure_saver_begin(tenure_saver_call pause, tenure_saver_call resume);

/* The memory of a tag, or all of it (null): 0, or one of CUDA's errors. What they do is Python's:
 * hold no lock that a thread of Python's may wait for, and call while there is an interpreter. */
int tms_pause(const char *tag);
int tms_resume(const char *tag);

#endif
