/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies between a line of a script and the engine: an interpreter, which returns to another
 * place of its loop once it has specialised the line, and an extension module, which has two
 * functions. This file is both: INTERPRETER is defined in the first.
 */
#include "interpreter.h"

/* What comes after the call keeps it from being a jump. */
static volatile int calls;

#ifdef INTERPRETER
/* By which an interpreter is found. This one is never asked for more. */
int Py_IsInitialized(void);
int Py_IsInitialized(void)
{
    return 0;
}
#endif

void PLACED(first)(step function)
{
    function();
    calls++;
}

void PLACED(second)(step function)
{
    function();
    calls--;
}
