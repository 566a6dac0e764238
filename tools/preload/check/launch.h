/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters of kernels: see launch.c.
 */
#ifndef TENURE_PRELOAD_CHECK_LAUNCH_H
#define TENURE_PRELOAD_CHECK_LAUNCH_H

#include "check/blocks.h"

/* What the driver tells of a function: its name and where its parameters lie. */
typedef struct check_layout check_layout;

/* The layout, asked for once: outside of check_enter. Then the parameters of a launch: calls for
 * each word of Tenure's addresses, inside of check_enter. `block`: as check_block_at says. 0: not
 * read, or not all. */
void check_layout_ask(const void *function);
typedef void (*check_word)(void *user, CUdeviceptr address, check_block *block, int is_certain);
int check_words_each(const void *function, void *const *parameters, void *const *extra,
                     check_word visit, void *user);

/* The kernel's name; null: the driver does not tell. Inside of check_enter. */
const char *check_kernel_name(const void *function);

#endif
