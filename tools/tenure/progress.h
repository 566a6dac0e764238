/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress on stderr, for work that takes more than two seconds.
 *
 * On a terminal it is a bar that redraws itself. Elsewhere nothing is printed, unless the user
 * asked for lines (--progress). Not for use from several threads.
 */
#ifndef TENURE_TOOLS_PROGRESS_H
#define TENURE_TOOLS_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

typedef struct progress {
    const char *what; /* named before the bar; the caller's */
    size_t total;
    uint64_t started_ns, shown_ns; /* shown_ns is 0 until the first output */
    int terminal, lines;
} progress;

/* `lines_wanted`: print plain lines where stderr is no terminal. */
void progress_start(progress *bar, const char *what, size_t total, int lines_wanted);
/* Cheap enough to call every few thousand steps: reads a clock. */
void progress_update(progress *bar, size_t done);
/* Removes the bar. */
void progress_end(progress *bar);

#endif
