/* SPDX-License-Identifier: Apache-2.0 */
/* Exporting and importing blocks: see ipc.h. */
#include "ipc.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "service.h"

static const uint64_t NAME_MAGIC = UINT64_C(0x3163706965727574);
_Static_assert(sizeof(ipc_name) <= sizeof(CUipcMemHandle), "a name fits into a handle");

/* A block that others may open. */
typedef struct export
{
    struct export *next;
    CUdeviceptr base;
    uint64_t serial;
    ipc_block block; /* its handles have references of their own */
}
export;

/* A block that was opened. */
typedef struct import {
    struct import *next;
    ipc_name name;
    CUdeviceptr address; /* of the block */
    size_t bytes;        /* of the block */
    CUdeviceptr mapped;  /* where the mapping begins */
    size_t mapped_bytes;
    unsigned opened; /* how often it is to be closed */
    int device;      /* that it was opened for */
} import;

/* All under the mutex. The numbers of exports and imports may be read without. */
static struct {
    pthread_mutex_t mutex;
    export *exports;
    import *imports;
    uint64_t token, process; /* of the server; 0: there is none */
    uint64_t serial_last;
    _Atomic uint64_t exports_count, imports_count;
} ipc = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void ipc_block_release(ipc_block *block)
{
    for (size_t i = 0; i < block->pieces_count; i++)
        (void)REAL(cuMemRelease, (block->pieces[i].handle));
    free(block->pieces);
    block->pieces = NULL;
    block->pieces_count = 0;
}

/* ---- exporting ------------------------------------------------------------------------------ */

/* Adds the mapping at an address: its bytes, and a reference to its handle. */
static CUresult piece_add(ipc_block *block, size_t room, CUdeviceptr address, CUdeviceptr *base)
{
    size_t bytes = 0;
    CUmemGenericAllocationHandle handle;
    if (block->pieces_count == room)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = REAL(cuMemGetAddressRange_v2, (base, &bytes, address));
    if (result == CUDA_SUCCESS)
        result = REAL(cuMemRetainAllocationHandle, (&handle, (void *)(uintptr_t)address));
    if (result == CUDA_SUCCESS)
        block->pieces[block->pieces_count++] = (ipc_piece){bytes, handle};
    return result;
}

/* The memory under a block: mapping after mapping. */
static CUresult block_describe(const tnr_block_info *info, ipc_block *block)
{
    enum { SMALLEST_PIECE = 1 << 21 };
    CUdeviceptr base = (CUdeviceptr)(uintptr_t)info->base, end = base + info->bytes;
    size_t room = info->bytes / SMALLEST_PIECE + 2;
    CUdeviceptr at = base, piece = 0, first = 0;
    *block = (ipc_block){.bytes = info->bytes_requested, .pieces = calloc(room, sizeof(ipc_piece))};
    CUresult result = block->pieces == NULL
                          ? CUDA_ERROR_OUT_OF_MEMORY
                          : REAL(cuDeviceGetUuid, (&block->device, (CUdevice)info->device));
    while (result == CUDA_SUCCESS && at < end) {
        result = piece_add(block, room, at, &piece);
        if (result != CUDA_SUCCESS)
            break;
        if (first == 0)
            first = piece;
        at = piece + block->pieces[block->pieces_count - 1].bytes;
    }
    block->offset = (size_t)(base - first);
    if (result != CUDA_SUCCESS)
        ipc_block_release(block);
    return result;
}

/* Starts to answer, if it is the first time in this process. Under the mutex. */
static int server_start(void)
{
    uint64_t token = 0;
    if (ipc.process == (uint64_t)getpid())
        return 0;
    if (getrandom(&token, sizeof(token), 0) != (ssize_t)sizeof(token) || ipc_serve(token) != 0)
        return -1;
    ipc.token = token;
    ipc.process = (uint64_t)getpid();
    return 0;
}

static export *export_find(CUdeviceptr base)
{
    export *one = ipc.exports;
    while (one != NULL && one->base != base)
        one = one->next;
    return one;
}

