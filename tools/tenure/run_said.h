/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the checker says in the program's processes, on its way to stderr: they add it to a file,
 * and a thread of `tenure run` prints it as it comes, with the lines of the source. These are
 * looked up here and not there: the program must not wait for that, or die of it.
 *
 * A process that cannot write to the file prints on stderr itself.
 */
#ifndef TENURE_TOOLS_RUN_SAID_H
#define TENURE_TOOLS_RUN_SAID_H

/* The first begins to print what comes to the file, which is there and empty. 0: there is no thread
 * for it. The second prints what is left and ends. */
int run_said_begin(const char *path);
void run_said_end(void);

#endif
