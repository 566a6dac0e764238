/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of the history, each kept once and known by a number: what tnr_mark said, and the names of
 * pools. They are kept until shutdown, because records refer to them.
 */
#ifndef TNRI_HISTORY_TEXTS_H
#define TNRI_HISTORY_TEXTS_H

#include <stdint.h>

enum { TNRI_TEXT_BYTES_MAX = 1024 };

/* The number of a text, cut off at TNRI_TEXT_BYTES_MAX. 0 for the empty text or null, and also if
 * there is no host memory; then *no_host is set (`no_host` may be null). Any thread; takes a
 * lock. */
uint32_t tnri_text_number(const char *text, int *no_host);
/* The text of a number; "" if there is none. It stays where it is. Any thread. */
const char *tnri_text_of(uint32_t number);
/* The highest number of a text: numbers are 0 to this. */
uint32_t tnri_texts_count(void);
/* Forgets all, while no other thread is inside Tenure. */
void tnri_texts_free(void);

#endif
