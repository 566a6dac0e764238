/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a process: see ending.c.
 */
#ifndef TENURE_PRELOAD_CHECK_ENDING_H
#define TENURE_PRELOAD_CHECK_ENDING_H

/* What is said at the end, each by its own source: the sums of --check, of --waste, and of
 * auto_record. A process that used no GPU says nothing. */
void check_findings_end(void);
void check_waste_end(void);
void check_record_end(void);

/* Once, before the program runs. */
void check_ending_begin(void);

#endif
