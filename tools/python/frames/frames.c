/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of Python: see tenure_python.h.
 *
 * This library depends on no version of Python. When the module says that there is an interpreter,
 * it finds the interpreter's functions by name. From them it learns how frames can be read without
 * the interpreter (walk.h). From then on every thread that has frames reads them, whether it holds
 * the interpreter's lock or not. Nothing is called that counts references, allocates, waits, or may
 * run code of the program's. Free-threaded builds work the same way, because a thread reads only
 * its own frames. Threads of C++ (PyTorch's backward) have no frames. If learning fails (3.8, a
 * future Python, another kind of Python), stacks have no Python frames.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_DEFAULT */
#endif

#include "tenure_python.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "codes.h"
#include "walk.h"

#define PYTHON_FUNCTIONS(X)                                                                        \
    X(Py_IsInitialized, int, (void))                                                               \
    X(PyGILState_Check, int, (void))                                                               \
    X(PyGILState_GetThisThreadState, void *, (void))                                               \
    X(PyThreadState_GetFrame, void *, (void *))                                                    \
    X(PyFrame_GetBack, void *, (void *))                                                           \
    X(PyFrame_GetCode, void *, (void *))                                                           \
    X(PyFrame_GetLineNumber, int, (void *))                                                        \
    X(PyCode_Addr2Line, int, (void *, int))                                                        \
    X(PyObject_GetAttrString, void *, (void *, const char *))                                      \
    X(PyUnicode_GetLength, ptrdiff_t, (void *))                                                    \
    X(PyUnicode_ReadChar, uint32_t, (void *, ptrdiff_t))                                           \
    X(PyLong_AsLong, long, (void *))                                                               \
    X(Py_DecRef, void, (void *))

/* Written before `is_there`, once. */
static struct {
#define PYTHON_FIELD(name, type, arguments) type(*name) arguments;
    PYTHON_FUNCTIONS(PYTHON_FIELD)
#undef PYTHON_FIELD
    void *(*state_now)(void);
    void *code_type;
    char *own_folder; /* with a slash */
} python;

static _Atomic int is_there;

/* Where code is: what a frame leads to. Kept as long as the process. */
typedef struct python_line {
    struct python_line *next;
    uint64_t mixed; /* of the rest */
    int line;
    const char *function; /* behind the file, in the same memory */
    char file[];
} python_line;

