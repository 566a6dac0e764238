/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of pointers that keep the order in which their members came.
 *
 * The members stand in an array, so that a walk meets them in the same order in each run, wherever
 * host memory lies. If there are more than a few, a hash table of their places tells in a few steps
 * whether a pointer is a member. The table is never more than half full. A member takes 16 to 32
 * bytes; in a set of a few it takes 8. A set of zeros is an empty one.
 *
 * The owner of a set says which lock protects it.
 */
#ifndef TNRI_GRAPH_SET_H
#define TNRI_GRAPH_SET_H

#include <stddef.h>
#include <stdint.h>

/* Up to so many members are looked through one by one. */
enum { TNRI_SET_FEW = 8 };

typedef struct tnri_set {
    void **members; /* in the order in which they came; null: none yet */
    size_t count, room;
    uint32_t *slots; /* 2 * room: 1 + the place of a member, 0 if empty; null: there are few */
} tnri_set;

int tnri_set_has(const tnri_set *set, const void *member);

/* Makes room for one more. 0 if there is no host memory; nothing has changed. */
int tnri_set_reserve(tnri_set *set);

/* Adds a pointer that is not in; room was made for it. */
void tnri_set_add(tnri_set *set, void *member);

/* Takes all members out. The room stays, and `members` stays as it is. So a walk over the former
 * members may add those again that are to stay. */
void tnri_set_empty(tnri_set *set);

/* The same, and gives the memory back. */
void tnri_set_free(tnri_set *set);

#endif
