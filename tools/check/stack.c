/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks: see stack.h. */
#include "check/stack.h"

#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#include "check/python.h"
#include "check/walked.h"

/* The library's own bounds, from the linker. */
extern const char own_begin[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));
extern const char own_end[] __asm__("_end") __attribute__((visibility("hidden")));

static check_bounds passed;      /* what is to be passed over besides */
static check_bounds interpreter; /* where a stack ends that has frames of its own */

static int is_own(uintptr_t address)
{
    return (address >= (uintptr_t)own_begin && address < (uintptr_t)own_end) ||
           check_is_in(&passed, address);
}

typedef struct sought {
    uintptr_t symbol;
    check_bounds *found;
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

void check_bounds_find(const void *symbol, check_bounds *found)
{
    (void)dl_iterate_phdr(object_look, &(sought){(uintptr_t)symbol, found});
}

void check_stack_pass(const void *symbol)
{
    check_bounds_find(symbol, &passed);
}

void check_stack_interpreter(const void *symbol)
{
    check_bounds_find(symbol, &interpreter);
}

/* ---- what a thread remembers ----------------------------------------------------------------- */

/* A stack with an interpreter's frames in front. As with what was walked, the next one is mostly
 * the one that was taken next the last time: so they lie in the order in which they came. */
enum { JOINED_MAX = 8192, SLOTS_BITS = 14, ABOVE = CHECK_FRAMES - 4 };
typedef struct joined {
    _Alignas(WALKED_LINE) uint32_t number; /* of what comes behind them */
    uint32_t count;                        /* of them */
    uint32_t after;                        /* which one was taken next, the last time */
    check_stack stack;
} joined;

/* Made when the thread first walks. */
typedef struct memory {
    void *whole; /* what is to be freed: itself, at a multiple of its alignment, lies in it */
    uint32_t joined_count, last, next; /* of the joined ones; as in walks */
    check_walks walks;
    uint16_t slots[1 << SLOTS_BITS];
    joined joined[JOINED_MAX]; /* the first stands for none */
} memory;
_Static_assert(JOINED_MAX <= UINT16_MAX + 1 && JOINED_MAX < 1 << SLOTS_BITS, "room for all");

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
    fresh->walks.interpreter = &interpreter;
    thread_memory = fresh;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return fresh;
    if (pthread_attr_getstack(&attributes, &low, &bytes) == 0) {
        fresh->walks.high = (uintptr_t)low + bytes;
        fresh->walks.low = bytes > UINT32_MAX ? fresh->walks.high - UINT32_MAX : (uintptr_t)low;
    }
    (void)pthread_attr_destroy(&attributes);
    return fresh;
}

/* ---- walks ----------------------------------------------------------------------------------- */

typedef struct walker {
    int most;
    check_walk walk;
    check_stack *stack;
} walker;

/* Notes a frame, and where the address lies at which it goes on: right below where the frame that
 * it has called began, on x86-64. Elsewhere no ABI says so, and what is noted is found wrong. */
static _Unwind_Reason_Code frame_note(struct _Unwind_Context *context, void *user)
{
    walker *self = user;
    check_walk *walk = &self->walk;
    uintptr_t frame = (uintptr_t)_Unwind_GetIP(context);
    if (frame == 0 || walk->count == WALK_DEEP || self->stack->count == self->most)
        return _URC_END_OF_STACK;
    walk->frames[walk->count] = frame;
    walk->slots[walk->count++] = (uintptr_t)_Unwind_GetCFA(context) - sizeof(uintptr_t);
    walk->has_end = self->most < CHECK_FRAMES && check_is_in(&interpreter, frame);
    if (walk->has_end)
        return _URC_END_OF_STACK;
    if (!is_own(frame))
        self->stack->frames[self->stack->count++] = (const void *)frame;
    return _URC_NO_REASON;
}

/* Walks, and remembers it if it can. Null: it cannot. */
static __attribute__((noinline)) check_walked *stack_walk(check_stack *room, int most,
                                                          check_walks *walks, uintptr_t depth)
{
    walker self = {.most = most, .walk = {.count = 0, .has_end = 0}, .stack = room};
    room->count = room->keeps_last = 0;
    room->last.place = NULL;
    (void)_Unwind_Backtrace(frame_note, &self);
    return walks == NULL ? NULL : check_walks_keep(walks, &self.walk, room, depth, most);
}

