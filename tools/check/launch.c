/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a launch uses, read from its parameters as the audit reads those of graph nodes
 * (capture/graph/nodes.h): every word that is aligned to 8 bytes as the kernel sees it.
 *
 * A parameter of 8 bytes that holds an address of a block is a use. That it is an address and no
 * number shows when it leads to a live block: at this launch or at an earlier one of the kernel. A
 * kernel that is given nothing but addresses of Tenure's, one of them of a live block, has no
 * number among them. An address inside of a freed block may be left over in a parameter. If a
 * parameter is zero, it may be a length or a choice, by which the kernel leaves the others unread:
 * unless it always is. While that is not known yet it counts for freed memory alone: programs pass
 * stale pointers with no items, and hardly live ones. So it is with other small numbers, where no
 * launch that was given live memory alone had them: they may be the choice of another way, in which
 * the kernel needs no such pointer. A parameter that always was more than the one before it, or
 * led behind it into the same block, may be the end of a range: if both are equal there are no
 * items.
 *
 * A word of a larger parameter may be a use, or may be left over from before in a structure that is
 * only partly filled. A finding from such a word alone is possible, unless earlier launches show
 * that the word is certain (words.c). A finding is also only possible if it follows from the
 * address where a block begins while another parameter leads to the block right below: that is how
 * programs give the end of a range.
 *
 * A tensor map is opaque. If the program has had it encoded, the checker takes the address that it
 * was encoded with (tensor.c).
 *
 * Addresses that lie in device memory are not seen.
 */
#include "check/launch.h"

#include <stdlib.h>
#include <string.h>

#include "check/findings.h"
#include "check/layout.h"
#include "check/numbers.h"
#include "check/rules.h"
#include "check/sole.h"
#include "check/tensor.h"
#include "check/visible.h"
#include "check/waste.h"
#include "check/words.h"
#include "service.h"
#include "watch/journal.h"

enum { WORD = sizeof(CUdeviceptr), POINTERS_MAX = 512, HELD_MAX = 512 };

/* ---- words ---------------------------------------------------------------------------------- */

typedef struct reading {
    check_words_visit visit;
    void *user;
    const check_layout *layout; /* null: it is not known where parameters lie */
    int is_launch;              /* words are judged, and remembered */
    int is_list;                /* the parameter that is being read: is_list */
    uint64_t number;            /* no two readings have one; 0: nothing is asked by it */
    uintptr_t low, span;        /* where Tenure's addresses are: service_low */
    uint64_t mask, wanted;      /* by which none of many words is one: is_clear */
    int has_tensors;            /* the program has had some encoded */
    check_doubts doubts;        /* by numbers */
    int is_polled;              /* one leads to memory that the host can read */
    int has_unfollowed;         /* a pointer leads to memory of ours that is not followed */
    check_parameter *last; /* the last parameter that was a number of 8 bytes, and which number */
    uint64_t last_number;
    size_t count;
    check_word pointers[POINTERS_MAX]; /* parameters of 8 bytes that are addresses of ours */
    check_parameter *owners[POINTERS_MAX];
    size_t held_count;
    check_held held[HELD_MAX]; /* words of larger ones, which are judged when all are known */
    check_word held_words[HELD_MAX];
    check_parameter *holders[HELD_MAX];
} reading;

/* Not what is only counted: these are 40 KiB, and each launch would pay for their zeros. */
static void reading_begin(reading *self, const check_layout *layout, check_words_visit visit,
                          void *user, int is_launch)
{
    self->visit = visit;
    self->user = user;
    self->layout = layout;
    self->is_launch = is_launch;
    self->has_tensors = check_has_tensors;
    self->low = atomic_load_explicit(&service_low, memory_order_relaxed);
    self->span = atomic_load_explicit(&service_high, memory_order_relaxed) - self->low;
    self->count = self->held_count = 0;
    self->is_polled = self->has_unfollowed = 0;
    check_doubts_begin(&self->doubts);
    self->last = NULL;
    self->number = 0;
    if (layout != NULL && layout->is_known && layout->large_count == 0)
        return;
    static uint64_t numbers; /* under the lock of check_enter */
    self->number = ++numbers;
    /* The upper half of a word has what all addresses from the first to the last have in common. */
    uint64_t differ = (self->low ^ (self->low + self->span - 1)) >> 32;
    self->mask = differ == 0 ? ~(uint64_t)0 : ~(uint64_t)0 << (64 - __builtin_clzll(differ));
    self->mask <<= 32;
    self->wanted = (self->low & self->mask) | 1; /* no lower half has a 1 under the mask */
}

