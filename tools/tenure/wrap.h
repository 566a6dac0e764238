/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text for people in lines that fit: to 100 columns where they are, and never below 20. A word that
 * is longer than a line stays whole.
 */
#ifndef TENURE_WRAP_H
#define TENURE_WRAP_H

#include <stddef.h>
#include <stdio.h>

/* How wide lines may be: what COLUMNS says, else the terminal that the file is, else 80. */
int wrap_width(FILE *file);

/* Prints the words of a text, and the end of the line. The first stands in `column`, where the line
 * is by now; further lines are indented by `indent`. */
void wrap_words(FILE *file, const char *text, size_t bytes, int column, int indent, int width);

/* Prints lines as they are, and those that are too long in several: a paragraph is filled anew, a
 * line that begins with a blank is continued below its text, or below its second column. */
void wrap_lines(FILE *file, const char *text, int width);

#endif
