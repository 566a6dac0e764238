/* SPDX-License-Identifier: Apache-2.0 */
/* Python's frames as they lie in memory: see walk.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* process_vm_readv */
#endif

#include "walk.h"

#include <stddef.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    WORD = sizeof(uintptr_t),
    STATE_WORDS = 64, /* of a thread's state, in which the first frame is looked for */
    FRAME_WORDS = 24, /* of a frame, code and so on */
    CODE_WORDS = 64,
    INDIRECT_WORDS = 4,
    INSTRUCTIONS_MAX = 4096, /* from a code object to its instructions, at most */
};

struct python_places python_at;

/* ---- learning -------------------------------------------------------------------------------- */

/* Reads words of this process that may not be there. Returns how many were: all, or none. */
static size_t words_read(uintptr_t *words, uintptr_t address, size_t count)
{
    struct iovec here = {words, count * WORD}, there = {(void *)address, count * WORD};
    if (address == 0 || address % WORD != 0)
        return 0;
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)(count * WORD) ? count
                                                                                         : 0;
}

static uintptr_t word_at(uintptr_t address, size_t index)
{
    uintptr_t word;
    return words_read(&word, address + index * WORD, 1) == 1 ? word : 0;
}

/* The word in which each known code object has what it must have. `wanted`: its place in
 * python_known; all have one value if `value` is not 0. -1: in none. */
static int code_field(const python_known *known, size_t wanted, uintptr_t value)
{
    for (int i = 0; i < CODE_WORDS; i++) {
        int count = 0;
        for (int k = 0; k < PYTHON_KNOWN; k++) {
            uintptr_t must = value;
            if (must == 0)
                memcpy(&must, (const char *)&known[k] + wanted, sizeof(must));
            count += word_at(known[k].code, (size_t)i) == must;
        }
        if (count == PYTHON_KNOWN)
            return i;
    }
    return -1;
}

static int code_learn(const python_known *known)
{
    int type = code_field(known, 0, (uintptr_t)python_at.code_type);
    int file = code_field(known, offsetof(python_known, file), 0);
    int name = code_field(known, offsetof(python_known, name), 0);
    if (type < 0 || file < 0 || name < 0)
        return 0;
    python_at.type = (size_t)type;
    python_at.file = (size_t)file;
    python_at.name = (size_t)name;
    return 1;
}

/* 1 if the word of each of the frames leads to an instruction, with one distance to the code: from
 * Python 3.11 on. */
static int place_is_pointer(const uintptr_t *frames, const python_known *known, size_t place)
{
    uintptr_t distance = 0;
    for (int k = 0; k < PYTHON_KNOWN; k++) {
        uintptr_t begin = known[k].code + (uintptr_t)known[k].instruction;
        uintptr_t found = word_at(frames[k], place) - begin;
        if (found >= INSTRUCTIONS_MAX || (k > 0 && found != distance))
            return 0;
        distance = found;
    }
    python_at.instructions = distance;
    python_at.place = place;
    return distance > 0;
}

/* 1 if the number, a half of a word, of each of the frames is its instruction, counted by bytes or
 * by so many: before. */
static int place_is_number(const uintptr_t *frames, const python_known *known, size_t half)
{
    static const int scales[] = {1, 2};
    for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++) {
        int count = 0;
        for (int k = 0; k < PYTHON_KNOWN; k++) {
            uintptr_t word = word_at(frames[k], half / 2);
            count += (int64_t)python_half(&word, half % 2) * scales[i] == known[k].instruction;
        }
        python_at.scale = scales[i];
        python_at.place = half;
        if (count == PYTHON_KNOWN)
            return 1;
    }
    python_at.scale = 0;
    return 0;
}

static int place_learn(const uintptr_t *frames, const python_known *known)
{
    python_at.scale = 0;
    for (size_t place = 0; place < FRAME_WORDS; place++)
        if (place_is_pointer(frames, known, place))
            return 1;
    for (size_t half = 0; half < FRAME_WORDS * 2; half++)
        if (place_is_number(frames, known, half))
            return 1;
    return 0;
}

/* 1 if the others follow the first known frame by these two fields. */
static int chain_fits(uintptr_t *frames, const python_known *known, size_t code, size_t previous)
{
    for (int k = 1; k < PYTHON_KNOWN; k++) {
        frames[k] = word_at(frames[k - 1], previous);
        if ((word_at(frames[k], code) & ~PYTHON_MARKS) != known[k].code)
            return 0;
    }
    return 1;
}

/* 1 if the address is that of the first known frame, and the others follow. */
static int frame_learn(uintptr_t address, const python_known *known)
{
    uintptr_t words[FRAME_WORDS], frames[PYTHON_KNOWN] = {address};
    if (words_read(words, address, FRAME_WORDS) == 0)
        return 0;
    for (python_at.code = 0; python_at.code < FRAME_WORDS; python_at.code++) {
        if ((words[python_at.code] & ~PYTHON_MARKS) != known[0].code)
            continue;
        for (python_at.previous = 0; python_at.previous < FRAME_WORDS; python_at.previous++)
            if (chain_fits(frames, known, python_at.code, python_at.previous) &&
                place_learn(frames, known))
                return 1;
    }
    return 0;
}

int python_walk_learn(const void *state, const void *code_type,
                      const python_known known[PYTHON_KNOWN])
{
    python_at.code_type = code_type;
    if (!code_learn(known))
        return 0;
    for (python_at.state = 0; python_at.state < STATE_WORDS; python_at.state++) {
        uintptr_t address = word_at((uintptr_t)state, python_at.state);
        python_at.is_indirect = 0;
        if (frame_learn(address, known))
            return 1;
        python_at.is_indirect = 1;
        for (python_at.indirect = 0; python_at.indirect < INDIRECT_WORDS; python_at.indirect++)
            if (frame_learn(word_at(address, python_at.indirect), known))
                return 1;
    }
    return 0;
}

/* ---- walking --------------------------------------------------------------------------------- */

int python_walk_is_code(python_frame *frame)
{
    uintptr_t code = (uintptr_t)frame->code;
    if (python_field(code, python_at.type) != (uintptr_t)python_at.code_type)
        return 0;
    frame->file = (void *)python_field(code, python_at.file);
    frame->name = (void *)python_field(code, python_at.name);
    return 1;
}
