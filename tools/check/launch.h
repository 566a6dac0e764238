/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters of kernels: see launch.c.
 */
#ifndef TENURE_PRELOAD_CHECK_LAUNCH_H
#define TENURE_PRELOAD_CHECK_LAUNCH_H

#include "check/blocks.h"

/* A word of a launch that is an address of Tenure's, and where it leads, as check_block_at says. */
typedef struct check_word {
    CUdeviceptr address;
    check_block *block;
    int is_certain;
} check_word;

/* The first asks for the layout, once: outside of check_enter. The second reads the parameters of a
 * launch, inside of check_enter: it calls `visit` with the words that are addresses of Tenure's,
 * some at a time. Returns a sum: all parameters were read; one leads to memory that the host can
 * read. */
enum { CHECK_WORDS_READ = 1, CHECK_WORDS_VISIBLE = 2 };
void check_layout_ask(const void *function);
typedef void (*check_words_visit)(void *user, const check_word *words, size_t count);
unsigned check_words_each(const void *function, void *const *parameters, void *const *extra,
                          check_words_visit visit, void *user);

/* With --waste: launches say when they use a block. Once, before the first. */
void check_launches_time(void);

/* The kernel's name; null: the driver does not tell. Inside of check_enter. */
const char *check_kernel_name(const void *function);

#endif
