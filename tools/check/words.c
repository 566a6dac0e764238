/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which words of structures are certainly addresses that a kernel was given.
 *
 * Nothing tells which words of a structure a kernel reads. A word may be left over from an earlier
 * launch, if the structure is kept or shared, or if only a part of an array is filled. Or it may be
 * left over from anything, in host memory that was never written. So a word is believed only if it
 * shows that it is written anew:
 *
 * 1. At every launch so far the same words of the parameter, and no others, led to Tenure's memory,
 *    and each led to a live block. A structure that is filled in part breaks this rule, and none of
 *    its words is believed again. The same holds if one of them was null, a number, an address of
 *    the host, or the address of a freed block.
 * 2. At CHANGES_MIN earlier launches the word had the address of a block, and no word in its place
 *    had held that address before, and the launch names it nowhere else.
 * 3. The word holds such an address now, too. A word that is left over would have been there
 *    before. A word that leads to freed memory is never believed: libraries keep the addresses of
 *    work space in structures after they have freed it, and kernels do not look at them.
 * 4. No block that is gone has had the address. Otherwise the word may have been left over from
 *    that one, by whatever way it got there, and another block lives there by now.
 *
 * Even so a kernel leaves its words unread if it is given no items: see lanes.c.
 *
 * "In its place" means the parameter's size and the position in it, for all kernels alike. One
 * structure may be given to several kernels, and kernels made from one template have theirs in the
 * same place of the stack. Addresses count, not blocks, because addresses of freed memory are
 * handed out again. A filter remembers them for ever. If it takes an address for old by chance, or
 * because it is full, a word becomes possible that might be certain. It follows that launches which
 * are not read end all of this (check_words_blind).
 *
 * Between check_enter and check_leave.
 */
#include "check/words.h"

#include <stdlib.h>

#include "check/rules.h"

enum {
    /* A structure with more addresses is a list, which has a length. */
    ADDRESSES_MAX = 16,
    /* In a constant pointer to work space, or one of two buffers, nothing shows whether a kernel
     * reads it; what is left over by chance is hardly new, a block's beginning and alive eight
     * times in a row. More would find little in programs that launch a kernel a few times. */
    CHANGES_MIN = 8,
    /* 2 MiB: a million addresses, with one in 70 taken for old. Both bits of one lie in one line of
     * the cache. */
    FILTER_LINES = 1 << 15,
    LINE_WORDS = 8,
    SETS = 4096 /* of words that were named together */
};

typedef struct word {
    uint32_t at;
    uint32_t changes; /* launches at which its address was new; at most CHANGES_MIN */
} word;

struct check_words {
    size_t count;
    word words[];
};

static check_words given_up; /* stands for the history of a parameter that is not believed */
static _Alignas(64) uint64_t filter[FILTER_LINES][LINE_WORDS];
static int is_blind;

/* ---- addresses that were there -------------------------------------------------------------- */

static uint64_t mixed(uint64_t value)
{
    value = (value ^ (value >> 32)) * UINT64_C(0x9e3779b97f4a7c15);
    return value ^ (value >> 29);
}

static int bit_set(uint64_t *line, uint64_t bit)
{
    uint64_t *at = &line[bit / 64 % LINE_WORDS], mask = UINT64_C(1) << (bit % 64);
    int was_set = (*at & mask) != 0;
    *at |= mask;
    return was_set;
}

static uint64_t *line_of(uint64_t hash)
{
    return filter[hash >> 40 & (FILTER_LINES - 1)];
}

/* What words are found by. Their lines are in no near cache, and come all at once. */
static void hashes_fetch(uint64_t *hashes, size_t bytes, const check_held *held, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        hashes[i] = mixed(mixed((uint64_t)bytes << 32 | held[i].at) + held[i].address);
        __builtin_prefetch(line_of(hashes[i]), 1);
    }
}

/* 1 if no word in this place had the address before. It has from now on. */
static int is_new(uint64_t hash)
{
    uint64_t *line = line_of(hash);
    int had_first = bit_set(line, hash >> 20), had_second = bit_set(line, hash >> 30);
    return !had_first || !had_second;
}

