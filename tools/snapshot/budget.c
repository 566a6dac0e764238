/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory with a limit: see budget.h. A store cuts what it is asked for from pieces, the first of
 * 8 KiB and each twice the one before, up to 256 KiB; larger requests get a piece of their own.
 * Arrays double, and are counted by their capacity.
 */
#include "budget.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES_MIN = 8 * 1024, PIECE_BYTES_MAX = 256 * 1024 };

struct store_piece {
    store_piece *next;
    size_t bytes; /* with this header */
};

void budget_start(budget *limits, size_t limit_bytes)
{
    memset(limits, 0, sizeof(*limits));
    limits->limit_bytes = limit_bytes;
}

/* Counts `bytes` more. Returns 0, or -1 if that is beyond the limit. */
static int budget_charge(budget *limits, size_t bytes)
{
    if (bytes > limits->limit_bytes - limits->used_bytes) {
        limits->refused = 1;
        return -1;
    }
    limits->used_bytes += bytes;
    if (limits->used_bytes > limits->peak_bytes)
        limits->peak_bytes = limits->used_bytes;
    return 0;
}

void store_start(store *place, budget *limits)
{
    memset(place, 0, sizeof(*place));
    place->limits = limits;
}

void store_release(store *place)
{
    while (place->pieces) {
        store_piece *piece = place->pieces;
        place->pieces = piece->next;
        place->limits->used_bytes -= piece->bytes;
        free(piece);
    }
    place->at = place->end = NULL;
}

/* A new piece with room for `bytes`, at the head of the list. */
static store_piece *piece_make(store *place, size_t bytes)
{
    size_t whole = sizeof(store_piece) + bytes;
    if (whole < bytes || budget_charge(place->limits, whole) != 0)
        return NULL;
    store_piece *piece = calloc(1, whole);
    if (!piece) {
        place->limits->used_bytes -= whole;
        place->limits->refused = 2;
        return NULL;
    }
    piece->bytes = whole;
    piece->next = place->pieces;
    place->pieces = piece;
    return piece;
}

void *store_take(store *place, size_t bytes)
{
    if (bytes > SIZE_MAX - 7) {
        place->limits->refused = 1;
        return NULL;
    }
    bytes = (bytes + 7) & ~(size_t)7;
    if (bytes <= (size_t)(place->end - place->at)) {
        char *taken = place->at;
        place->at += bytes;
        return taken;
    }
    size_t whole = place->pieces ? place->pieces->bytes * 2 : PIECE_BYTES_MIN;
    whole = whole < PIECE_BYTES_MAX ? whole : PIECE_BYTES_MAX;
    /* A large request does not end the piece that small ones are cut from. */
    size_t body = bytes > whole / 4 ? bytes : whole - sizeof(store_piece);
    store_piece *piece = piece_make(place, body);
    if (!piece)
        return NULL;
    char *first = (char *)(piece + 1);
    if (body == bytes)
        return first;
    place->at = first + bytes;
    place->end = first + body;
    return first;
}

int array_reserve(array *list, budget *limits, size_t element_bytes, size_t wanted)
{
    if (wanted <= list->capacity)
        return 0;
    size_t capacity = list->capacity ? list->capacity * 2 : 16;
    if (capacity < wanted)
        capacity = wanted;
    if (capacity > SIZE_MAX / 2 / element_bytes) {
        limits->refused = 1;
        return -1;
    }
    /* Both copies exist while the elements are moved, but realloc moves large ones by pages. */
    if (budget_charge(limits, (capacity - list->capacity) * element_bytes) != 0)
        return -1;
    void *items = realloc(list->items, capacity * element_bytes);
    if (!items) {
        limits->used_bytes -= (capacity - list->capacity) * element_bytes;
        limits->refused = 2;
        return -1;
    }
    list->items = items;
    list->capacity = capacity;
    return 0;
}

void array_release(array *list, budget *limits, size_t element_bytes)
{
    limits->used_bytes -= list->capacity * element_bytes;
    free(list->items);
    memset(list, 0, sizeof(*list));
}
