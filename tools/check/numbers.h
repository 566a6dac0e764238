/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the numbers among a launch's parameters say of its pointers: whether the kernel may leave
 * them unread.
 *
 * - A number that is zero, and was something else before, may be a length or a choice. One that
 *   always is zero says nothing; while that is not known it counts for freed memory alone, since
 *   programs pass stale pointers with no items, and hardly live ones.
 * - A number below CHECK_CHOICES that no launch which was given live memory alone had may be the
 *   choice of another way, in which the kernel needs no such pointer. It counts for freed memory.
 * - A number that, where it was another than the one before it, always was more may be the end of a
 *   range. If both are equal there are no items. So it is with two pointers into one block.
 *
 * Between check_enter and check_leave.
 */
#ifndef TENURE_PRELOAD_CHECK_NUMBERS_H
#define TENURE_PRELOAD_CHECK_NUMBERS_H

#include <string.h>

#include "check/layout.h"

enum { CHECK_CHOICES = 64, CHECK_CHOICES_MAX = 64 };

/* Of one launch. */
typedef struct check_doubts {
    int has_zero;      /* of all pointers: no items, or another way */
    int may_be_zero;   /* of those to freed memory */
    int is_choice_new; /* the same */
    size_t choices_count;
    struct {
        check_values *of;
        uint64_t number;
    } choices[CHECK_CHOICES_MAX]; /* those that are new */
} check_doubts;

static inline void check_doubts_begin(check_doubts *self)
{
    self->has_zero = self->may_be_zero = self->is_choice_new = 0;
    self->choices_count = 0;
}

/* What is a number by its size, or by what it holds. 1: from now on its zeros tell the same at each
 * launch. */
static inline int check_zero_note(check_doubts *self, check_zeros *before, int is_zero)
{
    if (!is_zero) {
        int was_new = !before->was_other;
        before->was_other = 1;
        return was_new;
    }
    self->has_zero |= before->was_other;
    if (before->times == CHECK_ZEROS_MIN)
        return 0;
    self->may_be_zero = 1;
    return ++before->times == CHECK_ZEROS_MIN;
}

static inline void check_choice_note(check_doubts *self, check_values *values, uint64_t number)
{
    if (number >= CHECK_CHOICES || (values->choices >> number & 1) != 0)
        return;
    self->is_choice_new = 1;
    if (self->choices_count == CHECK_CHOICES_MAX)
        return;
    self->choices[self->choices_count].of = values;
    self->choices[self->choices_count++].number = number;
}

/* How a parameter compares with the one before it; `may_end`: it is more, and may be where a range
 * ends. */
static inline void check_bound_note(check_doubts *self, check_values *values, int is_equal,
                                    int may_end)
{
    if (is_equal)
        self->has_zero |= values->was_above && !values->was_otherwise;
    else if (may_end)
        values->was_above = 1;
    else
        values->was_otherwise = 1;
}

/* For check_numbers_read: those that are not among the first of the list; and all of them, where
 * the first are not as at the launch before. */
void check_numbers_rest(check_doubts *self, check_numbers *all, void *const *parameters);
void check_numbers_changed(check_doubts *self, check_numbers *all, void *const *parameters,
                           uint64_t sum);

/* The numbers of a list, where `parameters` say. Of those that come first: if the ones that always
 * were zero are, and the others are as at the launch before, so are their doubts. */
static inline void check_numbers_read(check_doubts *self, check_numbers *all,
                                      void *const *parameters)
{
    const uint64_t spread = UINT64_C(0x9e3779b97f4a7c15);
    uint32_t number, some = 0;
    uint64_t sum = 0;
    const uint16_t *index = all->index, *others = index + all->zeros;
    for (; index < others; index++) {
        memcpy(&number, parameters[*index], sizeof(number));
        some |= number;
    }
    for (const uint16_t *end = others + all->others; index < end; index++) {
        memcpy(&number, parameters[*index], sizeof(number));
        sum = sum * spread + number;
    }
    if (some != 0 || !all->sum_is_known || all->sum != sum) {
        check_numbers_changed(self, all, parameters, sum);
        return;
    }
    self->has_zero |= all->sum_has_zero;
    if (all->zeros + all->others < all->count)
        check_numbers_rest(self, all, parameters);
}

/* The same in one buffer of so many bytes. */
void check_numbers_packed(check_doubts *self, check_numbers *all, const char *buffer, size_t bytes);

/* The launch was given live memory alone: its choices are known from now on. */
void check_choices_remember(const check_doubts *self);

#endif