static void words_note(size_t bytes, const check_held *held, size_t count)
{
    uint64_t hashes[ADDRESSES_MAX];
    for (size_t i = 0; i < count; i += ADDRESSES_MAX) {
        size_t some = count - i < ADDRESSES_MAX ? count - i : ADDRESSES_MAX;
        hashes_fetch(hashes, bytes, &held[i], some);
        for (size_t k = 0; k < some; k++)
            (void)is_new(hashes[k]);
    }
}

/* Programs that go round name the same words again. The table has what tells one such set from
 * others, with 64 bits. */
int check_words_were_there(size_t bytes, const check_held *held, size_t count)
{
    static uint64_t sets[SETS];
    if (is_blind) /* for ever, so nothing need be remembered */
        return 1;
    uint64_t sum = mixed((uint64_t)bytes << 32 | count);
    for (size_t i = 0; i < count; i++) {
        sum = (sum ^ held[i].address) * UINT64_C(0x9e3779b97f4a7c15);
        sum = (sum ^ sum >> 32) + held[i].at;
    }
    uint64_t *set = &sets[mixed(sum) >> 32 & (SETS - 1)];
    if (*set == sum)
        return 1;
    *set = sum;
    return 0;
}

void check_words_remember(size_t bytes, const check_held *held, size_t count)
{
    if (count > 0 && !check_words_were_there(bytes, held, count))
        words_note(bytes, held, count);
}

void check_words_note(size_t bytes, uint32_t at, CUdeviceptr address)
{
    words_note(bytes, &(check_held){.address = address, .at = at}, 1);
}

/* ---- histories ------------------------------------------------------------------------------ */

static check_words *words_make(const check_held *held, size_t count)
{
    check_words *fresh =
        count > ADDRESSES_MAX ? NULL : calloc(1, sizeof(*fresh) + count * sizeof(fresh->words[0]));
    if (fresh == NULL)
        return &given_up;
    fresh->count = count;
    for (size_t i = 0; i < count; i++)
        fresh->words[i].at = held[i].at;
    return fresh;
}

static int has_same_words(const check_words *self, const check_held *held, size_t count)
{
    if (self == &given_up || self->count != count)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (self->words[i].at != held[i].at)
            return 0;
    return 1;
}

/* The history fits what is held now: one of its words for each. Returns as check_words_judge. */
static int words_judge(check_words **history, size_t bytes, check_held *held, size_t count,
                       int are_old)
{
    uint64_t hashes[ADDRESSES_MAX];
    int are_alive = 1, has_new = 0;
    if (!are_old)
        hashes_fetch(hashes, bytes, held, count);
    for (size_t i = 0; i < count; i++) {
        word *one = &(*history)->words[i];
        int is_given = !are_old && is_new(hashes[i]) && held[i].is_alone;
        held[i].is_certain = is_given && held[i].is_live && one->changes >= CHANGES_MIN;
        if (is_given && one->changes < CHANGES_MIN)
            one->changes++;
        are_alive = are_alive && (held[i].is_live || check_is_live(held[i].address));
        has_new |= is_given;
    }
    if (!are_alive)
        check_words_give_up(history);
    return has_new;
}

/* 1 if these are the words of the history, and all lead to blocks that are followed: then there is
 * nothing to learn from words that are old. None is certain so far. */
static inline int are_as_before(const check_words *self, check_held *held, size_t count)
{
    int is_known = self != NULL && self != &given_up && self->count == count;
    uint32_t differ = !is_known;
    for (size_t i = 0; i < count; i++) {
        held[i].is_certain = 0;
        if (is_known)
            differ |= (self->words[i].at ^ held[i].at) | !held[i].is_live;
    }
    return differ == 0;
}

int check_words_judge(check_words **history, size_t bytes, check_held *held, size_t count,
                      int are_old)
{
    if ((are_as_before(*history, held, count) && are_old) || is_blind)
        return 0;
    if (*history == NULL)
        *history = words_make(held, count);
    if (has_same_words(*history, held, count))
        return words_judge(history, bytes, held, count, are_old);
    if (!are_old)
        words_note(bytes, held, count);
    check_words_give_up(history);
    return 0;
}

int check_words_may_be(const check_words *history)
{
    return history != &given_up && !is_blind;
}

void check_words_give_up(check_words **history)
{
    check_words_end(*history);
    *history = &given_up;
}

void check_words_end(check_words *history)
{
    if (history != &given_up)
        free(history);
}

void check_words_blind(void)
{
    is_blind = 1;
}
