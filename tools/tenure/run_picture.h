/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot made of a journal: what was allocated, and the latest frees as its history. */
#ifndef TENURE_TOOLS_RUN_PICTURE_H
#define TENURE_TOOLS_RUN_PICTURE_H

#include "preload/counts.h"
#include "watch/journal.h"

/* Writes it. Returns 0, or -1 after a message. */
int run_picture_write(const journal *book, const char *path, const char *reason);

/* A stack, in lines on stderr. */
void run_picture_stack_print(const journal *book, const char *what, uint32_t stack);

#endif
