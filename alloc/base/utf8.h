/* SPDX-License-Identifier: Apache-2.0 */
/* Characters of texts that come from anywhere. The tools compile this file, too. */
#ifndef TNRI_BASE_UTF8_H
#define TNRI_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The length of the character of UTF-8 at `text`, where `length` bytes are there; 0 if it is none:
 * cut off, longer than need be, half of a pair, or above the last one. */
size_t tnri_utf8_read(const char *text, size_t length, uint32_t *character);
size_t tnri_utf8_length(const char *text, size_t length);

/* 1 if a terminal shows the character. 0: it controls the terminal, is not seen, breaks lines or
 * turns the direction. */
int tnri_utf8_is_seen(uint32_t character);

#endif