/* The export of a block, made if it is the first time. Under the mutex. */
static CUresult export_make(const tnr_block_info *info, uint64_t *serial)
{
    export *one = export_find((CUdeviceptr)(uintptr_t)info->base);
    CUresult result = CUDA_SUCCESS;
    if (one == NULL) {
        one = calloc(1, sizeof(*one));
        result = one == NULL ? CUDA_ERROR_OUT_OF_MEMORY : block_describe(info, &one->block);
        if (result != CUDA_SUCCESS) {
            free(one);
            return result;
        }
        one->base = (CUdeviceptr)(uintptr_t)info->base;
        one->serial = ++ipc.serial_last;
        one->next = ipc.exports;
        ipc.exports = one;
        atomic_fetch_add(&ipc.exports_count, 1);
    }
    *serial = one->serial;
    return result;
}

CUresult CUDAAPI replace_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    tnr_block_info info;
    uint64_t serial = 0;
    if (handle == NULL || service_of_address(address) == NULL || !service_enter())
        return REAL(cuIpcGetMemHandle, (handle, address));
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (tnr_block_get(&info, (const void *)(uintptr_t)address) == TNR_OK) {
        pthread_mutex_lock(&ipc.mutex);
        result = server_start() != 0 ? CUDA_ERROR_OPERATING_SYSTEM : export_make(&info, &serial);
        ipc_name name = {NAME_MAGIC, ipc.process, ipc.token, serial};
        pthread_mutex_unlock(&ipc.mutex);
        if (result == CUDA_SUCCESS) {
            memset(handle, 0, sizeof(*handle));
            memcpy(handle, &name, sizeof(name));
            service_count_one(COUNT_EXPORTS);
        }
    }
    service_leave();
    return result;
}

/* Unhooks an export; it is released outside of the mutex. */
static export *export_take(CUdeviceptr base)
{
    pthread_mutex_lock(&ipc.mutex);
    export **link = &ipc.exports;
    while (*link != NULL && (*link)->base != base)
        link = &(*link)->next;
    export *gone = *link;
    if (gone != NULL) {
        *link = gone->next;
        atomic_fetch_sub(&ipc.exports_count, 1);
    }
    pthread_mutex_unlock(&ipc.mutex);
    return gone;
}

void ipc_block_ends(CUdeviceptr base)
{
    if (atomic_load_explicit(&ipc.exports_count, memory_order_relaxed) == 0)
        return;
    export *gone = export_take(base);
    if (gone != NULL)
        ipc_block_release(&gone->block);
    free(gone);
}

int ipc_exported(uint64_t serial, ipc_block *copy)
{
    int is_there = 0;
    pthread_mutex_lock(&ipc.mutex);
    const export *one = ipc.exports;
    while (one != NULL && one->serial != serial)
        one = one->next;
    if (one != NULL) {
        *copy = one->block;
        copy->pieces_count = 0;
        copy->pieces = calloc(one->block.pieces_count, sizeof(ipc_piece));
        CUdeviceptr at = one->base - one->block.offset;
        is_there = copy->pieces != NULL;
        for (size_t i = 0; is_there && i < one->block.pieces_count; i++) {
            ipc_piece piece = one->block.pieces[i];
            is_there = REAL(cuMemRetainAllocationHandle, (&piece.handle, (void *)(uintptr_t)at)) ==
                       CUDA_SUCCESS;
            if (is_there)
                copy->pieces[copy->pieces_count++] = piece;
            at += piece.bytes;
        }
        if (!is_there && copy->pieces != NULL)
            ipc_block_release(copy);
    }
    pthread_mutex_unlock(&ipc.mutex);
    return is_there;
}

/* ---- importing ------------------------------------------------------------------------------ */

/* The device of this process that has the memory; -1 if it does not see it. */
static int device_with(const CUuuid *wanted)
{
    int count = 0;
    CUuuid one;
    (void)REAL(cuDeviceGetCount, (&count));
    for (int i = 0; i < count; i++)
        if (REAL(cuDeviceGetUuid, (&one, (CUdevice)i)) == CUDA_SUCCESS &&
            memcmp(&one, wanted, sizeof(one)) == 0)
            return i;
    return -1;
}

