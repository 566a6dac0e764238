/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory with a limit: see budget.h. A store cuts requests from pieces. The first piece has 8 KiB,
 * and each next one twice as much, up to 256 KiB. Larger requests get a piece of their own. Arrays
 * double, and are counted by their capacity.
 */
#include "budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES_MIN = 8 * 1024, PIECE_BYTES_MAX = 256 * 1024 };

/* Of budgets that are earned, in MiB where it says so. A file of 256 MiB so never takes 1 GiB of
 * the process; a sound one of 1 GiB may take what it needs. */
enum {
    EARNED_START_MIB = 64,
    EARNED_FOR_EACH_BYTE = 8,
    CEILING_MIB = 900,
    LARGE_FILE_MIB = 256,
    CEILING_FOR_EACH_BYTE = 6,
};

struct store_piece {
    store_piece *next;
    size_t bytes; /* with this header */
};

void budget_start(budget *limits, size_t limit_bytes)
{
    memset(limits, 0, sizeof(*limits));
    limits->limit_bytes = limit_bytes;
}

void budget_start_earned(budget *limits)
{
    budget_start(limits, 0);
    limits->limit_bytes = (size_t)EARNED_START_MIB << 20;
    limits->ceiling_bytes = limits->limit_bytes;
}

void budget_begin_file(budget *limits, uint64_t file_bytes)
{
    if (limits->ceiling_bytes == 0)
        return;
    uint64_t large = (uint64_t)LARGE_FILE_MIB << 20;
    uint64_t beyond = file_bytes > large ? file_bytes - large : 0;
    uint64_t most = SIZE_MAX / 2 / CEILING_FOR_EACH_BYTE;
    beyond = beyond < most ? beyond : most;
    size_t more = ((size_t)CEILING_MIB << 20) + (size_t)beyond * CEILING_FOR_EACH_BYTE;
    if (limits->ceiling_bytes <= SIZE_MAX - more)
        limits->ceiling_bytes += more;
}

void budget_earn(budget *limits, size_t read_bytes)
{
    if (limits->ceiling_bytes == 0)
        return;
    size_t left = limits->ceiling_bytes - limits->limit_bytes;
    limits->limit_bytes +=
        read_bytes < left / EARNED_FOR_EACH_BYTE ? read_bytes * EARNED_FOR_EACH_BYTE : left;
}

void budget_end_file(budget *limits)
{
    if (limits->ceiling_bytes > 0)
        limits->limit_bytes = limits->ceiling_bytes;
}

void budget_sentence(const budget *limits, char *sentence)
{
    if (limits->refused == 2) {
        snprintf(sentence, BUDGET_SENTENCE_BYTES, "the system has no more memory");
        return;
    }
    snprintf(sentence, BUDGET_SENTENCE_BYTES,
             "reading needs more than %zu MiB of memory%s; if the file is sound, allow more with "
             "--max-memory",
             limits->limit_bytes >> 20,
             limits->limit_bytes < limits->ceiling_bytes
                 ? ", more than a snapshot of this size takes"
                 : "");
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
