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
    tnr_export number;
    int device;
}
export;

/* A block that was opened. */
typedef struct import {
    struct import *next;
    ipc_name name;
    CUdeviceptr address;
    size_t bytes;
    unsigned opened; /* how often it is to be closed */
    int device;      /* that it was opened for */
} import;

/* All under the mutex. The numbers of exports and imports may be read without. */
static struct {
    pthread_mutex_t mutex;
    export *exports;
    import *imports;
    uint64_t token, process; /* of the server; 0: there is none */
    _Atomic uint64_t exports_count, imports_count;
} ipc = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- exporting ------------------------------------------------------------------------------ */

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
static CUresult export_make(const tnr_block_info *info, tnr_export *number)
{
    export *one = export_find((CUdeviceptr)(uintptr_t)info->base);
    if (one == NULL) {
        one = calloc(1, sizeof(*one));
        if (one == NULL)
            return CUDA_ERROR_OUT_OF_MEMORY;
        CUresult result = service_result(tnr_export_create(&one->number, info->base));
        if (result != CUDA_SUCCESS) {
            free(one);
            return result;
        }
        one->base = (CUdeviceptr)(uintptr_t)info->base;
        one->device = info->device;
        one->next = ipc.exports;
        ipc.exports = one;
        atomic_fetch_add(&ipc.exports_count, 1);
    }
    *number = one->number;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI replace_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    tnr_block_info info;
    ipc_name name = {.magic = NAME_MAGIC};
    if (handle == NULL || service_of_address(address) == NULL || !service_enter())
        return REAL(cuIpcGetMemHandle, (handle, address));
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (tnr_block_get(&info, (const void *)(uintptr_t)address) == TNR_OK) {
        pthread_mutex_lock(&ipc.mutex);
        result =
            server_start() != 0 ? CUDA_ERROR_OPERATING_SYSTEM : export_make(&info, &name.exported);
        name.process = ipc.process;
        name.token = ipc.token;
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

/* Unhooks an export; it is closed outside of the mutex. */
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
        (void)service_result(tnr_export_close(gone->number));
    free(gone);
}

/* ---- importing ------------------------------------------------------------------------------ */

static void import_end(import *gone)
{
    (void)service_result(tnr_import_close((void *)(uintptr_t)gone->address));
    free(gone);
}

/* Asks for the block and imports it, for the device of the calling thread's context. */
static CUresult import_make(const ipc_name *name, import **made)
{
    CUdevice here;
    tnr_import_info info = {.struct_bytes = sizeof(info)};
    import *fresh = calloc(1, sizeof(*fresh));
    CUresult result = fresh == NULL ? CUDA_ERROR_OUT_OF_MEMORY : REAL(cuCtxGetDevice, (&here));
    if (result == CUDA_SUCCESS)
        result = ipc_ask(name, (int)here, &info);
    if (result != CUDA_SUCCESS) {
        free(fresh);
        return result;
    }
    fresh->name = *name;
    fresh->address = (CUdeviceptr)(uintptr_t)info.ptr;
    fresh->bytes = info.bytes;
    fresh->device = info.device;
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
        import_end(fresh);
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
    if (*result == CUDA_SUCCESS) {
        (void)service_here(); /* the device is served from now on, if it can be */
        *result = import_find(&name, address);
    }
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
static int import_leave(CUdeviceptr address, import **gone)
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

/* Closes it, which waits for work that may use it, as the driver's own call does. */
static CUresult import_close(import *gone)
{
    CUresult result = service_result(tnr_import_close((void *)(uintptr_t)gone->address));
    if (result == CUDA_SUCCESS)
        free(gone);
    else
        (void)import_enter(&gone->name, gone);
    return result;
}

CUresult CUDAAPI replace_cuIpcCloseMemHandle(CUdeviceptr address)
{
    import *gone;
    if (atomic_load_explicit(&ipc.imports_count, memory_order_relaxed) == 0 || !service_enter())
        return REAL(cuIpcCloseMemHandle, (address));
    int is_ours = import_leave(address, &gone);
    CUresult result = gone == NULL ? CUDA_SUCCESS : import_close(gone);
    service_leave();
    return is_ours ? result : REAL(cuIpcCloseMemHandle, (address));
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
        if (one->device != device) {
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
        (void)service_result(tnr_export_close(gone->number));
        free(gone);
    }
    while (imports != NULL) {
        import *gone = imports;
        imports = gone->next;
        import_end(gone);
    }
}