/* Maps the pieces one after the other, for the device of the calling thread's context. */
static CUresult pieces_map(const ipc_block *block, import *to)
{
    CUdevice here;
    size_t done = 0, total = 0;
    CUmemAccessDesc access = {.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    for (size_t i = 0; i < block->pieces_count; i++)
        total += block->pieces[i].bytes;
    CUresult result = REAL(cuCtxGetDevice, (&here));
    if (result == CUDA_SUCCESS)
        result = REAL(cuMemAddressReserve, (&to->mapped, total, 0, 0, 0));
    if (result != CUDA_SUCCESS)
        return result;
    for (size_t i = 0; result == CUDA_SUCCESS && i < block->pieces_count; i++) {
        const ipc_piece *piece = &block->pieces[i];
        result = REAL(cuMemMap, (to->mapped + done, piece->bytes, 0, piece->handle, 0));
        done += result == CUDA_SUCCESS ? piece->bytes : 0;
    }
    access.location.id = here;
    if (result == CUDA_SUCCESS)
        result = REAL(cuMemSetAccess, (to->mapped, total, &access, 1));
    if (result != CUDA_SUCCESS) {
        if (done > 0)
            (void)REAL(cuMemUnmap, (to->mapped, done));
        (void)REAL(cuMemAddressFree, (to->mapped, total));
        return result;
    }
    to->device = here;
    to->mapped_bytes = total;
    to->address = to->mapped + block->offset;
    to->bytes = block->bytes;
    return CUDA_SUCCESS;
}

static void import_unmap(import *gone)
{
    (void)REAL(cuMemUnmap, (gone->mapped, gone->mapped_bytes));
    (void)REAL(cuMemAddressFree, (gone->mapped, gone->mapped_bytes));
    free(gone);
}

/* Asks the other process, and maps what it gives. Without the mutex: that process may be asking
 * this one at the same time. */
static CUresult import_make(const ipc_name *name, import **made)
{
    ipc_block block = {.pieces = NULL};
    import *fresh = calloc(1, sizeof(*fresh));
    CUresult result = fresh == NULL ? CUDA_ERROR_OUT_OF_MEMORY : ipc_ask(name, &block);
    if (result == CUDA_SUCCESS) {
        result =
            device_with(&block.device) < 0 ? CUDA_ERROR_INVALID_DEVICE : pieces_map(&block, fresh);
        ipc_block_release(&block); /* the mappings keep the memory */
    }
    if (result != CUDA_SUCCESS) {
        free(fresh);
        return result;
    }
    fresh->name = *name;
    *made = fresh;
    return CUDA_SUCCESS;
}

/* Opens the import of that name once more, or enters `fresh` for it; which may be null. */
static import *import_enter(const ipc_name *name, import *fresh)
{
    pthread_mutex_lock(&ipc.mutex);
    import *one = ipc.imports;
    while (one != NULL && memcmp(&one->name, name, sizeof(*name)) != 0)
        one = one->next;
    if (one == NULL && fresh != NULL) {
        one = fresh;
        one->next = ipc.imports;
        ipc.imports = one;
        atomic_fetch_add(&ipc.imports_count, 1);
    }
    if (one != NULL)
        one->opened++;
    pthread_mutex_unlock(&ipc.mutex);
    return one;
}

static CUresult import_find(const ipc_name *name, CUdeviceptr *address)
{
    import *fresh = NULL;
    import *one = import_enter(name, NULL);
    if (one == NULL) {
        CUresult result = import_make(name, &fresh);
        if (result != CUDA_SUCCESS)
            return result;
        one = import_enter(name, fresh);
    }
    *address = one->address;
    if (fresh != NULL && fresh != one) /* another thread was quicker */
        import_unmap(fresh);
    service_count_one(COUNT_IMPORTS);
    return CUDA_SUCCESS;
}

/* 1 if the handle is one of ours, with what came of opening it. */
static int import_open(CUdeviceptr *address, const CUipcMemHandle *handle, CUresult *result)
{
    ipc_name name;
    CUcontext context = NULL;
    memcpy(&name, handle, sizeof(name));
    if (name.magic != NAME_MAGIC || !service_enter())
        return 0;
    *result = REAL(cuCtxGetCurrent, (&context));
    if (*result == CUDA_SUCCESS && (context == NULL || name.process == (uint64_t)getpid()))
        *result = CUDA_ERROR_INVALID_CONTEXT; /* one's own memory is not opened: as the driver */
    if (*result == CUDA_SUCCESS && address == NULL)
        *result = CUDA_ERROR_INVALID_VALUE;
    if (*result == CUDA_SUCCESS)
        *result = import_find(&name, address);
    service_leave();
    return 1;
}

CUresult CUDAAPI replace_cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle,
                                               unsigned flags)
{
    CUresult result;
    if (import_open(address, &handle, &result))
        return result;
    return REAL(cuIpcOpenMemHandle_v2, (address, handle, flags));
}

