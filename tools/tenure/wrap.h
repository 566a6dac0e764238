/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text for people, in lines that fit the terminal: of at most 100 columns, and at least 20. A word
 * that is longer than a line stays whole.
 */
#ifndef TENURE_WRAP_H
#define TENURE_WRAP_H

#include <stddef.h>
#include <stdio.h>

/* How wide lines may be: as COLUMNS says; else the width of the terminal behind the file; else
 * 80. */
int wrap_width(FILE *file);

/* Prints the words of a text, and the end of the line. The first word begins in `column`, where the
 * output is by now. Further lines are indented by `indent`. */
void wrap_words(FILE *file, const char *text, size_t bytes, int column, int indent, int width);

/* Prints lines as they are. Breaks lines that are too long: a paragraph is filled anew; a line that
 * begins with a blank is continued below its text, or below its second column. */
void wrap_lines(FILE *file, const char *text, int width);

#endif
