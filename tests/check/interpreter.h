/* SPDX-License-Identifier: Apache-2.0 */
/* Two libraries that call back, each from two places: see interpreter.c. */
#ifndef TENURE_TESTS_CHECK_INTERPRETER_H
#define TENURE_TESTS_CHECK_INTERPRETER_H

typedef void (*step)(void);

#ifdef INTERPRETER
#define PLACED(place) interpreter_##place
#else
#define PLACED(place) extension_##place
#endif

void interpreter_first(step function);
void interpreter_second(step function);
void extension_first(step function);
void extension_second(step function);

#endif
