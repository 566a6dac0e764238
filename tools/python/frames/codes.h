/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was found of the instructions of Python's code objects, so that a frame seen before
 * costs a look-up, not the reading of its texts.
 *
 * A code object's address identifies it as long as it lives. The interpreter tells when one ends
 * (PyCode_AddWatcher, from 3.12 on). In 3.10 and 3.11 a function of ours stands before the function
 * that ends a code object. If neither is possible, nothing is kept.
 */
#ifndef TENURE_PYTHON_CODES_H
#define TENURE_PYTHON_CODES_H

/* Has the interpreter tell. Once, with its lock held. `code_type` is PyCode_Type. */
void python_codes_watch(void *code_type);

/* Changes when a code object ends for which something is kept, before another can be at its
 * address. 0: nothing is kept. Any thread, at any time. */
unsigned python_codes_number(void);

/* Call the functions below between these two. Any thread; nothing of Python's may run in
 * between. */
void python_codes_enter(void);
void python_codes_leave(void);

/* Gets what was kept for an instruction of a live code object. 0: nothing was kept. */
int python_codes_get(const void **found, const void *code, int instruction);

/* Keeps it. `found` may be null, and lives as long as the process. */
void python_codes_keep(const void *code, int instruction, const void *found);

#endif