/* How many bytes at a place of a parameter are a tensor map; 0: none are. One that is a parameter
 * counts as a pointer. */
static size_t read_tensor(reading *self, check_parameter *one, const char *from, int is_whole)
{
    CUdeviceptr address = check_tensor_find(from);
    if (address == 0)
        return 0;
    check_word word = {address, check_block_at(address), 0};
    if (service_of_address(address) != NULL && is_whole && one != NULL &&
        self->count < POINTERS_MAX) {
        self->owners[self->count] = one;
        self->pointers[self->count++] = word;
    } else if (service_of_address(address) != NULL) {
        self->visit(self->user, &word, 1);
    }
    return CHECK_TENSOR_BYTES;
}

/* One for which there is no room. */
static __attribute__((noinline, cold)) void word_surplus(const reading *self, check_parameter *one,
                                                         const check_word *word, size_t at)
{
    check_words_note(one->bytes, (uint32_t)at, word->address);
    check_words_give_up(&one->words);
    self->visit(self->user, word, 1);
}

/* A word of a larger parameter that is not read as a list. */
static inline __attribute__((always_inline)) void word_hold(reading *self, check_parameter *one,
                                                            check_word word, size_t at)
{
    size_t count = self->held_count;
    if (count == HELD_MAX) {
        word_surplus(self, one, &word, at);
        return;
    }
    check_held *held = &self->held[count]; /* the rest is filled in when it is judged */
    held->address = word.address;
    held->at = (uint32_t)at;
    held->is_live = word.block != NULL && word.block->is_live;
    self->held_words[count] = word;
    self->holders[count] = one;
    self->held_count++;
}

/* Words that are compared at once. */
typedef uint64_t words_two __attribute__((vector_size(16)));
typedef uint32_t halves_four __attribute__((vector_size(16)));
enum { STRIDE = 128 };

/* Not zero where a word may be one of ours. */
static words_two words_compare(const reading *self, const char *from)
{
    words_two here, mask = {self->mask, self->mask}, wanted = {self->wanted, self->wanted};
    memcpy(&here, from, sizeof(here));
    return (words_two)((halves_four)(here & mask) == (halves_four)wanted);
}

/* 1 if none of the next STRIDE bytes are an address of ours; 0 if some may be. */
static int is_clear(const reading *self, const char *from)
{
    words_two found = words_compare(self, from) | words_compare(self, from + 16) |
                      words_compare(self, from + 32) | words_compare(self, from + 48) |
                      words_compare(self, from + 64) | words_compare(self, from + 80) |
                      words_compare(self, from + 96) | words_compare(self, from + 112);
    return (found[0] | found[1]) == 0;
}

/* The first word from `i` on that may be an address of ours; behind the last one before `end` if
 * none is. Most of what launches are given is looked at here alone. */
static size_t word_next(const reading *self, const char *from, size_t i, size_t end)
{
    size_t stop;
    /* In a list the next one is. */
    if (i + WORD <= end) {
        CUdeviceptr word;
        memcpy(&word, from + i, sizeof(word));
        if ((uintptr_t)word - self->low < self->span)
            return i;
    }
    do {
        while (i + STRIDE <= end && is_clear(self, from + i))
            i += STRIDE;
        stop = i + STRIDE <= end ? i + STRIDE : end;
        for (; i + WORD <= stop; i += WORD) {
            CUdeviceptr word;
            memcpy(&word, from + i, sizeof(word));
            if ((uintptr_t)word - self->low < self->span)
                return i;
        }
    } while (i + WORD <= end);
    return i;
}

