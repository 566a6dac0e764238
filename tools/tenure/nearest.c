/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The distance (Damerau's) counts letters that are wrong, missing, too many, or exchanged with the
 * next one. A word is like another if at most a third of its letters differ, or if the typed word
 * is its beginning.
 */
#include "nearest.h"

#include <stdint.h>
#include <string.h>

enum { WORD_MAX = 40 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Row i of the table has the changes from the first i letters of `a` to each beginning of `b`; the
 * two rows before it are needed. */
static size_t changes_count(const char *a, const char *b)
{
    size_t rows[3][WORD_MAX + 1];
    size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length > WORD_MAX || b_length > WORD_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t *row = rows[i % 3], *before = rows[(i - 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            row[j] = before[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = least(row[j], 1 + least(before[j], row[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], rows[(i - 2) % 3][j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

void nearest_start(nearest *self, const char *typed)
{
    self->typed = typed;
    self->word = NULL;
    self->changes = 1 + strlen(typed) / 3;
}

void nearest_offer(nearest *self, const char *word)
{
    size_t length = strlen(self->typed);
    size_t changes = changes_count(self->typed, word);
    if (length > 1 && strncmp(self->typed, word, length) == 0)
        changes = 1;
    if (changes > self->changes || (changes == self->changes && self->word != NULL))
        return;
    self->word = word;
    self->changes = changes;
}
