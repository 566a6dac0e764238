/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the PTX of the kernels of gated programs, for test_gate_kernels.py and for ptxas.
 */
#include <stdio.h>

#include "gate_state.h"

int main(void)
{
    for (int i = 0; gate_kernels[i] != NULL; i++)
        fputs(gate_kernels[i], stdout);
    return 0;
}
