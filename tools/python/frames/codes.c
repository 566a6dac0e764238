/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of code objects: see codes.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_DEFAULT */
#endif

#include "codes.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 4096, NOTES_MAX = 65536, DESTROYED = 1, EVAL_INPUT = 258 };

/* An instruction of a code object; all of one object hang in one part. */
typedef struct note {
    struct note *next;
    const void *code, *found;
    int instruction;
} note;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static note *parts[PARTS]; /* under the lock, like the rest */
static int notes_count, is_watched;
static const void *ended; /* the last code object that ended; while it is tried */

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
    }
    python_codes_leave();
    return 0;
}

static void *symbol_find(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

/* What a number means that the interpreter gives is no promise, so one object is made and ended. */
void python_codes_watch(void)
{
    int (*watch)(int (*)(int, void *));
    void *(*compile)(const char *, const char *, int);
    void (*drop)(void *);
    void *symbols[] = {symbol_find("PyCode_AddWatcher"), symbol_find("Py_CompileString"),
                       symbol_find("Py_DecRef")};
    if (symbols[0] == NULL || symbols[1] == NULL || symbols[2] == NULL)
        return;
    memcpy(&watch, &symbols[0], sizeof(watch));
    memcpy(&compile, &symbols[1], sizeof(compile));
    memcpy(&drop, &symbols[2], sizeof(drop));
    const void *code = watch(code_event) < 0 ? NULL : compile("0", "tenure", EVAL_INPUT);
    if (code == NULL)
        return;
    drop((void *)(uintptr_t)code);
    python_codes_enter();
    is_watched = ended == code;
    python_codes_leave();
    (void)pthread_atfork(NULL, NULL, lock_renew);
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
