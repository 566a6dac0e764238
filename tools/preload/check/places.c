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
 * checker; so a thread remembers some. One is taken for the same if each return address is still
 * where it was found. That is looked at only inside of the thread's own stack, which is there as
 * long as the thread is.
 *
 * It is found by its depth, where the walk began, and by the words in a few places above: those in
 * which stacks of that depth were seen to differ, since they begin and end alike.
 *
 * A program has more such places than a first cache has room for. So they are compared by a sum of
 * 64 bits, and all that is looked at lies in two lines. */
typedef struct walked {
    _Alignas(128) uint64_t sum; /* of the return addresses from `first` on, but for such an end */
    uint32_t number;            /* no two of a thread's have one; 0: none */
    uint8_t count;
    uint8_t has_end;      /* the last one is the interpreter's, wherever in it that is */
    uint8_t first;        /* what lies below the depth was the walk's own */
    uint16_t steps[DEEP]; /* in words, from the depth to the first one, from each to the next */
    check_stack stack;
    uintptr_t frames[DEEP];
} walked;

enum { SETS = 1024, WAYS = 4, DEPTHS = 1024, FORKS = 4, DEPTH_UNIT = 16 };

/* What is known of a depth. With it, whose lower half is enough in a thread's stack, stands how
 * many frames were wanted: fewer than CHECK_FRAMES behind an interpreter's. */
typedef struct depth_forks {
    uint32_t depth; /* 0: nothing */
    uint32_t count;
    uint32_t places[FORKS];
} depth_forks;

_Static_assert((int)CHECK_FRAMES < (int)DEPTH_UNIT, "the lower bits of a depth");

/* A stack with an interpreter's frames in front. */
enum { JOINED = 4096, ABOVE = CHECK_FRAMES - 4 };
typedef struct joined {
    uint32_t number; /* of what comes behind them */
    uint32_t count;  /* of them; 0: none */
    check_stack stack;
} joined;

/* A thread's, made when it first walks. */
typedef struct memory {
    void *whole; /* what is to be freed: itself, at a multiple of its alignment, lies in it */
    /* Its stack: from the first to behind the last, or the upper part of it; 0: not known. */
    uintptr_t low, high;
    depth_forks forks[DEPTHS];
    uint32_t keys[SETS][WAYS]; /* of those that are remembered; 0: none is */
    walked list[SETS][WAYS];
    joined joined[JOINED];
    unsigned turn;    /* which of a set is given up next */
    uint32_t numbers; /* that were given */
} memory;

static _Thread_local memory *thread_memory;
static pthread_key_t memory_key; /* ends it with the thread */
static pthread_once_t memory_once = PTHREAD_ONCE_INIT;

/* What the thread still frees as it ends has another one made. */
static void memory_end(void *self)
{
    thread_memory = NULL;
    free(((memory *)self)->whole);
}

static void memory_key_make(void)
{
    (void)pthread_key_create(&memory_key, memory_end);
}

static memory *memory_make(void)
{
    pthread_attr_t attributes;
    void *low = NULL;
    size_t bytes = 0;
    char *whole = calloc(1, sizeof(memory) + _Alignof(memory)); /* which is not touched yet */
    if (whole == NULL)
        return NULL;
    memory *fresh = (memory *)(whole + (0 - (uintptr_t)whole) % _Alignof(memory));
    (void)pthread_once(&memory_once, memory_key_make);
    if (pthread_setspecific(memory_key, fresh) != 0) {
        free(whole);
        return NULL;
    }
    fresh->whole = whole;
    thread_memory = fresh;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return fresh;
    if (pthread_attr_getstack(&attributes, &low, &bytes) == 0) {
        fresh->high = (uintptr_t)low + bytes;
        fresh->low = bytes > UINT32_MAX ? fresh->high - UINT32_MAX : (uintptr_t)low;
    }
    (void)pthread_attr_destroy(&attributes);
    return fresh;
}

/* A walk: also where each return address lies. */
typedef struct walk {
    int most, count, has_end;
    uintptr_t slots[DEEP], frames[DEEP];
    check_stack *stack;
} walk;

/* Notes a frame, and where the address lies at which it goes on: right below where the frame that
 * it has called began, on x86-64. Elsewhere no ABI says so, and what is noted is found wrong. */
static _Unwind_Reason_Code frame_note(struct _Unwind_Context *context, void *user)
{
    walk *self = user;
    uintptr_t frame = (uintptr_t)_Unwind_GetIP(context);
    if (frame == 0 || self->count == DEEP || self->stack->count == self->most)
        return _URC_END_OF_STACK;
    self->frames[self->count] = frame;
    self->slots[self->count++] = (uintptr_t)_Unwind_GetCFA(context) - sizeof(uintptr_t);
    self->has_end = self->most < CHECK_FRAMES && is_in(&interpreter, frame);
    if (self->has_end)
        return _URC_END_OF_STACK;
    if (!is_own(frame))
        self->stack->frames[self->stack->count++] = (const void *)frame;
    return _URC_NO_REASON;
}

