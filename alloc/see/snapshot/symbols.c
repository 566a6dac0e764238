/* SPDX-License-Identifier: Apache-2.0 */
/* Looking frames up: see symbols.h. */
#include "see/snapshot/symbols.h"

#include <string.h>

#include "base/host_memory.h"
#include "base/prim/loader.h"
#include "log/stacks.h"

static size_t address_slot(const tnri_symbols *symbols, uintptr_t address)
{
    uint64_t mixed = (uint64_t)address * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed >> 32) & (symbols->slots_count - 1);
}

/* The slot that the address is in, or belongs into. */
static uint32_t *slot_of(const tnri_symbols *symbols, uintptr_t address)
{
    size_t at = address_slot(symbols, address);
    while (symbols->slots[at] != 0 && symbols->frames[symbols->slots[at] - 1].address != address)
        at = (at + 1) & (symbols->slots_count - 1);
    return &symbols->slots[at];
}

/* An interpreter's. */
static void frame_describe(tnri_frame *frame)
{
    tnr_frame_info info = {"", "", 0};
    tnr_frames_describe describe = atomic_load(&tnri_frames_describe);
    describe(&info, frame->address);
    frame->function = info.function;
    frame->file = info.file;
    frame->line = info.line;
}

/* A return address is that of the instruction after the call, which may be another function's
 * first; so the byte before it is looked up. */
static void frame_look_up(tnri_frame *frame, tnri_modules *modules)
{
    tnri_loaded_at at;
    frame->function = frame->file = "";
    frame->module = "";
    if (tnri_frame_is_described(frame->address)) {
        frame_describe(frame);
        return;
    }
    if (!tnri_loader_find(frame->address - 1, &at))
        return;
    if (at.symbol != NULL) {
        frame->function = at.symbol;
        frame->function_offset = frame->address - at.symbol_address;
    }
    if (at.path != NULL)
        frame->module = at.path;
    tnri_module *module = tnri_modules_find(modules, at.base);
    if (module != NULL && module->path[0] != '\0') {
        module->is_used = 1;
        frame->module = module->path;
        frame->module_number = (uint32_t)(module - modules->list) + 1;
    }
    frame->offset = frame->address - at.base;
}

/* Enters the frames of all stacks. The array and the hash have room for them. */
static void frames_enter(tnri_symbols *symbols)
{
    for (uint32_t number = 1; number <= symbols->stacks_count; number++) {
        size_t count;
        const uintptr_t *addresses = tnri_stack_get(number, &count);
        for (size_t i = 0; i < count; i++) {
            uint32_t *slot = slot_of(symbols, addresses[i]);
            if (*slot != 0)
                continue;
            tnri_frame *frame = &symbols->frames[symbols->frames_count++];
            frame->address = addresses[i];
            frame_look_up(frame, &symbols->modules);
            *slot = (uint32_t)symbols->frames_count;
        }
    }
}

/* 1 if the frame is one of the library's own functions, or lies between it and the program. */
static int frame_is_own(const tnri_frame *frame, uintptr_t own_base)
{
    if (tnri_frame_is_described(frame->address))
        return 0;
    if (strncmp(frame->function, "tnr_", 4) == 0 || strncmp(frame->function, "tnri_", 5) == 0 ||
        tnri_module_is_between(frame->module))
        return 1;
    /* Functions without a name in the dynamic table count if they are in the library's own file,
     * which must not be the program's: there all functions are alike. */
    tnri_loaded_at at;
    return frame->function[0] == '\0' && own_base != 0 &&
           tnri_loader_find(frame->address - 1, &at) && at.base == own_base;
}

/* What the innermost frames have in common is that they are the way from the public function to the
 * history; they tell a reader nothing. */
static void skips_find(tnri_symbols *symbols)
{
    tnri_loaded_at own;
    int is_known = tnri_loader_find((uintptr_t)tnri_symbols_make, &own);
    uintptr_t own_base = is_known ? own.base : 0;
    for (uint32_t number = 1; number <= symbols->stacks_count; number++) {
        size_t count;
        const uintptr_t *addresses = tnri_stack_get(number, &count);
        uint32_t skip = 0;
        while (
            skip + 1 < count &&
            frame_is_own(&symbols->frames[tnri_symbols_find(symbols, addresses[skip])], own_base))
            skip++;
        symbols->stack_skip[number] = skip;
    }
}

int tnri_symbols_make(tnri_symbols *symbols)
{
    memset(symbols, 0, sizeof(*symbols));
    symbols->stacks_count = tnri_stacks_count();
    size_t addresses_count = 0;
    for (uint32_t number = 1; number <= symbols->stacks_count; number++) {
        size_t count;
        (void)tnri_stack_get(number, &count);
        addresses_count += count;
    }
    if (addresses_count == 0)
        return 1;
    symbols->frames_room = addresses_count;
    symbols->slots_count = 64;
    while (symbols->slots_count < addresses_count * 2)
        symbols->slots_count *= 2;
    symbols->frames = tnri_host_reserve(symbols->frames_room * sizeof(symbols->frames[0]));
    symbols->slots = tnri_host_reserve(symbols->slots_count * sizeof(symbols->slots[0]));
    symbols->stack_skip =
        tnri_host_reserve((symbols->stacks_count + 1) * sizeof(symbols->stack_skip[0]));
    int has_modules = tnri_modules_make(&symbols->modules);
    if (symbols->frames == NULL || symbols->slots == NULL || symbols->stack_skip == NULL ||
        !has_modules) {
        tnri_symbols_free(symbols);
        return 0;
    }
    frames_enter(symbols);
    skips_find(symbols);
    return 1;
}

void tnri_symbols_free(tnri_symbols *symbols)
{
    tnri_host_unreserve(symbols->frames, symbols->frames_room * sizeof(symbols->frames[0]));
    tnri_host_unreserve(symbols->slots, symbols->slots_count * sizeof(symbols->slots[0]));
    tnri_host_unreserve(symbols->stack_skip,
                        (symbols->stacks_count + 1) * sizeof(symbols->stack_skip[0]));
    tnri_modules_free(&symbols->modules);
    memset(symbols, 0, sizeof(*symbols));
}

const uintptr_t *tnri_symbols_stack(const tnri_symbols *symbols, size_t number, size_t *count)
{
    *count = 0;
    if (number == 0 || number > symbols->stacks_count)
        return NULL;
    const uintptr_t *addresses = tnri_stack_get((uint32_t)number, count);
    uint32_t skip = symbols->stack_skip[number];
    *count -= skip;
    return addresses + skip;
}

size_t tnri_symbols_find(const tnri_symbols *symbols, uintptr_t address)
{
    return *slot_of(symbols, address) - 1;
}
