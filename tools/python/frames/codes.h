/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was found of the instructions of Python's code objects, so that a frame seen before
 * costs a look-up, not the reading of its texts.
 *
 * A code object's address says which it is as long as it lives. The interpreter tells when one ends
 * (PyCode_AddWatcher, from 3.12 on); in 3.10 and 3.11 a function of ours stands before the one that
 * ends it. Where neither can be, nothing is kept.
 */
#ifndef TENURE_PYTHON_CODES_H
#define TENURE_PYTHON_CODES_H

/* Has the interpreter tell. Once, with its lock held. `code_type` is PyCode_Type. */
void python_codes_watch(void *code_type);

/* Changes when a code object ends of which anything is kept, before another can be where it was; 0:
 * nothing is kept. Any thread, at any time. */
unsigned python_codes_number(void);

/* The rest between these two. Any thread; nothing of Python's may run in between. */
void python_codes_enter(void);
void python_codes_leave(void);

/* What was kept for an instruction of a code object that lives; 0: nothing was. */
int python_codes_get(const void **found, const void *code, int instruction);

/* Keeps it. `found` may be null, and lives as long as the process. */
void python_codes_keep(const void *code, int instruction, const void *found);

#endif
