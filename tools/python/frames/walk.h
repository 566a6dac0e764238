/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking Python's frames without the interpreter's help.
 *
 * PyTorch lets the interpreter's lock go before it allocates, so whoever asks then may call nothing
 * that counts references; and to take the lock there would wait for a thread that may wait for
 * this one. But a thread's own frames are its own: no other thread changes their chain, and each
 * keeps its code object alive. So they are read as they lie in memory. Where the fields are no
 * header of Python's promises, so nothing is taken from one: they are looked for, once, with the
 * interpreter's lock held, in frames whose contents its functions tell; and what was found must
 * then give the same frames as those functions. If it does not, nothing is walked.
 *
 * For CPython from 3.9 on. Before 3.11 a frame is an object, and where it is in its code a number.
 */
#ifndef TENURE_PYTHON_WALK_H
#define TENURE_PYTHON_WALK_H

#include <stdint.h>

enum { PYTHON_KNOWN = 3 };

/* What is known of a frame: its code object, and that one's file and name, all of which live while
 * it is looked at; and the offset of the instruction. */
typedef struct python_known {
    uintptr_t code, file, name;
    int instruction;
} python_known;

/* Finds out where the fields lie: from the innermost frames of the thread with this state, each
 * called by Python code of the next, with different code. `code_type` is PyCode_Type. 1: found. */
int python_walk_learn(const void *state, const void *code_type,
                      const python_known known[PYTHON_KNOWN]);

/* A frame of the calling thread. */
typedef struct python_frame {
    uintptr_t self, next;
    void *code;
    int instruction;
    void *file, *name; /* once python_walk_is_code has said 1 */
} python_frame;

/* The first frame of the calling thread's state, and the one that called a frame; 0: none. Where C
 * code has called Python there are some whose code is none: python_walk_is_code tells. */
int python_walk_first(python_frame *frame, const void *state);
int python_walk_next(python_frame *frame);
int python_walk_is_code(python_frame *frame);

#endif