CUresult CUDAAPI replace_cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle,
                                            unsigned flags)
{
    CUresult result;
    if (import_open(address, &handle, &result))
        return result;
    return REAL(cuIpcOpenMemHandle, (address, handle, flags));
}

/* ---- closing -------------------------------------------------------------------------------- */

/* 1 if the address is of an import, which is then closed once; `gone`: for the last time. */
static int import_close(CUdeviceptr address, import **gone)
{
    *gone = NULL;
    pthread_mutex_lock(&ipc.mutex);
    import **link = &ipc.imports;
    while (*link != NULL && (*link)->address != address)
        link = &(*link)->next;
    import *one = *link;
    if (one != NULL && --one->opened == 0) {
        *link = one->next;
        atomic_fetch_sub(&ipc.imports_count, 1);
        *gone = one;
    }
    pthread_mutex_unlock(&ipc.mutex);
    return one != NULL;
}

CUresult CUDAAPI replace_cuIpcCloseMemHandle(CUdeviceptr address)
{
    import *gone;
    if (atomic_load_explicit(&ipc.imports_count, memory_order_relaxed) == 0 || !service_enter())
        return REAL(cuIpcCloseMemHandle, (address));
    int is_ours = import_close(address, &gone);
    if (gone != NULL) {
        /* Work that uses it may be under way; the driver's own call waits, too. */
        (void)REAL(cuCtxSynchronize, ());
        import_unmap(gone);
    }
    service_leave();
    return is_ours ? CUDA_SUCCESS : REAL(cuIpcCloseMemHandle, (address));
}

int ipc_imported(CUdeviceptr address, CUdeviceptr *base, size_t *bytes)
{
    if (atomic_load_explicit(&ipc.imports_count, memory_order_relaxed) == 0)
        return 0;
    pthread_mutex_lock(&ipc.mutex);
    const import *one = ipc.imports;
    while (one != NULL && address - one->address >= one->bytes)
        one = one->next;
    if (one != NULL) {
        *base = one->address;
        *bytes = one->bytes;
    }
    pthread_mutex_unlock(&ipc.mutex);
    return one != NULL;
}

/* Takes what is of a device out of the lists. Under the mutex. */
static void device_take(int device, export **exports, import **imports)
{
    for (export **link = &ipc.exports; *link != NULL;) {
        export *one = *link;
        const service_device *owner = service_of_address(one->base);
        if (owner != NULL && owner->index != device) {
            link = &one->next;
            continue;
        }
        *link = one->next;
        one->next = *exports;
        *exports = one;
        atomic_fetch_sub(&ipc.exports_count, 1);
    }
    for (import **link = &ipc.imports; *link != NULL;) {
        import *one = *link;
        if (one->device != device) {
            link = &one->next;
            continue;
        }
        *link = one->next;
        one->next = *imports;
        *imports = one;
        atomic_fetch_sub(&ipc.imports_count, 1);
    }
}

void ipc_forget(int device)
{
    export *exports = NULL;
    import *imports = NULL;
    pthread_mutex_lock(&ipc.mutex);
    device_take(device, &exports, &imports);
    pthread_mutex_unlock(&ipc.mutex);
    while (exports != NULL) {
        export *gone = exports;
        exports = gone->next;
        ipc_block_release(&gone->block);
        free(gone);
    }
    while (imports != NULL) {
        import *gone = imports;
        imports = gone->next;
        import_unmap(gone);
    }
}
