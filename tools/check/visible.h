/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that kernels can write and the host can read: pinned, registered and managed. A host may
 * poll it, and so learn that work is over which it never asked the driver about.
 *
 * Of memory that the driver has made under other names nothing is known. Between check_enter and
 * check_leave.
 */
#ifndef TENURE_PRELOAD_CHECK_VISIBLE_H
#define TENURE_PRELOAD_CHECK_VISIBLE_H

#include <stddef.h>
#include <stdint.h>

/* From the first range to the end of the last; `span` 0: there is none. */
extern uintptr_t check_visible_low, check_visible_span;

/* Notes a range. Without host memory all addresses between the bounds count. `is_pinned`: nothing
 * but the processor and copies touches it unless the program says so, and it may be protected. */
void check_visible_add(uintptr_t base, size_t bytes, int is_pinned);
void check_visible_remove(uintptr_t base);

int check_visible_find(uintptr_t address);

/* 1 if the address is in pinned memory. And the bounds of the range that it is in; 0: in none. */
int check_is_pinned(uintptr_t address);
int check_visible_range(uintptr_t address, uintptr_t *base, uintptr_t *end);

/* 1 if the address is in such memory. */
static inline int check_is_visible(uintptr_t address)
{
    return address - check_visible_low < check_visible_span && check_visible_find(address);
}

#endif
