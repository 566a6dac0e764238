/* SPDX-License-Identifier: Apache-2.0 */
/* A hash of texts in the order of their numbers: see texts.h. */
#include "log/texts.h"

#include <string.h>

#include "base/host_memory.h"
#include "base/lock.h"

enum { TEXT_SLOTS = 8192, TEXTS_PER_LEAF = 512, TEXT_LEAVES = 512 };

/* Constant once it is in a table. */
typedef struct text {
    struct text *next; /* in its slot */
    uint32_t number;
    size_t bytes; /* of the characters, the last 0 included */
    char characters[];
} text;

typedef struct leaf {
    text *texts[TEXTS_PER_LEAF];
} leaf;

static struct {
    tnri_lock lock;
    uint32_t count;
    text *slots[TEXT_SLOTS];
    leaf *leaves[TEXT_LEAVES]; /* by number */
} texts = {.lock = {.rank = TNRI_RANK_HISTORY}};

/* FNV-1a. */
static size_t text_slot(const char *characters, size_t length)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)characters[i]) * 16777619u;
    return hash % TEXT_SLOTS;
}

/* Enters a text that is not there. Under the lock. Null: no host memory, or no number left. */
static text *text_add(const char *characters, size_t length, size_t slot)
{
    uint32_t number = texts.count + 1;
    size_t at = number / TEXTS_PER_LEAF;
    if (at >= TEXT_LEAVES)
        return NULL;
    if (texts.leaves[at] == NULL) {
        texts.leaves[at] = tnri_host_alloc(sizeof(leaf));
        if (texts.leaves[at] == NULL)
            return NULL;
    }
    text *fresh = tnri_host_alloc(sizeof(*fresh) + length + 1);
    if (fresh == NULL)
        return NULL;
    memcpy(fresh->characters, characters, length);
    fresh->bytes = length + 1;
    fresh->number = number;
    fresh->next = texts.slots[slot];
    texts.slots[slot] = fresh;
    texts.leaves[at]->texts[number % TEXTS_PER_LEAF] = fresh;
    texts.count = number;
    return fresh;
}

uint32_t tnri_text_number(const char *characters, int *no_host)
{
    size_t length = characters == NULL ? 0 : strnlen(characters, TNRI_TEXT_BYTES_MAX);
    if (length == 0)
        return 0;
    size_t slot = text_slot(characters, length);
    tnri_lock_take(&texts.lock);
    text *found = texts.slots[slot];
    while (found != NULL && (found->bytes != length + 1 ||
                             memcmp(found->characters, characters, length) != 0))
        found = found->next;
    if (found == NULL)
        found = text_add(characters, length, slot);
    tnri_lock_release(&texts.lock);
    if (found == NULL && no_host != NULL)
        *no_host = 1;
    return found == NULL ? 0 : found->number;
}

const char *tnri_text_of(uint32_t number)
{
    const char *characters = "";
    tnri_lock_take(&texts.lock);
    if (number > 0 && number <= texts.count)
        characters = texts.leaves[number / TEXTS_PER_LEAF]->texts[number % TEXTS_PER_LEAF]
                         ->characters;
    tnri_lock_release(&texts.lock);
    return characters;
}

uint32_t tnri_texts_count(void)
{
    tnri_lock_take(&texts.lock);
    uint32_t count = texts.count;
    tnri_lock_release(&texts.lock);
    return count;
}

void tnri_texts_free(void)
{
    for (size_t slot = 0; slot < TEXT_SLOTS; slot++) {
        while (texts.slots[slot] != NULL) {
            text *gone = texts.slots[slot];
            texts.slots[slot] = gone->next;
            tnri_host_free(gone, sizeof(*gone) + gone->bytes);
        }
    }
    for (size_t i = 0; i < TEXT_LEAVES; i++) {
        tnri_host_free(texts.leaves[i], sizeof(leaf));
        texts.leaves[i] = NULL;
    }
    texts.count = 0;
}
