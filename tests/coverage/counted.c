/* SPDX-License-Identifier: Apache-2.0 */
/* Part of whatever has counts of branches, in builds with TNR_COVERAGE: see counts.c. */
#include "counts.h"

void __gcov_dump(void); /* gcc's: writes the counts of the program or library that it is in */

void tenure_counted_here(void);

__attribute__((constructor)) void tenure_counted_here(void)
{
    tenure_counts_enlist(__gcov_dump);
}