/* Where a word leads. 0: it is no address of Tenure's; where a block is or was it is one. */
static inline int is_ours(check_word *to, CUdeviceptr address)
{
    to->address = address;
    to->block = check_block_at(address);
    to->is_certain = 0;
    return to->block != NULL || service_of_address(address) != NULL;
}

/* The block counts how many words of this launch lead to it. */
static void block_name(const reading *self, check_block *block)
{
    if (block == NULL)
        return;
    block->named = block->named_in == self->number ? (uint16_t)(block->named + 1) : 1;
    block->named_in = self->number;
}

/* The next of the pointers; behind the first POINTERS_MAX each is visited as it comes. */
static __attribute__((noinline)) void read_surplus(reading *self, CUdeviceptr address)
{
    check_word word;
    if (!is_ours(&word, address))
        return;
    block_name(self, word.block);
    self->visit(self->user, &word, 1);
}

static inline void read_long_number(reading *self, check_parameter *one, uint64_t number)
{
    (void)check_zero_note(&self->doubts, &one->zeros, number == 0);
    check_choice_note(&self->doubts, &one->values, number);
    if (!one->values.was_otherwise && self->last != NULL && self->last->index + 1 == one->index)
        check_bound_note(&self->doubts, &one->values, number == self->last_number,
                         number > self->last_number);
    self->last = one;
    self->last_number = number;
}

/* The last of the pointers, beside the one before it. */
static inline void range_note(reading *self, check_parameter *one)
{
    const check_word *end = &self->pointers[self->count - 1], *begin = end - 1;
    if (one->values.was_otherwise || self->count < 2 ||
        self->owners[self->count - 2]->index + 1 != one->index)
        return;
    const check_block *block = begin->block;
    check_bound_note(&self->doubts, &one->values, end->address == begin->address,
                     block != NULL && end->address > begin->address &&
                         end->address - block->base <= block->bytes);
}

static inline void read_pointer(reading *self, check_parameter *one, const char *from)
{
    CUdeviceptr address;
    memcpy(&address, from, sizeof(address));
    if ((uintptr_t)address - self->low >= self->span) {
        if (self->is_launch) {
            read_long_number(self, one, address);
            self->is_polled |= check_is_visible(address);
        }
        return;
    }
    if (self->count < POINTERS_MAX) {
        check_word *word = &self->pointers[self->count];
        self->owners[self->count] = one;
        int is_one = is_ours(word, address);
        self->count += is_one != 0;
        if (word->block == NULL)
            self->has_unfollowed = 1;
        if (is_one && self->is_launch)
            range_note(self, one);
    } else {
        read_surplus(self, address);
    }
}

/* 1 if a word of a structure leads to memory that the host can read. */
static int has_visible(const char *from, size_t offset, size_t bytes)
{
    uintptr_t word;
    for (size_t i = (0 - offset) & (WORD - 1); i + WORD <= bytes; i += WORD) {
        memcpy(&word, from + i, sizeof(word));
        if (check_is_visible(word))
            return 1;
    }
    return 0;
}

/* ---- lists ---------------------------------------------------------------------------------- */

/* 1 if no word of the parameter will be believed, nor one of another, with which these would have
 * to be compared: then they need not wait for the rest. So it is in the lists of optimizers, which
 * have hundreds; where nothing is judged; and where nobody knows what the bytes are. */
static int is_list(const reading *self, const check_parameter *one)
{
    const check_layout *layout = self->layout;
    if (!self->is_launch || one == NULL)
        return 1;
    int is_one = !check_words_may_be(one->words) && self->held_count == 0;
    for (size_t i = 0; is_one && layout->large_count > 1 && i < layout->count; i++)
        is_one =
            layout->parameters[i].bytes <= WORD || !check_words_may_be(layout->parameters[i].words);
    return is_one;
}

/* The words that are held for the list. */
static void list_use(reading *self, const check_parameter *one)
{
    if (self->is_launch && one != NULL)
        check_words_remember(one->bytes, self->held, self->held_count);
    self->visit(self->user, self->held_words, self->held_count);
    self->held_count = 0;
}

/* Takes words for as long as each may be an address of ours, and there is room. Returns where that
 * ends. */
