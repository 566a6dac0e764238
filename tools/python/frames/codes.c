/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of code objects: see codes.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_DEFAULT */
#endif

#include "codes.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    PARTS = 4096,
    NOTES_MAX = 65536,
    /* As Python has them: for PyCode_AddWatcher, for Py_CompileString, and for PyType_GetSlot. */
    DESTROYED = 1,
    EVAL_INPUT = 258,
    SLOT_DEALLOC = 52,
    TYPE_WORDS = 40 /* of a type, in which the slot is looked for */
};

/* An instruction of a code object; all of one object hang in one part. */
typedef struct note {
    struct note *next;
    const void *code, *found;
    int instruction;
} note;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static note *parts[PARTS]; /* under the lock, like the rest */
static int notes_count, is_watched;
static const void *ended;       /* the last code object that ended; while it is tried */
static _Atomic unsigned number; /* changed under the lock; 0: not watched */
static void (*dealloc)(void *); /* what ends code objects, where ours stands before it */

static note **part_of(const void *code)
{
    return &parts[(uint64_t)(uintptr_t)code * UINT64_C(0x9e3779b97f4a7c15) >> 52];
}

void python_codes_enter(void)
{
    (void)pthread_mutex_lock(&lock);
}

void python_codes_leave(void)
{
    (void)pthread_mutex_unlock(&lock);
}

static void lock_renew(void)
{
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    lock = fresh; /* whoever had it is not in this process */
}

/* Called by the interpreter. What lies at the address next is another code object. */
static int code_event(int event, void *code)
{
    int is_known = 0;
    if (event != DESTROYED)
        return 0;
    python_codes_enter();
    ended = code;
    for (note **link = part_of(code); *link != NULL;) {
        note *one = *link;
        if (one->code != code) {
            link = &one->next;
            continue;
        }
        *link = one->next;
        free(one);
        notes_count--;
        is_known = 1;
    }
    if (is_known)
        atomic_store(&number, number + 1 == 0 ? 1 : number + 1);
    python_codes_leave();
    return 0;
}

static void code_dealloc(void *code)
{
    (void)code_event(DESTROYED, code);
    dealloc(code);
}

static void *symbol_find(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

/* Where a type says what ends its objects; null: nobody knows. The interpreter says what is there
 * (3.9 that it does not tell), and it must be there once. */
static void *volatile *dealloc_slot(void *type)
{
    void *(*get_slot)(void *, int);
    void (*forget_error)(void);
    void *symbols[] = {symbol_find("PyType_GetSlot"), symbol_find("PyErr_Clear")};
    void *volatile *found = NULL, *volatile *words = type;
    memcpy(&get_slot, &symbols[0], sizeof(get_slot));
    memcpy(&forget_error, &symbols[1], sizeof(forget_error));
    if (symbols[0] == NULL || symbols[1] == NULL)
        return NULL;
    void *value = get_slot(type, SLOT_DEALLOC);
    if (value == NULL)
        forget_error();
    for (int i = 0; i < TYPE_WORDS && value != NULL; i++) {
        if (words[i] != value)
            continue;
        if (found != NULL)
            return NULL;
        found = &words[i];
    }
    memcpy(&dealloc, &value, sizeof(dealloc));
    return found;
}

/* Makes a code object, and ends it. 1 if that was told: what the numbers mean is no promise. */
static int is_told(void)
{
    void *(*compile)(const char *, const char *, int);
    void (*drop)(void *);
    void *symbols[] = {symbol_find("Py_CompileString"), symbol_find("Py_DecRef")};
    if (symbols[0] == NULL || symbols[1] == NULL)
        return 0;
    memcpy(&compile, &symbols[0], sizeof(compile));
    memcpy(&drop, &symbols[1], sizeof(drop));
    const void *code = compile("0", "tenure", EVAL_INPUT);
    if (code == NULL)
        return 0;
    drop((void *)(uintptr_t)code);
    python_codes_enter();
    int is_so = ended == code;
    python_codes_leave();
    return is_so;
}

/* 1 if a function of ours stands before the one that ends code objects, and is called. */
static int dealloc_watch(void *code_type)
{
    void *volatile *slot = dealloc_slot(code_type);
    void (*function)(void *) = code_dealloc;
    void *ours, *before = slot == NULL ? NULL : *slot;
    if (slot == NULL)
        return 0;
    memcpy(&ours, &function, sizeof(ours));
    *slot = ours;
    if (is_told())
        return 1;
    *slot = before;
    return 0;
}

void python_codes_watch(void *code_type)
{
    int (*watch)(int (*)(int, void *));
    void *symbol = symbol_find("PyCode_AddWatcher");
    memcpy(&watch, &symbol, sizeof(watch));
    int is_so = symbol != NULL ? watch(code_event) >= 0 && is_told() : dealloc_watch(code_type);
    if (!is_so)
        return;
    python_codes_enter();
    is_watched = 1;
    atomic_store(&number, 1);
    python_codes_leave();
    (void)pthread_atfork(NULL, NULL, lock_renew);
}

unsigned python_codes_number(void)
{
    return atomic_load_explicit(&number, memory_order_acquire);
}

int python_codes_get(const void **found, const void *code, int instruction)
{
    for (const note *one = *part_of(code); one != NULL; one = one->next)
        if (one->code == code && one->instruction == instruction) {
            *found = one->found;
            return 1;
        }
    return 0;
}

void python_codes_keep(const void *code, int instruction, const void *found)
{
    note *fresh = is_watched && notes_count < NOTES_MAX ? malloc(sizeof(*fresh)) : NULL;
    if (fresh == NULL)
        return;
    note **link = part_of(code);
    *fresh = (note){*link, code, found, instruction};
    *link = fresh;
    notes_count++;
}
