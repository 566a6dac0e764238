/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of other processes and of files, on their way to a terminal. A terminal obeys what such a
 * text may hold: it would move, overwrite and hide what stands there, or type for the user, who may
 * be root. So every such text goes through here, and keeps only characters that are seen: what
 * controls a terminal, changes the direction of writing, has no width, or is not UTF-8, is shown as
 * a question mark, and the end of a line inside a text as a blank.
 */
#ifndef TENURE_TOOLS_SHOWN_H
#define TENURE_TOOLS_SHOWN_H

#include <stddef.h>
#include <stdio.h>

/* 1 if the character at `text`, which is not at its end, may be shown. `bytes`: how long it is; 1
 * for a byte that is not UTF-8. */
int shown_is_harmless(const char *text, size_t *bytes);

/* Changes the text in place, and returns it. */
char *shown(char *text);

/* As fprintf; newlines are kept at the beginning and at the end alone. */
__attribute__((format(printf, 2, 3))) void say(FILE *file, const char *format, ...);

#endif
