/* SPDX-License-Identifier: Apache-2.0 */
/* Where something was done: see places.h. */
#include "check/places.h"

#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#include "check/check.h"
#include "check/python.h"

enum { PARTS = 4096, PLACES_MAX = 65536, TEXTS_MAX = 1 << 24, DEEP = 24 };

static check_place *parts[PARTS];
static uint64_t places_count;

/* The library's own bounds, from the linker. */
extern const char own_begin[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));
extern const char own_end[] __asm__("_end") __attribute__((visibility("hidden")));

/* Where the code of another object lies. */
typedef struct bounds {
    _Atomic uintptr_t begin, end;
} bounds;

static bounds passed;      /* what is to be passed over besides */
static bounds interpreter; /* where a stack ends that has frames of its own */

static int is_in(const bounds *object, uintptr_t address)
{
    return address >= atomic_load_explicit(&object->begin, memory_order_relaxed) &&
           address < atomic_load_explicit(&object->end, memory_order_relaxed);
}

static int is_own(uintptr_t address)
{
    return (address >= (uintptr_t)own_begin && address < (uintptr_t)own_end) ||
           is_in(&passed, address);
}

typedef struct sought {
    uintptr_t symbol;
    bounds *found;
} sought;

static int object_look(struct dl_phdr_info *info, size_t size, void *user)
{
    const sought *self = user;
    uintptr_t begin = UINTPTR_MAX, end = 0;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *one = &info->dlpi_phdr[i];
        uintptr_t from = (uintptr_t)(info->dlpi_addr + one->p_vaddr), to = from + one->p_memsz;
        if (one->p_type != PT_LOAD)
            continue;
        begin = from < begin ? from : begin;
        end = to > end ? to : end;
    }
    if (self->symbol < begin || self->symbol >= end)
        return 0;
    atomic_store(&self->found->begin, begin);
    atomic_store(&self->found->end, end);
    return 1;
}

void check_stack_pass(const void *symbol)
{
    (void)dl_iterate_phdr(object_look, &(sought){(uintptr_t)symbol, &passed});
}

void check_stack_interpreter(const void *symbol)
{
    (void)dl_iterate_phdr(object_look, &(sought){(uintptr_t)symbol, &interpreter});
}

/* ---- stacks --------------------------------------------------------------------------------- */

/* A stack as it was walked: for each frame where its return address lies. Programs come from the
 * same places again and again, and to walk a stack takes most of what a launch costs under the
 * checker; so a thread remembers some by the depth at which they ended. One is taken for the same
 * if each return address is still where it was found. That is looked at only inside of the thread's
 * own stack, which is there as long as the thread is. */
typedef struct walked {
    uintptr_t depth; /* where the walk began; 0: none */
    int most;        /* frames that were wanted; fewer than CHECK_FRAMES: behind an interpreter's */
    int count;
    int has_end; /* the last one is the interpreter's, wherever in it that is */
    int doubt;   /* from `first` on */
    int first;   /* what lies below the depth was the walk's own */
    uintptr_t slots[DEEP], frames[DEEP];
    check_stack stack;
    const check_place *last; /* that was asked for; null: none */
} walked;

/* Stacks of one depth share some places: in a training step of PyTorch's many calls have one. */
enum { WALKED = 64, WAYS = 16 };

/* A thread's, made when it first walks. */
typedef struct memory {
    uintptr_t low, high; /* its stack: from the first to behind the last; 0: not known */
    walked list[WALKED][WAYS];
    unsigned turn; /* which of them is given up next */
} memory;

static _Thread_local memory *thread_memory;
static pthread_key_t memory_key; /* ends it with the thread */
static pthread_once_t memory_once = PTHREAD_ONCE_INIT;

static void memory_key_make(void)
{
    (void)pthread_key_create(&memory_key, free);
}

