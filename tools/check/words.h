/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the words of structures have held, launch by launch: see words.c. Between check_enter and
 * check_leave.
 */
#ifndef TENURE_PRELOAD_CHECK_WORDS_H
#define TENURE_PRELOAD_CHECK_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "entries.h"

/* The history of one parameter that is larger than an address. Null: no launch was seen yet. */
typedef struct check_words check_words;

/* A word of the parameter that leads to Tenure's memory, at one launch. */
typedef struct check_held {
    CUdeviceptr address;
    uint32_t at;    /* where in the parameter */
    int is_live;    /* a block lives there that is followed; 0: others may */
    int is_alone;   /* a block begins there to which nothing else of the launch leads, and nothing
                     * leads to the block right below: it is no end of a range. It is the first
                     * block that has the address: no word that is left over leads to it. Not asked
                     * of words that are old */
    int is_certain; /* the answer */
} check_held;

/* 1 if all of these words were in their places before, for certain. Before each judging, once: the
 * words are remembered as a whole from then on. */
int check_words_were_there(size_t bytes, const check_held *held, size_t count);

/* Judges the words of a parameter at a launch, and remembers them. `held` has all words that lead
 * to Tenure's memory, in their order. `bytes`: of the parameter. `are_old`: what the above said. 0:
 * none is new in its place, and none is certain. */
int check_words_judge(check_words **history, size_t bytes, check_held *held, size_t count,
                      int are_old);

/* 0: none of a parameter's words will ever be certain. */
int check_words_may_be(const check_words *history);

/* For a parameter whose words will never be certain: they are only remembered. */
void check_words_remember(size_t bytes, const check_held *held, size_t count);

/* For words beyond those that are judged: only remembers that this one was there. */
void check_words_note(size_t bytes, uint32_t at, CUdeviceptr address);

/* The parameter was not read at a launch, or not all: none of its words is certain again. */
void check_words_give_up(check_words **history);

/* The code is gone. */
void check_words_end(check_words *history);

/* Kernels were given something that the checker did not read, in whatever way. It no longer knows
 * what structures had been filled with, and no word is certain again. */
void check_words_blind(void);

#endif