/* The frames of C; kept by the thread, with a number of its own, or in `room`, with 0. */
static __attribute__((noinline)) check_stack *stack_take(check_stack *room, int most,
                                                         uint32_t *number)
{
    uintptr_t depth = (uintptr_t)__builtin_frame_address(0);
    memory *own = thread_memory != NULL ? thread_memory : memory_make();
    check_walks *walks = own == NULL ? NULL : &own->walks;
    check_walked *one = walks == NULL ? NULL : check_walks_find(walks, depth, most);
    if (one == NULL)
        one = stack_walk(room, most, walks, depth);
    *number = one == NULL ? 0 : one->number;
    return one == NULL ? room : &one->stack;
}

check_stack *check_stack_take(check_stack *room)
{
    uint32_t number;
    return stack_take(room, CHECK_FRAMES, &number);
}

/* ---- an interpreter's frames ----------------------------------------------------------------- */

/* 1 if it has these frames in front. */
static inline int is_joined(const joined *one, const uintptr_t *above, size_t count,
                            uint32_t number)
{
    uintptr_t differ = (one->number ^ number) | (one->count ^ count);
    for (size_t i = 0; i < count; i++)
        differ |= (uintptr_t)one->stack.frames[i] ^ above[i];
    return differ == 0;
}

/* Where the number of a stack with these frames is, or goes. */
static uint16_t *joined_slot(memory *own, const uintptr_t *above, size_t count, uint32_t number)
{
    uint64_t mixed = number;
    for (size_t i = 0; i < count; i++)
        mixed = (mixed ^ above[i]) * UINT64_C(0x9e3779b97f4a7c15);
    size_t slot = mixed >> (64 - SLOTS_BITS);
    while (own->slots[slot] != 0 &&
           !is_joined(&own->joined[own->slots[slot]], above, count, number))
        slot = (slot + 1) % (1 << SLOTS_BITS);
    return &own->slots[slot];
}

static void frames_join(check_stack *to, const uintptr_t *above, size_t count,
                        const check_stack *below)
{
    *to = (check_stack){.count = (int)count};
    memcpy(to->frames, above, count * sizeof(above[0]));
    for (int i = 0; i < below->count; i++)
        to->frames[to->count++] = below->frames[i];
}

/* The stack that is kept with these frames in front; it is made if there is none. If there is no
 * room for it, all others are forgotten. */
static __attribute__((noinline)) uint32_t joined_look(memory *own, const uintptr_t *above,
                                                      size_t count, uint32_t number,
                                                      const check_stack *below)
{
    uint16_t *slot = joined_slot(own, above, count, number);
    if (*slot != 0)
        return *slot;
    if (own->joined_count == JOINED_MAX - 1) {
        memset(own->slots, 0, sizeof(own->slots));
        own->joined_count = 0;
        slot = joined_slot(own, above, count, number);
    }
    *slot = (uint16_t)++own->joined_count;
    joined *one = &own->joined[*slot];
    *one = (joined){.number = number, .count = (uint32_t)count};
    frames_join(&one->stack, above, count, below);
    one->stack.keeps_last = 1;
    return *slot;
}

/* Frames of an interpreter come first, and leave room for some of what they have called: the same
 * C code runs all of a program's Python, so its return addresses would say nothing. */
static check_stack *stack_join(check_stack *room, const uintptr_t *above, size_t count)
{
    uint32_t number;
    const check_stack *below = stack_take(room, CHECK_FRAMES - (int)count, &number);
    if (number == 0) {
        check_stack whole;
        frames_join(&whole, above, count, below);
        *room = whole;
        return room;
    }
    memory *own = thread_memory;
    joined *one = &own->joined[own->next];
    if (!is_joined(one, above, count, number)) {
        own->next = joined_look(own, above, count, number, below);
        own->joined[own->last].after = own->next;
        one = &own->joined[own->next];
    }
    own->last = own->next;
    own->next = one->after;
    __builtin_prefetch(&own->joined[one->after]);
    __builtin_prefetch((const char *)&own->joined[one->after] + WALKED_LINE);
    return &one->stack;
}

check_stack *check_stack_whole(check_stack *room)
{
    uintptr_t above[ABOVE];
    size_t count = check_frames_take(above, ABOVE);
    return count == 0 ? check_stack_take(room) : stack_join(room, above, count);
}
