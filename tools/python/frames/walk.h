/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking Python's frames without the interpreter's help.
 *
 * PyTorch releases the interpreter's lock before it allocates. So code that asks for frames then
 * may call nothing that counts references. To take the lock there would wait for a thread that may
 * wait for this one. But a thread's own frames are its own: no other thread changes their chain,
 * and each keeps its code object alive. So frames are read as they lie in memory. No header of
 * Python's promises where the fields are, so no offset is taken from a header. Instead the fields
 * are searched for, once, with the interpreter's lock held, in frames whose contents the
 * interpreter's functions tell. The result must then give the same frames as those functions. If it
 * does not, nothing is walked.
 *
 * For CPython from 3.9 on. Before 3.11 a frame is an object, and its place in its code is a number.
 */
#ifndef TENURE_PYTHON_WALK_H
#define TENURE_PYTHON_WALK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { PYTHON_KNOWN = 3 };

/* What is known of a frame: its code object, the code object's file and name, and the offset of the
 * instruction. All of these objects live while the frame is examined. */
typedef struct python_known {
    uintptr_t code, file, name;
    int instruction;
} python_known;

/* Finds out where the fields lie, from the innermost frames of the thread with this state. Each
 * frame must have been called by Python code of the next one, with different code. `code_type` is
 * PyCode_Type. 1: found. */
int python_walk_learn(const void *state, const void *code_type,
                      const python_known known[PYTHON_KNOWN]);

/* A frame of the calling thread. */
typedef struct python_frame {
    uintptr_t self, next;
    void *code;
    int instruction;
    void *file, *name; /* once python_walk_is_code has said 1 */
} python_frame;

/* The first frame of the calling thread's state, and the frame that called a frame; 0: none. Where
 * C code has called Python, some frames have no code object: python_walk_is_code tells. */
static inline int python_walk_first(python_frame *frame, const void *state);
static inline int python_walk_next(python_frame *frame);
int python_walk_is_code(python_frame *frame);

/* ---- a step --------------------------------------------------------------------------------- */

/* A stack has some eight frames, and each launch and allocation under the checker takes a stack. So
 * this step is inline here, not a function of another file. Offsets are in words, and constant once
 * learned. */
extern struct python_places {
    const void *code_type;
    size_t state, indirect;       /* in the state; and in what that leads to */
    size_t code, previous, place; /* in a frame; the last in halves of words, if it is a number */
    size_t type, file, name;      /* in a code object */
    uintptr_t instructions;       /* in bytes */
    int is_indirect;
    int scale; /* bytes that the number counts; 0: it is a pointer */
} python_at;

/* A pointer in a frame may have marks in its lowest bits. */
#define PYTHON_MARKS ((uintptr_t)7)

static inline uintptr_t python_field(uintptr_t object, size_t index)
{
    return ((const uintptr_t *)object)[index];
}

static inline int python_half(const uintptr_t *word, size_t half)
{
    int value;
    memcpy(&value, (const char *)word + half * sizeof(value), sizeof(value));
    return value;
}

static inline int python_walk_next(python_frame *frame)
{
    const struct python_places *at = &python_at;
    uintptr_t code = 0;
    while (code == 0) {
        frame->self = frame->next;
        if (frame->self == 0)
            return 0;
        code = python_field(frame->self, at->code) & ~PYTHON_MARKS;
        frame->next = python_field(frame->self, at->previous);
    }
    frame->code = (void *)code;
    if (at->scale == 0)
        frame->instruction = (int)(python_field(frame->self, at->place) - code - at->instructions);
    else
        frame->instruction = at->scale * python_half((const uintptr_t *)frame->self, at->place);
    return 1;
}

static inline int python_walk_first(python_frame *frame, const void *state)
{
    const struct python_places *at = &python_at;
    frame->next = python_field((uintptr_t)state, at->state);
    if (at->is_indirect && frame->next != 0)
        frame->next = python_field(frame->next, at->indirect);
    return python_walk_next(frame);
}

#endif