static memory *memory_make(void)
{
    pthread_attr_t attributes;
    void *low = NULL;
    size_t bytes = 0;
    memory *fresh = calloc(1, sizeof(*fresh));
    (void)pthread_once(&memory_once, memory_key_make);
    if (fresh == NULL || pthread_setspecific(memory_key, fresh) != 0) {
        free(fresh);
        return NULL;
    }
    thread_memory = fresh;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return fresh;
    if (pthread_attr_getstack(&attributes, &low, &bytes) == 0) {
        fresh->low = (uintptr_t)low;
        fresh->high = fresh->low + bytes;
    }
    (void)pthread_attr_destroy(&attributes);
    return fresh;
}

/* Notes a frame, and where the address lies at which it goes on: right below where the frame that
 * it has called began, on x86-64. Elsewhere no ABI says so, and what is noted is found wrong. */
static _Unwind_Reason_Code frame_note(struct _Unwind_Context *context, void *user)
{
    walked *self = user;
    uintptr_t frame = (uintptr_t)_Unwind_GetIP(context);
    if (frame == 0 || self->count == DEEP || self->stack.count == self->most)
        return _URC_END_OF_STACK;
    self->frames[self->count] = frame;
    self->slots[self->count++] = (uintptr_t)_Unwind_GetCFA(context) - sizeof(uintptr_t);
    self->has_end = self->most < CHECK_FRAMES && is_in(&interpreter, frame);
    if (self->has_end)
        return _URC_END_OF_STACK;
    if (!is_own(frame))
        self->stack.frames[self->stack.count++] = (const void *)frame;
    return _URC_NO_REASON;
}

/* 1 if each return address is where it was found. The one that was another's last time is looked at
 * first: stacks of one depth begin alike. */
static int is_still_so(walked *one)
{
    int exact = one->count - one->has_end;
    if (one->doubt < exact && *(const uintptr_t *)one->slots[one->doubt] != one->frames[one->doubt])
        return 0;
    for (int i = one->first; i < exact; i++)
        if (*(const uintptr_t *)one->slots[i] != one->frames[i]) {
            one->doubt = i;
            return 0;
        }
    return one->count > 0 &&
           (!one->has_end || is_in(&interpreter, *(const uintptr_t *)one->slots[exact]));
}

/* 1 if it may be looked at again: all of it lies in the thread's own stack, and is found there. */
static int is_kept(walked *one, uintptr_t depth, const memory *own)
{
    if (depth < own->low || depth >= own->high)
        return 0;
    for (int i = 0; i < one->count; i++)
        if (one->slots[i] % sizeof(uintptr_t) != 0 || one->slots[i] >= own->high ||
            (i > 0 && one->slots[i] <= one->slots[i - 1]))
            return 0;
    one->first = 0;
    while (one->first < one->count && one->slots[one->first] <= depth)
        one->first++;
    one->doubt = one->first;
    return one->first < one->count && is_still_so(one);
}

/* Where this stack was walked before, or else where it is to be kept. */
static walked *walked_find(memory *own, uintptr_t depth, int most)
{
    walked *ways = own->list[(depth >> 4) % WALKED];
    for (int i = 0; i < WAYS; i++)
        if (ways[i].depth == depth && ways[i].most == most && is_still_so(&ways[i]))
            return &ways[i];
    walked *one = &ways[own->turn++ % WAYS];
    one->depth = 0;
    return one;
}

static check_stack stack_take(int most)
{
    walked once;
    uintptr_t depth = (uintptr_t)__builtin_frame_address(0);
    memory *own = thread_memory != NULL ? thread_memory : memory_make();
    walked *one = own == NULL ? &once : walked_find(own, depth, most);
    if (own != NULL && one->depth == depth)
        return one->stack;
    one->most = most;
    one->count = one->has_end = one->stack.count = 0;
    one->stack.last = NULL;
    one->last = NULL;
    (void)_Unwind_Backtrace(frame_note, one);
    if (own != NULL && is_kept(one, depth, own))
        one->depth = depth;
    if (one != &once)
        one->stack.last = &one->last;
    return one->stack;
}

