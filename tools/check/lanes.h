/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zeros in structures: see lanes.c. Between check_enter and check_leave.
 */
#ifndef TENURE_PRELOAD_CHECK_LANES_H
#define TENURE_PRELOAD_CHECK_LANES_H

#include <stddef.h>

/* What the lanes of a parameter have been. Null: none were noted yet. */
typedef struct check_lanes check_lanes;

/* Notes the lanes of a parameter as a launch has them. 1: some lane is zero, or equals one of the
 * next two, and did not before; or there is no memory to know it. */
int check_lanes_note(check_lanes **self, const void *from, size_t bytes);

#endif
