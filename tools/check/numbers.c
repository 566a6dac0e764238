/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers among a launch's parameters: see numbers.h. */
#include "check/numbers.h"

#include <string.h>

static int is_zero(const char *from, size_t bytes)
{
    uint32_t four;
    if (bytes == sizeof(four)) {
        memcpy(&four, from, sizeof(four));
        return four == 0;
    }
    for (size_t i = 0; i < bytes; i++)
        if (from[i] != 0)
            return 0;
    return 1;
}

static void number_swap(check_numbers *all, size_t one, size_t other)
{
    struct check_number kept = all->list[one];
    uint16_t index = all->index[one];
    all->list[one] = all->list[other];
    all->list[other] = kept;
    all->index[one] = all->index[other];
    all->index[other] = index;
}

static __attribute__((noinline, cold)) void numbers_sort(check_numbers *all)
{
    size_t zeros = 0, others = 0;
    for (size_t i = 0; i < all->count; i++) {
        const struct check_number *one = &all->list[i];
        int is_other = one->zeros.was_other;
        if (one->bytes != sizeof(uint32_t) || (!is_other && one->zeros.times < CHECK_ZEROS_MIN))
            continue;
        number_swap(all, zeros + others, i);
        if (is_other) {
            others++;
        } else {
            number_swap(all, zeros, zeros + others);
            zeros++;
        }
    }
    all->zeros = zeros;
    all->others = others;
    all->sum_is_known = 0;
}

/* 1: from now on its zeros tell the same at each launch. `before`: where the parameter before it
 * lies, if has_before. */
static inline int number_read(check_doubts *self, struct check_number *one, const char *at,
                              const char *before)
{
    uint32_t number = 0, other;
    int has_changed = check_zero_note(self, &one->zeros, is_zero(at, one->bytes));
    if (one->bytes > sizeof(number))
        return has_changed;
    memcpy(&number, at, one->bytes);
    check_choice_note(self, &one->values, number);
    if (one->has_before) {
        memcpy(&other, before, sizeof(other));
        check_bound_note(self, &one->values, number == other, number > other);
    }
    return has_changed;
}

/* The numbers from one of the list on to before another. */
static inline int numbers_read(check_doubts *self, check_numbers *all, size_t from, size_t end,
                               void *const *parameters)
{
    int has_changed = 0;
    for (size_t i = from; i < end; i++) {
        struct check_number *one = &all->list[i];
        void *const *at = &parameters[all->index[i]];
        has_changed |= number_read(self, one, at[0], one->has_before ? at[-1] : NULL);
    }
    return has_changed;
}

void check_numbers_rest(check_doubts *self, check_numbers *all, void *const *parameters)
{
    if (numbers_read(self, all, all->zeros + all->others, all->count, parameters))
        numbers_sort(all);
}

void check_numbers_changed(check_doubts *self, check_numbers *all, void *const *parameters,
                           uint64_t sum)
{
    size_t first = all->zeros + all->others;
    int had_zero = self->has_zero;
    self->has_zero = 0;
    int has_changed = numbers_read(self, all, 0, first, parameters);
    all->sum = sum;
    all->sum_has_zero = self->has_zero != 0;
    all->sum_is_known = !self->is_choice_new;
    self->has_zero |= had_zero;
    has_changed |= numbers_read(self, all, first, all->count, parameters);
    if (has_changed)
        numbers_sort(all);
}

void check_numbers_packed(check_doubts *self, check_numbers *all, const char *buffer, size_t bytes)
{
    int has_changed = 0;
    for (size_t i = 0; i < all->count; i++) {
        struct check_number *one = &all->list[i];
        const char *at = buffer + one->offset;
        if (one->offset + one->bytes <= bytes)
            has_changed |=
                number_read(self, one, at, one->has_before ? at - sizeof(uint32_t) : NULL);
    }
    if (has_changed)
        numbers_sort(all);
    all->sum_is_known = 0;
}

void check_choices_remember(const check_doubts *self)
{
    for (size_t i = 0; i < self->choices_count; i++)
        self->choices[i].of->choices |= (uint64_t)1 << self->choices[i].number;
}