static uintptr_t word_at(uintptr_t depth, uint32_t place)
{
    return *(const uintptr_t *)(depth + place);
}

static uint64_t sum_add(uint64_t sum, uintptr_t frame)
{
    return (sum + frame) * UINT64_C(0x9e3779b97f4a7c15);
}

/* 1 if each return address is where it was found. */
static int is_there(const walked *one, uintptr_t depth)
{
    const uintptr_t *at = (const uintptr_t *)depth;
    const uint16_t *step = &one->steps[one->first], *last = &one->steps[one->count - one->has_end];
    uint64_t sum = 0;
    for (; step < last; step++) {
        at += *step;
        sum = sum_add(sum, *at);
    }
    return sum == one->sum && (!one->has_end || is_in(&interpreter, at[*last]));
}

/* Where the first one is that is not, above the depth; they are not all there. */
static uint32_t differing_place(const walked *one, uintptr_t depth)
{
    const uintptr_t *at = (const uintptr_t *)depth;
    int last = one->count - 1, i = one->first;
    for (at += one->steps[i]; i < last && *at == one->frames[i]; at += one->steps[i])
        i++;
    return (uint32_t)((uintptr_t)at - depth);
}

static depth_forks *forks_of(memory *own, uintptr_t depth, int most)
{
    uint32_t wanted = (uint32_t)depth + (uint32_t)most;
    depth_forks *found = &own->forks[wanted * UINT64_C(0x9e3779b97f4a7c15) >> 54];
    if (found->depth != wanted) {
        found->depth = wanted;
        found->count = 0;
    }
    return found;
}

/* Stacks of this depth may differ in this place. */
static void forks_add(depth_forks *forks, uint32_t place)
{
    for (uint32_t i = 0; i < forks->count; i++)
        if (forks->places[i] == place)
            return;
    if (forks->count < FORKS)
        forks->places[forks->count++] = place;
}

/* What a stack is found by; never 0 in its lower half, which the keys have. */
static uint64_t forks_hash(const depth_forks *forks, uintptr_t depth)
{
    uint64_t hash = forks->depth;
    for (uint32_t i = 0; i < forks->count; i++)
        hash = (hash ^ word_at(depth, forks->places[i])) * UINT64_C(0x9e3779b97f4a7c15) >> 3 ^ hash;
    hash *= UINT64_C(0x9e3779b97f4a7c15);
    return hash >> 16 | 1;
}

static size_t set_of(uint64_t hash)
{
    return (size_t)(hash >> 32) % SETS;
}

/* Remembers a walk if it may be looked at again: all of it lies in the thread's own stack, and is
 * found there. */
static int walk_keep(walked *to, const walk *from, uintptr_t depth, memory *own)
{
    int first = 0;
    uintptr_t below = depth;
    while (first < from->count && from->slots[first] <= depth)
        first++;
    to->sum = 0;
    for (int i = first; i < from->count; i++) {
        uintptr_t step = (from->slots[i] - below) / sizeof(uintptr_t);
        if (from->slots[i] % sizeof(uintptr_t) != 0 || from->slots[i] >= own->high ||
            from->slots[i] <= below || step > UINT16_MAX)
            return 0;
        to->steps[i] = (uint16_t)step;
        to->frames[i] = from->frames[i];
        if (i < from->count - from->has_end)
            to->sum = sum_add(to->sum, from->frames[i]);
        below = from->slots[i];
    }
    to->count = (uint8_t)from->count;
    to->has_end = from->has_end != 0;
    to->first = (uint8_t)first;
    to->number = ++own->numbers;
    return first < from->count - to->has_end && is_there(to, depth);
}

/* The stack of a depth, if it is remembered; null: it is not. */
static walked *walked_find(memory *own, depth_forks *forks, uintptr_t depth)
{
    uint64_t hash = forks_hash(forks, depth);
    size_t set = set_of(hash);
    for (int i = 0; i < WAYS; i++) {
        walked *one = &own->list[set][i];
        if (own->keys[set][i] != (uint32_t)hash)
            continue;
        if (is_there(one, depth))
            return one;
        forks_add(forks, differing_place(one, depth));
    }
    return NULL;
}