static size_t list_take(reading *self, const char *from, size_t i, size_t end)
{
    uintptr_t low = self->low, span = self->span;
    check_word *word = &self->held_words[self->held_count], *last = &self->held_words[HELD_MAX];
    check_held *held = &self->held[self->held_count];
    for (; i + WORD <= end && word < last; i += WORD) {
        CUdeviceptr address;
        memcpy(&address, from + i, sizeof(address));
        if ((uintptr_t)address - low >= span)
            break;
        if (!is_ours(word, address))
            continue;
        word++;
        held->address = address;
        held++->at = (uint32_t)i;
    }
    self->held_count = (size_t)(word - self->held_words);
    return i;
}

/* ---- parameters ----------------------------------------------------------------------------- */

/* From one place where a tensor map may begin to the next. Returns where the last word ends. */
static size_t read_stretch(reading *self, check_parameter *one, const char *from, size_t i,
                           size_t end)
{
    check_word word;
    for (;;) {
        i = word_next(self, from, i, end);
        if (i + WORD > end)
            return i;
        if (self->is_list) {
            if (self->held_count == HELD_MAX)
                list_use(self, one);
            i = list_take(self, from, i, end);
            continue;
        }
        memcpy(&word.address, from + i, sizeof(word.address));
        if (is_ours(&word, word.address))
            word_hold(self, one, word, i);
        i += WORD;
    }
}

/* The words of a parameter in which there are few. */
static inline void read_few(reading *self, check_parameter *one, const char *from, size_t i,
                            size_t end)
{
    for (; i + WORD <= end; i += WORD) {
        check_word word;
        memcpy(&word.address, from + i, sizeof(word.address));
        if ((uintptr_t)word.address - self->low < self->span && is_ours(&word, word.address))
            word_hold(self, one, word, i);
    }
}

static void read_tensors(reading *self, check_parameter *one, const char *from, size_t offset,
                         size_t bytes)
{
    size_t i = (0 - offset) & (WORD - 1);
    while (i + WORD <= bytes) {
        size_t behind = CHECK_TENSOR_ALIGNMENT - (offset + i) % CHECK_TENSOR_ALIGNMENT;
        size_t skipped = 0;
        if (behind == CHECK_TENSOR_ALIGNMENT && bytes - i >= CHECK_TENSOR_BYTES)
            skipped = read_tensor(self, one, from + i, bytes == CHECK_TENSOR_BYTES);
        i = skipped > 0 ? i + skipped
                        : read_stretch(self, one, from, i, behind < bytes - i ? i + behind : bytes);
    }
}

/* A parameter that is no single word, or bytes of which nobody knows what they are. */
static void read_bytes(reading *self, check_parameter *one, const char *from, size_t offset,
                       size_t bytes)
{
    self->is_list = is_list(self, one);
    if (self->is_launch && one != NULL) {
        one->from = from;
        one->read_in = self->number;
    }
    if (self->is_launch && check_visible_span > 0 && !self->is_polled)
        self->is_polled = has_visible(from, offset, bytes);
    if (self->has_tensors)
        read_tensors(self, one, from, offset, bytes);
    else if (bytes < STRIDE)
        read_few(self, one, from, (0 - offset) & (WORD - 1), bytes);
    else
        (void)read_stretch(self, one, from, (0 - offset) & (WORD - 1), bytes);
    if (self->is_list && self->held_count > 0)
        list_use(self, one);
}

static inline void read_parameter(reading *self, check_parameter *one, const char *from)
{
    if (one->bytes == WORD) /* it is aligned, or would have no room */
        read_pointer(self, one, from);
    else
        read_bytes(self, one, from, one->offset, one->bytes);
}

/* ---- where the words of a launch lead ------------------------------------------------------- */

/* 1 if another pointer leads to memory that is not followed, and that ends where the block begins.
 * Seldom asked: it must lie behind what is known below, and behind what keeps that apart. */
