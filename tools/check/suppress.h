/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules for findings that are not to be said. Each line is a rule: words with patterns. Every word
 * must match something of the finding. A line that begins with # is a comment.
 *
 *   kind:free_in_use frame:loader_next kernel:copy_*
 *
 * Patterns are those of the shell (fnmatch). `tenure run` reads the file first, and refuses bad
 * lines before the program starts. The checker reads it again.
 */
#ifndef TENURE_PRELOAD_CHECK_SUPPRESS_H
#define TENURE_PRELOAD_CHECK_SUPPRESS_H

#include <stddef.h>

enum { SUPPRESS_WORDS_MAX = 8, SUPPRESS_RULES_MAX = 4000, SUPPRESS_ERROR_BYTES = 512 };

typedef enum suppress_about {
    SUPPRESS_KIND,
    SUPPRESS_CALL,
    SUPPRESS_KERNEL,
    SUPPRESS_STREAM,
    SUPPRESS_FRAME,
    SUPPRESS_ABOUT_COUNT
} suppress_about;

/* Something of a finding that a word may match. */
typedef struct suppress_fact {
    suppress_about about;
    const char *text;
} suppress_fact;

typedef struct suppress_rule {
    int line;
    size_t count;
    suppress_fact words[SUPPRESS_WORDS_MAX]; /* with patterns as texts */
} suppress_rule;

typedef struct suppress_rules {
    size_t count;
    suppress_rule *rules;
    char *text; /* which the patterns are parts of */
} suppress_rules;

/* Reads a file. 0; -1 with a sentence that begins with the file, and with the line if a line is
 * wrong. */
int suppress_read(suppress_rules *rules, const char *path, char error[SUPPRESS_ERROR_BYTES]);
void suppress_release(suppress_rules *rules);

/* The first rule that matches, -1: none. */
int suppress_find(const suppress_rules *rules, const suppress_fact *facts, size_t count);

#endif