/* Walks, and remembers it if it can. Null: it cannot. */
static __attribute__((noinline)) walked *stack_walk(check_stack *room, int most, memory *own,
                                                    depth_forks *forks, uintptr_t depth)
{
    walk self = {.most = most, .count = 0, .has_end = 0, .stack = room};
    room->count = room->keeps_last = 0;
    room->last.place = NULL;
    (void)_Unwind_Backtrace(frame_note, &self);
    if (forks == NULL)
        return NULL;
    uint64_t hash = forks_hash(forks, depth);
    size_t set = set_of(hash), way = 0;
    while (way < WAYS && own->keys[set][way] != 0)
        way++;
    if (way == WAYS)
        way = own->turn++ % WAYS;
    walked *one = &own->list[set][way];
    own->keys[set][way] = 0;
    if (!walk_keep(one, &self, depth, own))
        return NULL;
    own->keys[set][way] = (uint32_t)hash;
    one->stack = *room;
    one->stack.keeps_last = 1;
    return one;
}

/* The frames of C; kept by the thread, with a number of its own, or in `room`, with 0. */
static __attribute__((noinline)) check_stack *stack_take(check_stack *room, int most,
                                                         uint32_t *number)
{
    uintptr_t depth = (uintptr_t)__builtin_frame_address(0);
    memory *own = thread_memory != NULL ? thread_memory : memory_make();
    int is_inside =
        own != NULL && depth >= own->low && depth < own->high && depth % DEPTH_UNIT == 0;
    depth_forks *forks = is_inside ? forks_of(own, depth, most) : NULL;
    walked *one = is_inside ? walked_find(own, forks, depth) : NULL;
    if (one == NULL)
        one = stack_walk(room, most, own, forks, depth);
    *number = one == NULL ? 0 : one->number;
    return one == NULL ? room : &one->stack;
}

check_stack *check_stack_take(check_stack *room)
{
    uint32_t number;
    return stack_take(room, CHECK_FRAMES, &number);
}

static int is_joined(const joined *one, const uintptr_t *above, size_t count, uint32_t number)
{
    return number != 0 && one->number == number && one->count == count &&
           memcmp(one->stack.frames, above, count * sizeof(above[0])) == 0;
}

/* Frames of an interpreter come first, and leave room for some of what they have called: the same
 * C code runs all of a program's Python, so its return addresses would say nothing. */
static check_stack *stack_join(check_stack *room, const uintptr_t *above, size_t count)
{
    uint32_t number;
    const check_stack *below = stack_take(room, CHECK_FRAMES - (int)count, &number);
    uint64_t mixed = number;
    for (size_t i = 0; i < count; i++)
        mixed = (mixed ^ above[i]) * UINT64_C(0x9e3779b97f4a7c15);
    joined *one = number == 0 ? NULL : &thread_memory->joined[mixed >> 52];
    if (one != NULL && is_joined(one, above, count, number))
        return &one->stack;
    check_stack found = {.count = (int)count};
    memcpy(found.frames, above, count * sizeof(above[0]));
    for (int i = 0; i < below->count; i++)
        found.frames[found.count++] = below->frames[i];
    *room = found;
    if (one == NULL)
        return room;
    found.keeps_last = 1;
    *one = (joined){number, (uint32_t)count, found};
    return &one->stack;
}

check_stack *check_stack_whole(check_stack *room)
{
    uintptr_t above[ABOVE];
    size_t count = check_frames_take(above, ABOVE);
    return count == 0 ? check_stack_take(room) : stack_join(room, above, count);
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

/* The place in the table, which is entered if it is new. */
static const check_place *place_find(const char *call, const char *kernel, const check_stack *stack)
{
    static check_place unknown = {.call = "a call"};
    static const check_stack none;
    size_t part = part_of(call, kernel, stack);
    for (const check_place *at = parts[part]; at != NULL; at = at->next)
        if (at->call == call && at->kernel == kernel && at->stack.count == stack->count &&
            memcmp(at->stack.frames, stack->frames,
                   (size_t)stack->count * sizeof(stack->frames[0])) == 0)
            return at;
    if (places_count >= PLACES_MAX && stack->count > 0)
        return place_find(call, kernel, &none);
    check_place *fresh = calloc(1, sizeof(*fresh));
    if (fresh == NULL)
        return &unknown;
    *fresh = (check_place){parts[part], call, kernel, check_stack_copy(stack), ++places_count};
    parts[part] = fresh;
    return fresh;
}

static __attribute__((noinline)) const check_place *place_ask(const char *call, const char *kernel,
                                                              check_stack *stack)
{
    const check_place *found = place_find(call, kernel, stack);
    if (stack->keeps_last)
        stack->last = (check_asked){call, kernel, found};
    return found;
}

const check_place *check_place_of(const char *call, const char *kernel, check_stack *stack)
{
    static check_stack none;
    if (stack == NULL)
        return place_ask(call, kernel, &none);
    const check_asked *last = &stack->last;
    if (last->place != NULL && last->call == call && last->kernel == kernel)
        return last->place;
    return place_ask(call, kernel, stack);
}