static __attribute__((noinline)) int is_end_of_unfollowed(const reading *self,
                                                          const check_block *block)
{
    CUdeviceptr low = block->lower == NULL ? 0 : block->lower->base + block->lower->bytes;
    if (low > 0 && block->lower->is_live)
        low = check_memory_end(block->lower->base);
    for (size_t i = 0; i < self->count; i++)
        if (self->pointers[i].block == NULL && self->pointers[i].address >= low &&
            self->pointers[i].address < block->base &&
            check_memory_end(self->pointers[i].address) == block->base)
            return 1;
    return 0;
}

static inline int has_pointer_to(const reading *self, const check_block *block)
{
    for (size_t i = 0; i < self->count; i++)
        if (self->pointers[i].block == block)
            return 1;
    return 0;
}

/* 1 if a pointer is where a block begins and a live one ends, to which another pointer leads. */
static inline int is_end_of_another(const reading *self, const check_word *pointer)
{
    const check_block *block = pointer->block;
    if (block == NULL || block->base != pointer->address)
        return 0;
    if (!block->is_beside)
        return self->has_unfollowed && is_end_of_unfollowed(self, block);
    return block->lower->is_live && has_pointer_to(self, block->lower);
}

/* 1 if a block begins where a word leads, the first that has the address, and no other word leads
 * to it or to the one below. */
static int is_alone(const reading *self, const check_word *word)
{
    const check_block *block = word->block;
    if (block == NULL || block->base != word->address || block->named != 1 ||
        !check_block_is_first(block))
        return 0;
    return !block->is_beside || block->lower->named_in != self->number;
}

/* Which words are alone. */
static void held_tell(reading *self)
{
    for (size_t i = 0; i < self->count; i++)
        block_name(self, self->pointers[i].block);
    for (size_t i = 0; i < self->held_count; i++)
        block_name(self, self->held_words[i].block);
    for (size_t i = 0; i < self->held_count; i++)
        self->held[i].is_alone = is_alone(self, &self->held_words[i]);
}

/* All words of a parameter at once, of those that had none, too. 0: none is certain. Programs that
 * go round name the same words again: then nobody asks which are alone. */
static int held_judge(reading *self, check_layout *layout)
{
    size_t from = 0;
    int has_new = 0, is_told = 0;
    for (size_t i = 0; i < layout->count; i++) {
        check_parameter *one = &layout->parameters[i];
        size_t count = 0;
        while (from + count < self->held_count && self->holders[from + count] == one)
            count++;
        if (count == 0 && (one->bytes <= WORD || !check_words_may_be(one->words)))
            continue;
        check_held *held = &self->held[from];
        int are_old = check_words_were_there(one->bytes, held, count);
        if (count > 0 && !are_old && !is_told) {
            held_tell(self);
            is_told = 1;
        }
        has_new |= check_words_judge(&one->words, one->bytes, held, count, are_old);
        from += count;
    }
    return has_new;
}

/* 1 if something in the larger parameters is zero that was something else before. */
static int has_cleared(const reading *self, check_layout *layout)
{
    int found = 0;
    for (size_t i = 0; i < layout->count; i++) {
        check_parameter *one = &layout->parameters[i];
        if (one->bytes > WORD && one->read_in == self->number)
            found |= check_lanes_note(&one->lanes, one->from, one->bytes);
    }
    return found;
}

static void read_held(reading *self, check_layout *layout)
{
    if (layout->large_count == 0)
        return;
    int may_be = held_judge(self, layout) && !has_cleared(self, layout) && !self->doubts.has_zero;
    for (size_t i = 0; i < self->held_count && may_be; i++)
        self->held_words[i].is_certain = self->held[i].is_certain;
    if (self->held_count > 0)
        self->visit(self->user, self->held_words, self->held_count);
}

static int leads_to_live(const check_word *word)
{
    return word->block != NULL && word->block->is_live;
}

/* 1 if all parameters are pointers, one of them to a live block: then none of them is a number. */
static int are_all_pointers(const reading *self, const check_layout *layout)
{
    int has_live = 0;
    if (layout == NULL || !layout->is_known || self->count != layout->count ||
        layout->numbers.count > 0)
        return 0;
    for (size_t i = 0; i < self->count && !has_live; i++) {
        const check_word *word = &self->pointers[i];
        has_live = leads_to_live(word) || (word->block == NULL && check_is_live(word->address));
    }
    return has_live;
}

