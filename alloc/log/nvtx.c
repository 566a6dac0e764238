/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling tools: see nvtx.h. The numbers and structures are those of NVTX 3 (nvtxTypes.h,
 * nvtxExtTypes.h) and of its extension for memory, version 0x0102 (nvToolsExtMem.h).
 */
#include "log/nvtx.h"

#include <stdatomic.h>

#include "base/conf/environment.h"
#include "base/prim/loader.h"

/* ---- the interface -------------------------------------------------------------------------- */

enum {
    NVTX_VERSION = 3,
    /* What a tool asks of the core. */
    TABLE_CALLBACKS = 1,
    TABLE_VERSION = 3,
    /* Modules of the core, and how many functions each table has; 0 is none. */
    MODULE_CUDA = 2,
    MODULES = 7,
    SLOTS_MAX = 20,
    CUDA_NAME_STREAM = 5,
    /* The extension for memory. */
    MEMORY_MODULE = 1,
    MEMORY_VERSION = 0x0102,
    MEMORY_SLOTS = 63,
    HEAP_REGISTER = 0,
    HEAP_UNREGISTER = 1,
    REGIONS_REGISTER = 3,
    REGIONS_RESIZE = 4,
    REGIONS_UNREGISTER = 5,
    REGIONS_NAME = 6,
    SUB_ALLOCATOR = 1,
    VIRTUAL_ADDRESS = 1,
    BY_POINTER = 1,
    ASCII = 1,
    NAME_BYTES = 50,
};

typedef void (*slot)(void);

typedef struct memory_segment {
    size_t id, slots_count;
    intptr_t *slots;
} memory_segment;

typedef struct memory_module {
    uint16_t nvtx_version, bytes, module, version;
    size_t segments_count;
    memory_segment *segments;
    intptr_t (*get_export)(uint32_t id);
    const void *info;
} memory_module;

typedef struct core_callbacks {
    size_t bytes;
    int (*get_table)(int module, slot ***table, unsigned *count);
} core_callbacks;

typedef struct core_version {
    size_t bytes;
    uint32_t version, reserved;
    void (*set_tool_version)(uint32_t version);
} core_version;

typedef struct range {
    size_t bytes;
    const void *base;
} range;

typedef struct heap_text {
    uint16_t version, bytes;
    uint32_t reserved, usage, type;
    size_t range_bytes;
    const range *range;
    uint32_t category, message_type;
    const char *message;
} heap_text;

typedef struct regions_text {
    uint16_t version, bytes;
    uint32_t type;
    void *heap;
    size_t count, element_bytes;
    const range *elements;
    void **handles;
} regions_text;

typedef struct resize_text {
    uint16_t version, bytes;
    uint32_t type;
    size_t count, element_bytes;
    const range *elements;
} resize_text;

typedef struct gone_text {
    uint16_t version, bytes;
    uint32_t type;
    size_t count, element_bytes;
    const void *const *elements;
} gone_text;

typedef struct name_text {
    uint32_t region_type, name_type;
    const void *region;
    const char *name;
    uint32_t category, reserved;
} name_text;

typedef struct names_text {
    uint16_t version, bytes;
    uint32_t reserved;
    size_t count, element_bytes;
    const name_text *elements;
    size_t reserved_more;
} names_text;

/* ---- the tool ------------------------------------------------------------------------------- */

/* The tables: a tool fills in what it wants to be told, once, before the gate says so. */
static slot core_functions[MODULES][SLOTS_MAX];
static slot *core_slots[MODULES][SLOTS_MAX];
static intptr_t memory_slots[MEMORY_SLOTS];
static _Atomic int names_wanted;

static int table_get(int module, slot ***table, unsigned *count)
{
    if (module <= 0 || module >= MODULES)
        return 0;
    for (int i = 0; i < SLOTS_MAX; i++)
        core_slots[module][i] = &core_functions[module][i];
    core_slots[module][0] = NULL; /* number 0 is no function */
    if (table != NULL)
        *table = core_slots[module];
    if (count != NULL)
        *count = SLOTS_MAX;
    return 1;
}

static void tool_version_set(uint32_t version)
{
    (void)version;
}

static const void *export_get(uint32_t id)
{
    static const core_callbacks callbacks = {sizeof(callbacks), table_get};
    static const core_version version = {sizeof(version), NVTX_VERSION, 0, tool_version_set};
    return id == TABLE_CALLBACKS ? (const void *)&callbacks
           : id == TABLE_VERSION ? (const void *)&version
                                 : NULL;
}

/* The function of a tool for one thing of memory's; null: it does not want to know. 0 and 1 stand
 * for none in the table. */
static intptr_t memory_function(int number)
{
    intptr_t function = memory_slots[number];
    return function == 0 || function == 1 ? 0 : function;
}

