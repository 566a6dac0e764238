/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of branches that outlive _exit(): see counts.c. */
#ifndef TENURE_COVERAGE_COUNTS_H
#define TENURE_COVERAGE_COUNTS_H

/* From now on the function is called before the process ends by _exit(). */
__attribute__((visibility("default"))) void tenure_counts_enlist(void (*dump)(void));

#endif