/* 1 if a pointer leads into freed memory, and not to where the block began. Libraries divide work
 * space, give it back, and leave the addresses of pieces in parameters that their kernels do not
 * look at, whatever has had the memory since. */
static int is_piece_of_freed(const check_word *word)
{
    return word->block != NULL && !word->block->is_live && word->block->base != word->address;
}

/* Whether the pointers are known to be ones, and known to be read. */
static void pointers_judge(reading *self, const check_layout *layout)
{
    check_parameter **owner = self->owners;
    const check_word *end = self->pointers + self->count;
    for (check_word *word = self->pointers; word < end; word++, owner++) {
        if (leads_to_live(word))
            (*owner)->was_live = 1;
        else if (self->doubts.may_be_zero || self->doubts.is_choice_new ||
                 is_piece_of_freed(word) || !((*owner)->was_live || are_all_pointers(self, layout)))
            continue;
        word->is_certain = !self->doubts.has_zero && !is_end_of_another(self, word);
    }
}

/* 1 if a pointer leads to freed memory. */
static int has_freed(const reading *self)
{
    for (size_t i = 0; i < self->count; i++)
        if (self->pointers[i].block != NULL && !self->pointers[i].block->is_live)
            return 1;
    return 0;
}

static void read_end(reading *self, check_layout *layout)
{
    if (self->is_launch && layout != NULL)
        read_held(self, layout);
    if (self->is_launch)
        pointers_judge(self, layout);
    if (self->doubts.is_choice_new && !has_freed(self))
        check_choices_remember(&self->doubts);
    if (self->count > 0)
        self->visit(self->user, self->pointers, self->count);
}

/* The parameters in one buffer: each by itself if their places are known. */
static int read_packed(reading *self, check_layout *layout, void *const *extra)
{
    const char *buffer = NULL;
    size_t bytes = 0;
    for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[i + 1] != NULL)
            memcpy(&bytes, extra[i + 1], sizeof(bytes));
        else
            return 0;
    }
    if (buffer == NULL || layout == NULL || !layout->is_known) {
        if (buffer != NULL)
            read_bytes(self, NULL, buffer, 0, bytes);
        check_words_blind();
        return buffer != NULL || bytes == 0;
    }
    if (self->is_launch)
        check_numbers_packed(&self->doubts, &layout->numbers, buffer, bytes);
    for (size_t i = 0; i < layout->count; i++) {
        check_parameter *one = &layout->parameters[i];
        if (one->offset + one->bytes <= bytes)
            read_parameter(self, one, buffer + one->offset);
        else
            check_words_blind();
    }
    return 1;
}

static unsigned words_each(reading *self, check_layout *layout, void *const *parameters,
                           void *const *extra)
{
    int is_read = 1;
    if (extra != NULL && extra[0] != CU_LAUNCH_PARAM_END) {
        is_read = read_packed(self, layout, extra);
    } else if (layout == NULL || !layout->is_known) {
        is_read = 0;
    } else {
        for (size_t i = 0; i < layout->count && is_read; i++) {
            check_parameter *one = &layout->parameters[i];
            is_read = parameters != NULL && parameters[one->index] != NULL;
            if (is_read)
                read_parameter(self, one, parameters[one->index]);
        }
        if (parameters != NULL && self->is_launch)
            check_numbers_read(&self->doubts, &layout->numbers, parameters);
    }
    if (!is_read)
        check_words_blind();
    read_end(self, layout);
    return (is_read ? CHECK_WORDS_READ : 0) | (self->is_polled ? CHECK_WORDS_VISIBLE : 0);
}

static unsigned layout_words(check_layout *layout, void *const *parameters, void *const *extra,
                             check_words_visit visit, void *user)
{
    reading self;
    reading_begin(&self, layout, visit, user, check_does(CHECK_REPORTS));
    return words_each(&self, layout, parameters, extra);
}

unsigned check_words_each(const void *function, void *const *parameters, void *const *extra,
                          check_words_visit visit, void *user)
{
    return layout_words(check_layout_find(function), parameters, extra, visit, user);
}