void tnri_nvtx_start(void)
{
    static int is_asked; /* the library lock; a tool is loaded once in a process */
    const char *path = tnri_environment_nvtx();
    if (!is_asked && path != NULL && path[0] != '\0') {
        void *tool = tnri_loader_open(path, TNRI_LOADER_LATE);
        int (*core)(const void *(*)(uint32_t)) = NULL;
        int (*extension)(memory_module *) = NULL;
        memory_segment segment = {1, MEMORY_SLOTS, memory_slots};
        memory_module module = {NVTX_VERSION, sizeof(module), MEMORY_MODULE, MEMORY_VERSION, 1,
                                &segment,     NULL,           NULL};
        if (tool != NULL) {
            (void)tnri_loader_function(tool, "InitializeInjectionNvtx2", &core);
            (void)tnri_loader_function(tool, "InitializeInjectionNvtxExtension", &extension);
        }
        if (core != NULL)
            names_wanted = core(export_get) != 0;
        if (extension == NULL || extension(&module) == 0)
            memory_slots[REGIONS_REGISTER] = memory_slots[REGIONS_UNREGISTER] = 0;
    }
    is_asked = 1;
    /* Profilers take names alone, and blocks then cost nothing. */
    if (memory_function(REGIONS_REGISTER) != 0 && memory_function(REGIONS_UNREGISTER) != 0)
        tnri_gate_set(0, TNRI_GATE_NVTX);
}

void tnri_nvtx_end(void)
{
    tnri_gate_set(TNRI_GATE_NVTX, 0);
}

/* ---- telling -------------------------------------------------------------------------------- */

void tnri_nvtx_heap(uintptr_t base, size_t bytes)
{
    intptr_t function = tnri_nvtx_listens() ? memory_function(HEAP_REGISTER) : 0;
    range all = {bytes, (const void *)base};
    heap_text text = {.version = MEMORY_VERSION,
                      .bytes = sizeof(text),
                      .usage = SUB_ALLOCATOR,
                      .type = VIRTUAL_ADDRESS,
                      .range_bytes = sizeof(all),
                      .range = &all,
                      .message_type = ASCII,
                      .message = "Tenure"};
    /* It would refuse what is in the heap, too, and count each word as an error. */
    if (function != 0 && ((void *(*)(void *, const heap_text *))function)(NULL, &text) == NULL)
        tnri_gate_set(TNRI_GATE_NVTX, 0);
}

void tnri_nvtx_heap_end(uintptr_t base)
{
    intptr_t function = tnri_nvtx_listens() ? memory_function(HEAP_UNREGISTER) : 0;
    if (function != 0)
        ((void (*)(void *, void *))function)(NULL, (void *)base);
}

/* compute-sanitizer takes 1 to 49 characters that can be printed. */
static const char *name_make(char *name, const char *pool)
{
    size_t length = 0;
    for (; pool[length] != '\0' && length < NAME_BYTES - 1; length++)
        name[length] = pool[length] >= ' ' && pool[length] <= '~' ? pool[length] : '?';
    name[length] = '\0';
    return length > 0 ? name : "?";
}

void tnri_nvtx_block(uintptr_t heap, const char *pool, uintptr_t base, size_t bytes)
{
    intptr_t function = memory_function(REGIONS_REGISTER);
    range one = {bytes, (const void *)base};
    regions_text text = {.version = MEMORY_VERSION,
                         .bytes = sizeof(text),
                         .type = VIRTUAL_ADDRESS,
                         .heap = (void *)heap,
                         .count = 1,
                         .element_bytes = sizeof(one),
                         .elements = &one};
    if (function != 0)
        ((void (*)(void *, const regions_text *))function)(NULL, &text);
    function = memory_function(REGIONS_NAME);
    char name[NAME_BYTES];
    name_text named = {BY_POINTER, ASCII, (const void *)base, name_make(name, pool), 0, 0};
    names_text names = {.version = MEMORY_VERSION,
                        .bytes = sizeof(names),
                        .count = 1,
                        .element_bytes = sizeof(named),
                        .elements = &named};
    if (function != 0)
        ((void (*)(void *, const names_text *))function)(NULL, &names);
}

void tnri_nvtx_block_grown(uintptr_t base, size_t bytes)
{
    intptr_t function = memory_function(REGIONS_RESIZE);
    range one = {bytes, (const void *)base};
    resize_text text = {.version = MEMORY_VERSION,
                        .bytes = sizeof(text),
                        .type = VIRTUAL_ADDRESS,
                        .count = 1,
                        .element_bytes = sizeof(one),
                        .elements = &one};
    if (function != 0)
        ((void (*)(void *, const resize_text *))function)(NULL, &text);
}

void tnri_nvtx_block_gone(uintptr_t base)
{
    intptr_t function = memory_function(REGIONS_UNREGISTER);
    const void *one = (const void *)base;
    gone_text text = {.version = MEMORY_VERSION,
                      .bytes = sizeof(text),
                      .type = BY_POINTER,
                      .count = 1,
                      .element_bytes = sizeof(one),
                      .elements = &one};
    if (function != 0)
        ((void (*)(void *, const gone_text *))function)(NULL, &text);
}

void tnri_nvtx_stream(const void *stream, const char *name)
{
    slot function =
        atomic_load(&names_wanted) ? core_functions[MODULE_CUDA][CUDA_NAME_STREAM] : NULL;
    if (function != NULL)
        ((void (*)(const void *, const char *))function)(stream, name);
}
