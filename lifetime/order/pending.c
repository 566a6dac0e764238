/* SPDX-License-Identifier: Apache-2.0 */
/* The pairing heap of a stream's pending uses: see pending.h. */
#include "order/pending.h"

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

void tnri_pending_add(tnri_stream *stream, tnri_use *use)
{
    tnri_lock_take(&stream->pending_lock);
    tnri_pending_insert(&stream->pending, use);
    use->is_pending = 1;
    size_t before = atomic_load_explicit(&stream->pending_count, memory_order_relaxed);
    if (before == 0)
        atomic_store(&stream->pending_count, 1); /* one order with the list of polled streams */
    else
        atomic_store_explicit(&stream->pending_count, before + 1, memory_order_relaxed);
    tnri_lock_release(&stream->pending_lock);
    if (before == 0)
        tnri_stream_poll_enter(stream);
}

void tnri_pending_leave(tnri_stream *stream, tnri_use *use)
{
    tnri_assert_held(&stream->pending_lock);
    tnri_pending_remove(&stream->pending, use);
    use->is_pending = 0;
    size_t before = atomic_load_explicit(&stream->pending_count, memory_order_relaxed);
    atomic_store_explicit(&stream->pending_count, before - 1, memory_order_release);
}

int tnri_pending_withdraw(tnri_stream *stream, tnri_use *use)
{
    tnri_lock_take(&stream->pending_lock);
    int is_pending = use->is_pending;
    if (is_pending)
        tnri_pending_leave(stream, use);
    tnri_lock_release(&stream->pending_lock);
    return is_pending;
}