check_stack check_stack_take(void)
{
    return stack_take(CHECK_FRAMES);
}

/* Frames of an interpreter come first, and leave room for some of what they have called: the same
 * C code runs all of a program's Python, so its return addresses would say nothing. */
check_stack check_stack_here(void)
{
    enum { NATIVE_MIN = 4 };
    uintptr_t frames[CHECK_FRAMES - NATIVE_MIN];
    check_stack found = {.count = 0, .last = NULL};
    if (!check_does(CHECK_REPORTS))
        return found;
    size_t count = check_frames_take(frames, sizeof(frames) / sizeof(frames[0]));
    if (count == 0)
        return stack_take(CHECK_FRAMES);
    for (size_t i = 0; i < count; i++)
        found.frames[found.count++] = (const void *)frames[i];
    check_stack native = stack_take(CHECK_FRAMES - (int)count);
    for (int i = 0; i < native.count; i++)
        found.frames[found.count++] = native.frames[i];
    return found;
}

/* ---- texts ---------------------------------------------------------------------------------- */

typedef struct kept_text {
    struct kept_text *next;
    char string[];
} kept_text;

static kept_text *texts[PARTS];
static size_t texts_bytes;

const char *check_text_keep(const char *text)
{
    uint64_t mixed = 0;
    size_t length = 0;
    if (text == NULL)
        return NULL;
    for (; text[length] != '\0'; length++)
        mixed = mixed * UINT64_C(0x100000001b3) ^ (unsigned char)text[length];
    kept_text **part = &texts[mixed * UINT64_C(0x9e3779b97f4a7c15) >> 52];
    for (const kept_text *one = *part; one != NULL; one = one->next)
        if (strcmp(one->string, text) == 0)
            return one->string;
    size_t bytes = sizeof(kept_text) + length + 1;
    kept_text *fresh = texts_bytes + bytes > TEXTS_MAX ? NULL : malloc(bytes);
    if (fresh == NULL)
        return NULL;
    texts_bytes += bytes;
    memcpy(fresh->string, text, length + 1);
    fresh->next = *part;
    *part = fresh;
    return fresh->string;
}

/* ---- places --------------------------------------------------------------------------------- */

static size_t part_of(const char *call, const char *kernel, const check_stack *stack)
{
    uint64_t mixed = (uint64_t)(uintptr_t)call * 31 + (uint64_t)(uintptr_t)kernel;
    for (int i = 0; i < stack->count; i++)
        mixed = mixed * UINT64_C(0x100000001b3) ^ (uint64_t)(uintptr_t)stack->frames[i];
    return (size_t)(mixed * UINT64_C(0x9e3779b97f4a7c15) >> 52);
}

const check_place *check_place_of(const char *call, const char *kernel, const check_stack *stack)
{
    static check_place unknown = {.call = "a call"};
    static const check_stack none;
    if (stack == NULL)
        stack = &none;
    const check_place *last = stack->last == NULL ? NULL : *stack->last;
    if (last != NULL && last->call == call && last->kernel == kernel)
        return last;
    size_t part = part_of(call, kernel, stack);
    for (const check_place *at = parts[part]; at != NULL; at = at->next)
        if (at->call == call && at->kernel == kernel && at->stack.count == stack->count &&
            memcmp(at->stack.frames, stack->frames,
                   (size_t)stack->count * sizeof(stack->frames[0])) == 0) {
            if (stack->last != NULL)
                *stack->last = at;
            return at;
        }
    if (places_count >= PLACES_MAX && stack->count > 0)
        return check_place_of(call, kernel, &none);
    check_place *fresh = calloc(1, sizeof(*fresh));
    if (fresh == NULL)
        return &unknown;
    *fresh = (check_place){parts[part], call, kernel, *stack, ++places_count};
    fresh->stack.last = NULL;
    parts[part] = fresh;
    return fresh;
}
