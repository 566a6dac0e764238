/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory with a limit.
 *
 * A file's content decides how much memory reading takes, and a file may be hostile. So everything
 * that grows with a file's content is taken from a store, and all stores of one reading share a
 * budget. When the budget is used up, allocation fails and the reader says so. Nothing is given
 * back one by one: a store is a list of pieces that is freed as a whole.
 *
 * A budget may have to be earned. Then its limit grows with the bytes that are read, up to a
 * ceiling that grows with the file's size on the disk. Snapshots take 2 to 5 bytes of memory for
 * each byte of the file. A file that takes more than 8 was made to do so.
 *
 * Not for several threads.
 */
#ifndef TENURE_TOOLS_BUDGET_H
#define TENURE_TOOLS_BUDGET_H

#include <stddef.h>
#include <stdint.h>

/* How much may be used by all stores together. */
typedef struct budget {
    size_t limit_bytes;
    size_t ceiling_bytes; /* what the limit may become by reading; 0: it need not be earned */
    size_t used_bytes;
    size_t peak_bytes; /* the most that was ever used */
    int refused;       /* an allocation failed because of the limit (1) or the system (2) */
} budget;

typedef struct store_piece store_piece;

/* A place for things that live equally long. A store that is all zero except for `limits` is
 * empty. */
typedef struct store {
    budget *limits;
    store_piece *pieces; /* newest first */
    char *at, *end;      /* what is left of the newest */
} store;

void budget_start(budget *limits, size_t limit_bytes);

/* A budget that is earned. Each file that is begun raises the ceiling by 900 MiB, and by 6 bytes
 * for each byte of the file beyond 256 MiB. Each byte read raises the limit by 8. */
void budget_start_earned(budget *limits);
void budget_begin_file(budget *limits, uint64_t file_bytes);
void budget_earn(budget *limits, size_t read_bytes);
/* The file was sound: from now on its processing may take all that the ceiling allows. */
void budget_end_file(budget *limits);

/* What to say when an allocation failed, into `sentence`. */
enum { BUDGET_SENTENCE_BYTES = 192 };
void budget_sentence(const budget *limits, char *sentence);

void store_start(store *place, budget *limits);
void store_release(store *place);

/* `bytes` of zeroed memory, aligned to 8; null if the budget or the system has no more. */
void *store_take(store *place, size_t bytes);

/* An array that grows: room for at least `wanted` elements of `element_bytes`. The old elements
 * are moved. Returns 0, or -1 without any change. Its memory is counted, and goes by
 * array_release; it belongs to no store. */
typedef struct array {
    void *items;
    size_t count, capacity;
} array;

int array_reserve(array *list, budget *limits, size_t element_bytes, size_t wanted);
void array_release(array *list, budget *limits, size_t element_bytes);

#endif