/* ---- launches ------------------------------------------------------------------------------- */

/* A launch, and the addresses that it names, for the journal, which knows nothing of blocks that an
 * engine has from Tenure itself. */
typedef struct launched {
    check_work work;
    int is_followed;
    uint64_t named[JOURNAL_WORDS];
    int named_count;
} launched;

static void launch_uses(void *user, const check_word *words, size_t count)
{
    launched *self = user;
    if (journal_is_on())
        for (size_t i = 0; i < count && self->named_count < JOURNAL_WORDS; i++)
            if (words[i].block == NULL || !words[i].block->is_engine)
                self->named[self->named_count++] = words[i].address;
    if (!self->is_followed)
        return;
    for (const check_word *one = words; one < words + count; one++)
        check_use_in(&self->work, one->block, one->address, one->is_certain);
}

/* With --waste. */
static void launch_uses_now(void *user, const check_word *words, size_t count)
{
    const launched *self = user;
    uint64_t now = check_now();
    for (const check_word *one = words; self->is_followed && one < words + count; one++)
        if (one->block != NULL && one->block->waste != NULL)
            check_waste_used(one->block->waste, self->work.touch.handle, now);
    launch_uses(user, words, count);
}

static check_words_visit launch_visit = launch_uses; /* constant since the beginning */

void check_launches_time(void)
{
    launch_visit = launch_uses_now;
}

/* Without auto_record the words are only remembered: the graph is asked when it is made. */
static void captured_uses(void *user, const check_word *words, size_t count)
{
    for (size_t i = 0; i < count && check_does(CHECK_RECORDS); i++)
        check_use_captured(words[i].address, user);
}

/* Inside of check_enter, once the layout has been asked for. 0: not. */
static int launch_enter(check_layout **layout, CUfunction function)
{
    if (!check_enter())
        return 0;
    *layout = check_layout_find(function);
    if (*layout != NULL)
        return 1;
    check_leave();
    check_layout_ask(function);
    if (!check_enter())
        return 0;
    *layout = check_layout_find(function);
    return 1;
}

void check_launched(const char *call, CUfunction function, CUstream handle, void **parameters,
                    void **extra)
{
    launched self;
    check_layout *layout;
    check_stack room;
    check_stack *stack = check_stack_here(&room);
    check_name name = check_name_of(handle);
    if (check_sole_is(&name) && !journal_is_on()) {
        check_sole_count();
        return;
    }
    if (!launch_enter(&layout, function))
        return;
    if (name.is_capturing) {
        unsigned read = layout_words(layout, parameters, extra, captured_uses, handle);
        if (check_does(CHECK_RECORDS))
            check_count_launch((read & CHECK_WORDS_READ) != 0);
        check_leave();
        return;
    }
    const char *kernel = layout == NULL ? NULL : layout->name;
    self.named_count = 0;
    const check_place *place =
        check_does(CHECK_REPORTS) ? check_place_of(call, kernel, stack) : NULL;
    self.is_followed = check_work_begin(&self.work, &name, place);
    unsigned read = layout_words(layout, parameters, extra, launch_visit, &self);
    if (self.is_followed)
        check_count_launch((read & CHECK_WORDS_READ) != 0);
    if (self.is_followed && (read & CHECK_WORDS_VISIBLE) != 0 && self.work.touch.number > 0)
        check_host_may_poll(self.work.stream, 1);
    if (journal_is_on())
        journal_launched(kernel, handle, self.named, self.named_count, stack);
    check_leave();
}

/* The events that a launch records as it begins or ends: taken for its end, which orders more. */
void check_launch_attributes(const CUlaunchConfig *config)
{
    for (unsigned i = 0; i < config->numAttrs && check_does(CHECK_REPORTS); i++) {
        const CUlaunchAttribute *one = &config->attrs[i];
        if (one->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
            check_event_recorded(one->value.programmaticEvent.event, config->hStream);
        else if (one->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
            check_event_recorded(one->value.launchCompletionEvent.event, config->hStream);
    }
}