enum { PARTS = 1024, LINES_MAX = 65536, WALKED_MAX = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static python_line *parts[PARTS]; /* under the lock */
static int lines_count;

static const uintptr_t TAG = (uintptr_t)1 << (sizeof(uintptr_t) * 8 - 1);

static void lock_renew(void)
{
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    lock = fresh; /* whoever had it is not in this process */
}

/* ---- the interpreter ------------------------------------------------------------------------- */

static int function_find(void *function, const char *name)
{
    void *symbol = dlsym(RTLD_DEFAULT, name);
    memcpy(function, &symbol, sizeof(symbol));
    return symbol != NULL;
}

/* The state of the calling thread, if it runs Python now. */
static void *state_running(void)
{
    if (!python.PyGILState_Check())
        return NULL;
    /* With several interpreters the check says 1 always. */
    void *state = python.PyGILState_GetThisThreadState();
    return state != NULL && state == python.state_now() ? state : NULL;
}

/* ---- learning to walk ------------------------------------------------------------------------ */

/* An attribute that lives on without us: the object has it, or it is a small number. */
static void *attribute(void *object, const char *name)
{
    void *found = python.PyObject_GetAttrString(object, name);
    python.Py_DecRef(found);
    return found;
}

/* Looks at the innermost frames with the interpreter's functions. 1 if they are what is needed. The
 * objects stay alive: they are of frames that go on. */
static int frames_know(void *state, python_known *known, int *lines)
{
    void *frame = python.PyThreadState_GetFrame(state);
    int count = 0;
    for (; frame != NULL && count < PYTHON_KNOWN; count++) {
        void *code = python.PyFrame_GetCode(frame), *back = python.PyFrame_GetBack(frame);
        void *place = python.PyObject_GetAttrString(frame, "f_lasti");
        lines[count] = python.PyFrame_GetLineNumber(frame);
        known[count] = (python_known){(uintptr_t)code, (uintptr_t)attribute(code, "co_filename"),
                                      (uintptr_t)attribute(code, "co_name"),
                                      place == NULL ? -1 : (int)python.PyLong_AsLong(place)};
        python.Py_DecRef(place);
        python.Py_DecRef(code);
        python.Py_DecRef(frame);
        frame = back;
    }
    python.Py_DecRef(frame);
    return count == PYTHON_KNOWN && known[0].code != known[1].code &&
           known[1].code != known[2].code && known[0].code != known[2].code;
}

/* 1 if walking gives what the interpreter says. */
static int walk_learn(void)
{
    python_known known[PYTHON_KNOWN];
    int lines[PYTHON_KNOWN];
    python_frame frame;
    void *state = state_running();
    if (state == NULL || !frames_know(state, known, lines) ||
        !python_walk_learn(state, python.code_type, known))
        return 0;
    int has_frame = python_walk_first(&frame, state);
    for (int i = 0; i < PYTHON_KNOWN; i++) {
        while (has_frame && !python_walk_is_code(&frame))
            has_frame = python_walk_next(&frame);
        if (!has_frame || (uintptr_t)frame.code != known[i].code ||
            (uintptr_t)frame.file != known[i].file || (uintptr_t)frame.name != known[i].name ||
            python.PyCode_Addr2Line(frame.code, frame.instruction) != lines[i])
            return 0;
        has_frame = python_walk_next(&frame);
    }
    return 1;
}

__attribute__((visibility("default"))) int tenure_python_begin(const char *folder)
{
    int has_all = 1;
    size_t bytes = strlen(folder);
    if (atomic_load(&is_there))
        return 1;
#define PYTHON_FIND(name, type, arguments) has_all &= function_find(&python.name, #name);
    PYTHON_FUNCTIONS(PYTHON_FIND)
#undef PYTHON_FIND
    has_all &= function_find(&python.state_now, "PyThreadState_GetUnchecked") ||
               function_find(&python.state_now, "_PyThreadState_UncheckedGet");
    has_all &= function_find(&python.code_type, "PyCode_Type");
    python.own_folder = malloc(bytes + 2);
    if (!has_all || python.own_folder == NULL)
        return 0;
    memcpy(python.own_folder, folder, bytes);
    memcpy(python.own_folder + bytes, "/", 2);
    if (!walk_learn())
        return 0;
    (void)pthread_atfork(NULL, NULL, lock_renew);
    python_codes_watch(python.code_type);
    atomic_store_explicit(&is_there, 1, memory_order_release);
    return 1;
}

/* ---- records --------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t mixed, const char *text)
{
    for (; *text != '\0'; text++)
        mixed = (mixed ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return mixed;
}

static python_line *line_make(const char *file, const char *function, int line, uint64_t mixed)
{
    size_t bytes = strlen(file) + 1, more = strlen(function) + 1;
    python_line *fresh = lines_count < LINES_MAX ? malloc(sizeof(*fresh) + bytes + more) : NULL;
    if (fresh == NULL)
        return NULL;
    memcpy(fresh->file, file, bytes);
    memcpy(fresh->file + bytes, function, more);
    fresh->function = fresh->file + bytes;
    fresh->line = line;
    fresh->mixed = mixed;
    fresh->next = parts[mixed % PARTS];
    parts[mixed % PARTS] = fresh;
    lines_count++;
    return fresh;
}

/* The record; null without memory, or when there are too many. */
static const python_line *line_of(const char *file, const char *function, int line)
{
    uint64_t mixed = mix(mix(UINT64_C(0xcbf29ce484222325) + (uint64_t)line, file), function);
    (void)pthread_mutex_lock(&lock);
    const python_line *found = parts[mixed % PARTS];
    while (found != NULL &&
           (found->mixed != mixed || found->line != line || strcmp(found->file, file) != 0 ||
            strcmp(found->function, function) != 0))
        found = found->next;
    if (found == NULL)
        found = line_make(file, function, line, mixed);
    (void)pthread_mutex_unlock(&lock);
    return found;
}

__attribute__((visibility("default"))) void tenure_python_describe(tnr_frame_info *info,
                                                                   uintptr_t frame)
{
    const python_line *line = (const python_line *)(frame & ~TAG);
    *info = (tnr_frame_info){line->function, line->file, line->line};
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* A text of Python's in UTF-8, without asking for memory. */
static void text_read(char *to, size_t room, void *from)
{
    ptrdiff_t count = python.PyUnicode_GetLength(from);
    size_t length = 0;
    for (ptrdiff_t i = 0; i < count && length + 4 < room; i++) {
        uint32_t one = python.PyUnicode_ReadChar(from, i);
        int more = one < 0x80 ? 0 : one < 0x800 ? 1 : one < 0x10000 ? 2 : 3;
        static const unsigned char marks[] = {0, 0xc0, 0xe0, 0xf0};
        to[length++] = (char)(marks[more] | one >> 6 * more);
        for (; more > 0; more--)
            to[length++] = (char)(0x80 | (one >> 6 * (more - 1) & 0x3f));
    }
    to[length] = '\0';
}

/* The record of a frame; null for one of Tenure's own, and for one of no line (3.12 has some where
 * C code calls Python). */
static const python_line *frame_read(const python_frame *frame)
{
    char file[1024], name[256];
    int line = python.PyCode_Addr2Line(frame->code, frame->instruction);
    if (line < 0)
        return NULL;
    text_read(file, sizeof(file), frame->file);
    text_read(name, sizeof(name), frame->name);
    if (strncmp(file, python.own_folder, strlen(python.own_folder)) == 0)
        return NULL;
    return line_of(file, name, line);
}

/* What a frame was found to be, TAG and all; 0: of Tenure's own, or of no line; 1: no code. */
enum { NO_CODE = 1 };

static uintptr_t frame_find(python_frame *frame)
{
    const void *found;
    if (!python_walk_is_code(frame))
        return NO_CODE;
    python_codes_enter();
    if (!python_codes_get(&found, frame->code, frame->instruction)) {
        found = frame_read(frame);
        python_codes_keep(frame->code, frame->instruction, found);
    }
    python_codes_leave();
    return found == NULL ? 0 : (uintptr_t)found | TAG;
}

/* What a thread has found lately, by where its frames lie: the outer ones of a call are mostly as
 * of the one before. It holds until a code object ends of which anything is known. */
typedef struct lately {
    uintptr_t self, found;
    const void *code;
    int instruction;
    unsigned number; /* python_codes_number; 0: nothing */
} lately;

enum { LATELY = 64 };

/* Once for a stack: a library that may be loaded at any time asks the loader where it is. */
static __attribute__((noinline)) lately *known_here(void)
{
    static _Thread_local lately known[LATELY];
    return known;
}

/* A function of its own, so that the others need not save registers for it. */
static __attribute__((noinline)) uintptr_t frame_look(lately *to, python_frame frame,
                                                      unsigned number)
{
    uintptr_t found = frame_find(&frame);
    if (found != NO_CODE)
        *to = (lately){frame.self, found, frame.code, frame.instruction, number};
    return found;
}

static inline uintptr_t frame_known(lately *known, const python_frame *frame, unsigned number)
{
    lately *one = &known[(frame->self >> 4 ^ frame->self >> 10) % LATELY];
    if (one->number == number && one->self == frame->self && one->code == frame->code &&
        one->instruction == frame->instruction && number != 0)
        return one->found;
    return frame_look(one, *frame, number);
}

__attribute__((visibility("default"))) size_t tenure_python_take(uintptr_t *frames, size_t room)
{
    python_frame frame = {.self = 0};
    if (!atomic_load_explicit(&is_there, memory_order_acquire) || !python.Py_IsInitialized())
        return 0;
    const void *state = python.PyGILState_GetThisThreadState();
    unsigned number = python_codes_number();
    size_t count = 0;
    lately *known = known_here();
    int has_frame = state != NULL && python_walk_first(&frame, state);
    for (int walked = 0; has_frame && count < room && walked < WALKED_MAX;
         has_frame = python_walk_next(&frame)) {
        uintptr_t found = frame_known(known, &frame, number);
        walked += found != NO_CODE;
        if ((found & TAG) != 0)
            frames[count++] = found;
    }
    return count;
}
