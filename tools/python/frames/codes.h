/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was found of the instructions of Python's code objects, so that a frame seen before
 * costs a look-up, not the reading of its texts.
 *
 * A code object's address says which it is as long as it lives. The interpreter tells when one ends
 * (PyCode_AddWatcher, from 3.12 on). Where it does not, nothing is kept.
 */
#ifndef TENURE_PYTHON_CODES_H
#define TENURE_PYTHON_CODES_H

/* Has the interpreter tell. Once, with its lock held. */
void python_codes_watch(void);

/* The rest between these two. Any thread; nothing of Python's may run in between. */
void python_codes_enter(void);
void python_codes_leave(void);

/* What was kept for an instruction of a code object that lives; 0: nothing was. */
int python_codes_get(const void **found, const void *code, int instruction);

/* Keeps it. `found` may be null, and lives as long as the process. */
void python_codes_keep(const void *code, int instruction, const void *found);

#endif
