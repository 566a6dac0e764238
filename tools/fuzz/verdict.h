/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must hold after every operation, and at the end: compares the library's account of itself
 * with the model's.
 */
#ifndef TENURE_FUZZ_VERDICT_H
#define TENURE_FUZZ_VERDICT_H

#include "run.h"

/* After an operation: does the cheap checks always, and all checks once in run->check_every
 * operations. */
void verdict_step(fuzz_run *run);
/* Everything, now. */
void verdict_all(fuzz_run *run);
/* What traps have found since the process began. */
uint64_t verdict_traps(void);
/* Checks what the other device reaches of each pool, and of each mapping of live blocks. */
void verdict_peers(fuzz_run *run);
/* After the drain: nothing of the program is left, and then nothing of the library. */
void verdict_drained(fuzz_run *run);
void verdict_shut_down(fuzz_run *run);

#endif
