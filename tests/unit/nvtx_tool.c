/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tool that listens to NVTX, with NVTX's own headers: a line for each thing that it is told, into
 * what nvtx_tool_text returns. NVTX_TOOL=names: it wants names of streams alone; =none: nothing;
 * =allocations: memory, and heaps only where an allocation can be, as compute-sanitizer.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nvtx3/nvToolsExtMem.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT const char *nvtx_tool_text(void);
EXPORT void nvtx_tool_clear(void);
EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get);
EXPORT int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *module);

static char text[1 << 16];
static size_t used;

static __attribute__((format(printf, 1, 2))) void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text + used, sizeof(text) - used, format, arguments);
    va_end(arguments);
    if (length > 0 && used + (size_t)length < sizeof(text))
        used += (size_t)length;
}

const char *nvtx_tool_text(void)
{
    return text;
}

void nvtx_tool_clear(void)
{
    used = 0;
    text[0] = '\0';
}

static void check(uint16_t version, size_t bytes, size_t expected)
{
    if (version != NVTX_EXT_COMPATID_MEM || bytes != expected)
        say("wrong version %x or size %zu\n", version, bytes);
}

static int is_wanted_alone(const char *what)
{
    const char *wanted = getenv("NVTX_TOOL");
    return wanted != NULL && strcmp(wanted, what) == 0;
}

static nvtxMemHeapHandle_t heap_register(nvtxDomainHandle_t domain, const nvtxMemHeapDesc_t *heap)
{
    const nvtxMemVirtualRangeDesc_t *range = heap->typeSpecificDesc;
    (void)domain;
    check(heap->extCompatID, heap->structSize, sizeof(*heap));
    check(NVTX_EXT_COMPATID_MEM, heap->typeSpecificDescSize, sizeof(*range));
    say("heap %u %u %s %p %zu\n", heap->usage, heap->type, heap->message.ascii, range->ptr,
        range->size);
    if (is_wanted_alone("allocations") && range->size >= ((size_t)1 << 33))
        return NULL; /* what no allocation is: as compute-sanitizer does */
    return (nvtxMemHeapHandle_t)(uintptr_t)range->ptr;
}

static void heap_unregister(nvtxDomainHandle_t domain, nvtxMemHeapHandle_t heap)
{
    (void)domain;
    say("no heap %p\n", (void *)heap);
}

static void regions_register(nvtxDomainHandle_t domain, const nvtxMemRegionsRegisterBatch_t *batch)
{
    const nvtxMemVirtualRangeDesc_t *range = batch->regionDescElements;
    (void)domain;
    check(batch->extCompatID, batch->structSize, sizeof(*batch));
    check(NVTX_EXT_COMPATID_MEM, batch->regionDescElementSize, sizeof(*range));
    for (size_t i = 0; i < batch->regionCount; i++)
        say("region %p %zu in %p\n", range[i].ptr, range[i].size, (void *)batch->heap);
}

static void regions_resize(nvtxDomainHandle_t domain, const nvtxMemRegionsResizeBatch_t *batch)
{
    const nvtxMemVirtualRangeDesc_t *range = batch->regionDescElements;
    (void)domain;
    check(batch->extCompatID, batch->structSize, sizeof(*batch));
    for (size_t i = 0; i < batch->regionDescCount; i++)
        say("resized %p %zu\n", range[i].ptr, range[i].size);
}

static void regions_unregister(nvtxDomainHandle_t domain,
                               const nvtxMemRegionsUnregisterBatch_t *batch)
{
    (void)domain;
    check(batch->extCompatID, batch->structSize, sizeof(*batch));
    check(NVTX_EXT_COMPATID_MEM, batch->refElementSize, sizeof(batch->refElements[0]));
    for (size_t i = 0; i < batch->refCount && batch->refType == NVTX_MEM_REGION_REF_TYPE_POINTER;
         i++)
        say("no region %p\n", batch->refElements[i].pointer);
}

static void regions_name(nvtxDomainHandle_t domain, const nvtxMemRegionsNameBatch_t *batch)
{
    (void)domain;
    check(batch->extCompatID, batch->structSize, sizeof(*batch));
    check(NVTX_EXT_COMPATID_MEM, batch->regionElementSize, sizeof(batch->regionElements[0]));
    for (size_t i = 0; i < batch->regionCount; i++)
        if (batch->regionElements[i].regionRefType == NVTX_MEM_REGION_REF_TYPE_POINTER &&
            batch->regionElements[i].nameType == NVTX_MESSAGE_TYPE_ASCII)
            say("name %p %s\n", batch->regionElements[i].region.pointer,
                batch->regionElements[i].name.ascii);
}

static void stream_name(nvtx_CUstream stream, const char *name)
{
    say("stream %s%s\n", name, stream == NULL ? " of nothing" : "");
}

static int is_wanted(const char *what)
{
    const char *wanted = getenv("NVTX_TOOL");
    return wanted == NULL || strcmp(wanted, what) == 0 ||
           (strcmp(wanted, "allocations") == 0 && strcmp(what, "memory") == 0);
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get)
{
    const NvtxExportTableCallbacks *callbacks = get(NVTX_ETID_CALLBACKS);
    const NvtxExportTableVersionInfo *version = get(NVTX_ETID_VERSIONINFO);
    NvtxFunctionTable table;
    unsigned count = 0;
    if (!is_wanted("names") || callbacks == NULL || version == NULL || version->version != 3 ||
        callbacks->struct_size < sizeof(*callbacks) ||
        !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CUDA, &table, &count) ||
        count <= NVTX_CBID_CUDA_NameCuStreamA)
        return 0;
    *table[NVTX_CBID_CUDA_NameCuStreamA] = (NvtxFunctionPointer)stream_name;
    return callbacks->GetModuleFunctionTable((NvtxCallbackModule)99, &table, &count) == 0;
}

int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *module)
{
    if (!is_wanted("memory") || module->nvtxVer != NVTX_VERSION ||
        module->structSize != sizeof(*module) || module->moduleId != NVTX_EXT_MODULEID_MEM ||
        module->compatId != NVTX_EXT_COMPATID_MEM || module->segmentsCount != 1 ||
        module->segments[0].slotCount <= NVTX3EXT_CBID_nvtxMemRegionsName)
        return 0;
    intptr_t *slots = module->segments[0].functionSlots;
    slots[NVTX3EXT_CBID_nvtxMemHeapRegister] = (intptr_t)heap_register;
    slots[NVTX3EXT_CBID_nvtxMemHeapUnregister] = (intptr_t)heap_unregister;
    slots[NVTX3EXT_CBID_nvtxMemRegionsRegister] = (intptr_t)regions_register;
    slots[NVTX3EXT_CBID_nvtxMemRegionsResize] = (intptr_t)regions_resize;
    slots[NVTX3EXT_CBID_nvtxMemRegionsUnregister] = (intptr_t)regions_unregister;
    slots[NVTX3EXT_CBID_nvtxMemRegionsName] = (intptr_t)regions_name;
    return 1;
}
