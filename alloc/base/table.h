/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hash tables of links that lie in the records themselves.
 *
 * A table grows and shrinks a slot at a time (linear hashing). Each link that is added splits one
 * slot in two; each that is removed joins up to two pairs. So no call works on more than a few
 * records, however many there are, and on average a slot holds between half a record and one. The
 * slots lie in segments, each as large as all before it, which come and go whole. Without host
 * memory for the next segment the slots only get longer. A table of zeros is an empty one.
 *
 * The owner of a table says which lock protects it. Host memory is allocated under that lock.
 */
#ifndef TNRI_BASE_TABLE_H
#define TNRI_BASE_TABLE_H

#include <stddef.h>
#include <stdint.h>

enum { TNRI_TABLE_FIRST = 64, TNRI_TABLE_SEGMENTS = 40 };

/* The first member of a record. */
typedef struct tnri_link {
    struct tnri_link *next; /* in the slot */
    uint64_t key;
} tnri_link;

typedef struct tnri_table {
    size_t count; /* of links */
    size_t grown; /* slots beyond the first segment */
    tnri_link *first[TNRI_TABLE_FIRST];
    tnri_link **segments[TNRI_TABLE_SEGMENTS]; /* of TNRI_TABLE_FIRST << i slots; null: none yet */
} tnri_table;

/* Where the link with the key hangs; if there is none, where null hangs. Valid until the table
 * changes. */
tnri_link **tnri_table_at(tnri_table *table, uint64_t key);

/* Adds a link whose key is set and not in the table. */
void tnri_table_add(tnri_table *table, tnri_link *link);

/* Takes out the link that hangs at the place. */
void tnri_table_remove(tnri_table *table, tnri_link **at);

/* Takes out all links for which `is_wanted` returns 1, and returns them, linked by `next`. */
tnri_link *tnri_table_take(tnri_table *table, int (*is_wanted)(const tnri_link *link, void *user),
                           void *user);

#endif
