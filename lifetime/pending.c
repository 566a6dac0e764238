/* SPDX-License-Identifier: Apache-2.0 */
/* The pairing heap of a stream's pending uses: see pending.h. */
#include "pending.h"

/* Makes the one with the higher number the first child of the other. Both are roots. */
static tnri_use *heap_meld(tnri_use *a, tnri_use *b)
{
    if (a == NULL)
        return b;
    if (b == NULL)
        return a;
    if (b->number < a->number) {
        tnri_use *swap = a;
        a = b;
        b = swap;
    }
    b->sibling = a->child;
    if (a->child != NULL)
        a->child->back = b;
    b->back = a;
    a->child = b;
    return a;
}

/* Melds a list of siblings into one: in pairs from the left, then all from the right. */
static tnri_use *heap_meld_siblings(tnri_use *first)
{
    tnri_use *pairs = NULL; /* melded pairs, last one first, linked by `sibling` */
    while (first != NULL) {
        tnri_use *a = first;
        tnri_use *b = a->sibling;
        first = b != NULL ? b->sibling : NULL;
        a->sibling = NULL;
        a->back = NULL;
        if (b != NULL) {
            b->sibling = NULL;
            b->back = NULL;
        }
        tnri_use *pair = heap_meld(a, b);
        pair->sibling = pairs;
        pairs = pair;
    }
    tnri_use *root = NULL;
    while (pairs != NULL) {
        tnri_use *pair = pairs;
        pairs = pair->sibling;
        pair->sibling = NULL;
        root = heap_meld(root, pair);
    }
    return root;
}

void tnri_pending_insert(tnri_use **heap, tnri_use *use)
{
    use->child = NULL;
    use->sibling = NULL;
    use->back = NULL;
    *heap = heap_meld(*heap, use);
}

void tnri_pending_remove(tnri_use **heap, tnri_use *use)
{
    if (use == *heap) {
        *heap = heap_meld_siblings(use->child);
        return;
    }
    /* `back` is the parent for a first child, else the sibling before it. */
    if (use->back->child == use)
        use->back->child = use->sibling;
    else
        use->back->sibling = use->sibling;
    if (use->sibling != NULL)
        use->sibling->back = use->back;
    *heap = heap_meld(*heap, heap_meld_siblings(use->child));
}
