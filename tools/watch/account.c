/* SPDX-License-Identifier: Apache-2.0 */
/* The account of the whole process: see account.h. */
#include "watch/account.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#include "between.h"
#include "handles.h"
#include "service.h"
#include "watch/nvml.h"

_Atomic int account_state = -1;

static handles asked = HANDLES_INIT; /* handle -> bits of what was done with it */

/* What a device's free memory is read from. All readings of one device are from the same. */
typedef enum account_source { SOURCE_UNKNOWN, SOURCE_NVML, SOURCE_DRIVER } account_source;

/* What a library had made, of a kind. */
typedef struct account_row {
    int device;
    account_kind kind;
    char library[40]; /* empty: it does not matter, or is not known */
    uint64_t bytes;
} account_row;

/* Under the mutex, all of it. */
typedef struct account_device {
    account_source source;
    int is_seen;   /* a call has been measured there */
    int has_start; /* the first was that of a context: start_free is from before it */
    uint64_t start_free;
    int under_way;                   /* calls that are being measured */
    uint64_t cut_free, cut_reserved; /* where the latest piece ended; if some are */
} account_device;

enum { ROWS_MAX = 256, DEEP = 32 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static account_device devices[SERVICE_DEVICES_MAX];
static account_row rows[ROWS_MAX];
static size_t rows_count;

int account_begin_state(void)
{
    const char *wanted = getenv("TENURE_PRELOAD_ACCOUNT");
    atomic_store(&account_state, wanted != NULL && strcmp(wanted, "1") == 0);
    return atomic_load(&account_state);
}

int account_is_first(const void *handle, unsigned what)
{
    uint64_t done = 0;
    uint64_t bit = UINT64_C(1) << what;
    if (handles_get(&asked, handle, &done) && (done & bit) != 0)
        return 0;
    handles_set(&asked, handle, done | bit);
    return 1;
}

void account_handle_ends(const void *handle)
{
    if (handle == NULL)
        handles_clear(&asked, 0);
    else
        (void)handles_take(&asked, handle, NULL);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* What the driver says: in the current context if that is one of the device's, else in its primary
 * one. */
static int driver_read(uint64_t *free_bytes, uint64_t *total_bytes, int index)
{
    CUdevice here = -1;
    CUcontext context = NULL, popped;
    unsigned flags;
    int is_active = 0;
    size_t left = 0, all = 0;
    if (REAL(cuCtxGetDevice, (&here)) != CUDA_SUCCESS || here != index) {
        if (REAL(cuDevicePrimaryCtxGetState, (index, &flags, &is_active)) != CUDA_SUCCESS ||
            !is_active || service_primary_context(index, &context) != CUDA_SUCCESS ||
            REAL(cuCtxPushCurrent_v2, (context)) != CUDA_SUCCESS)
            return 0;
    }
    CUstreamCaptureMode before = service_relaxed();
    CUresult result = REAL(cuMemGetInfo_v2, (&left, &all));
    service_relaxed_end(before);
    if (context != NULL)
        (void)REAL(cuCtxPopCurrent_v2, (&popped));
    *free_bytes = left;
    *total_bytes = all;
    return result == CUDA_SUCCESS;
}

/* Free memory of a device, and all of it, from where the device's readings come from. */
static int memory_read(uint64_t *free_bytes, uint64_t *total_bytes, account_device *device,
                       int index)
{
    account_source source = SOURCE_NVML;
    if (device->source == SOURCE_DRIVER || !nvml_memory_read(free_bytes, total_bytes, index)) {
        source = SOURCE_DRIVER;
        if (device->source == SOURCE_NVML || !driver_read(free_bytes, total_bytes, index))
            return 0;
    }
    device->source = source;
    return 1;
}

/* What Tenure has mapped there. Inside. */
static uint64_t reserved_read(int index)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    if (!atomic_load_explicit(&service_device_at(index)->is_on, memory_order_acquire) ||
        tnr_stats_get(&stats, NULL, index) != TNR_OK)
        return 0;
    return stats.reserved_bytes.current;
}

/* ---- whose ---------------------------------------------------------------------------------- */

typedef struct caller {
    char *library;
    size_t room;
    int left; /* frames that are looked at yet */
} caller;

static _Unwind_Reason_Code caller_frame(struct _Unwind_Context *context, void *user)
{
    caller *self = user;
    Dl_info info;
    const void *address = (const void *)(uintptr_t)_Unwind_GetIP(context);
    if (address == NULL || self->left-- == 0)
        return _URC_END_OF_STACK;
    if (dladdr(address, &info) == 0 || info.dli_fname == NULL ||
        object_of((const void *)&account_state) == info.dli_fbase || driver_has(address))
        return _URC_NO_REASON;
    const char *slash = strrchr(info.dli_fname, '/');
    const char *file = slash != NULL ? slash + 1 : info.dli_fname;
    if (between_is(file, info.dli_sname))
        return _URC_NO_REASON;
    (void)snprintf(self->library, self->room, "%s", file);
    return _URC_END_OF_STACK;
}

/* The library that has called. No lock is held: the loader is asked. */
static void caller_find(char *library, size_t room)
{
    caller self = {library, room, DEEP};
    library[0] = '\0';
    (void)_Unwind_Backtrace(caller_frame, &self);
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Kinds whose rows name a library. */
static int has_library(account_kind kind)
{
    return kind == ACCOUNT_MODULES || kind == ACCOUNT_MAPPED || kind == ACCOUNT_DRIVER;
}

/* Under the mutex. Where all rows are taken, one of the kind that is there. */
static account_row *row_get(int device, account_kind kind, const char *library)
{
    account_row *some = NULL;
    for (size_t i = 0; i < rows_count; i++) {
        if (rows[i].device != device || rows[i].kind != kind)
            continue;
        some = &rows[i];
        if (strcmp(rows[i].library, library) == 0)
            return some;
    }
    if (rows_count == ROWS_MAX)
        return some;
    some = &rows[rows_count++];
    *some = (account_row){.device = device, .kind = kind};
    (void)snprintf(some->library, sizeof(some->library), "%s", library);
    return some;
}

static uint64_t row_take(account_row *from, uint64_t bytes)
{
    uint64_t taken = from->bytes < bytes ? from->bytes : bytes;
    from->bytes -= taken;
    return bytes - taken;
}

/* Memory has gone back: the library's own first, then what others made of the kind; with a context
 * also what was made in it. Under the mutex. */
static void rows_take(int device, account_kind kind, const char *library, uint64_t bytes)
{
    account_row *own = row_get(device, kind, library);
    if (own != NULL)
        bytes = row_take(own, bytes);
    for (int pass = 0; pass < (kind == ACCOUNT_CONTEXT ? 2 : 1); pass++)
        for (size_t i = 0; i < rows_count && bytes > 0; i++)
            if (rows[i].device == device && (pass == 1 || rows[i].kind == kind))
                bytes = row_take(&rows[i], bytes);
}

static void rows_change(account_mark mark, int64_t change)
{
    char library[sizeof(rows[0].library)] = "";
    if (has_library(mark.kind))
        caller_find(library, sizeof(library));
    pthread_mutex_lock(&mutex);
    account_row *row = change > 0 ? row_get(mark.device, mark.kind, library) : NULL;
    if (row != NULL)
        row->bytes += (uint64_t)change;
    else if (change < 0)
        rows_take(mark.device, mark.kind, library, (uint64_t)-change);
    pthread_mutex_unlock(&mutex);
}

/* ---- around calls --------------------------------------------------------------------------- */

static int device_current(void)
{
    CUdevice device;
    return REAL(cuCtxGetDevice, (&device)) == CUDA_SUCCESS ? (int)device : -1;
}

account_mark account_begin(account_kind kind, int index)
{
    account_mark mark = {-1, kind};
    uint64_t left, all;
    if (index < 0)
        index = device_current();
    if (index < 0 || index >= SERVICE_DEVICES_MAX || !service_enter())
        return mark;
    account_device *device = &devices[index];
    (void)nvml_is_there(); /* the loader, before the lock */
    pthread_mutex_lock(&mutex);
    if (device->under_way > 0) {
        device->under_way++;
        mark.device = index;
    } else if (memory_read(&left, &all, device, index)) {
        device->under_way = 1;
        device->cut_free = left;
        device->cut_reserved = reserved_read(index);
        device->has_start |= !device->is_seen && kind == ACCOUNT_CONTEXT;
        if (!device->is_seen)
            device->start_free = left;
        device->is_seen = 1;
        mark.device = index;
    }
    pthread_mutex_unlock(&mutex);
    service_leave();
    return mark;
}

void account_end(account_mark mark)
{
    uint64_t left, all;
    int64_t change = 0;
    if (mark.device < 0)
        return;
    account_device *device = &devices[mark.device];
    int is_inside = service_enter();
    pthread_mutex_lock(&mutex);
    if (is_inside && memory_read(&left, &all, device, mark.device)) {
        uint64_t reserved = reserved_read(mark.device);
        change = (int64_t)(device->cut_free - left) - (int64_t)(reserved - device->cut_reserved);
        device->cut_free = left;
        device->cut_reserved = reserved;
    }
    device->under_way--;
    pthread_mutex_unlock(&mutex);
    if (is_inside)
        service_leave();
    if (change != 0)
        rows_change(mark, change);
}

/* ---- telling -------------------------------------------------------------------------------- */

static int rows_order(const void *one, const void *other)
{
    const tnr_outside_row *a = one, *b = other;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : strcmp(a->name, b->name);
}

static void row_tell(tnr_outside *outside, const account_row *row)
{
    static const char *const kinds[ACCOUNT_KINDS] = {
        [ACCOUNT_CONTEXT] = "context",       [ACCOUNT_MODULES] = "modules",
        [ACCOUNT_GRAPHS] = "graphs",         [ACCOUNT_STREAMS] = "streams",
        [ACCOUNT_MAPPED] = "mapped by hand", [ACCOUNT_DRIVER] = "the driver's allocator",
    };
    if (row->bytes == 0)
        return;
    tnr_outside_row *to = &outside->rows[outside->rows_count];
    if (outside->rows_count == TNR_OUTSIDE_ROWS_MAX) { /* what does not fit is lumped together */
        to = &outside->rows[TNR_OUTSIDE_ROWS_MAX - 1];
        (void)snprintf(to->name, sizeof(to->name), "others");
        to->bytes += row->bytes;
        return;
    }
    outside->rows_count++;
    to->bytes = row->bytes;
    (void)snprintf(to->name, sizeof(to->name), "%s%s%s", kinds[row->kind],
                   row->library[0] != '\0' ? ": " : "", row->library);
}

int account_tell(tnr_outside *outside, int index, void *user)
{
    uint64_t left, all;
    (void)user;
    if (index < 0 || index >= SERVICE_DEVICES_MAX)
        return 0;
    account_device *device = &devices[index];
    pthread_mutex_lock(&mutex);
    int is_read = device->is_seen && memory_read(&left, &all, device, index);
    if (is_read) {
        outside->used_bytes = (device->has_start ? device->start_free : all) - left;
        outside->is_from_start = device->has_start;
        for (size_t i = 0; i < rows_count; i++)
            if (rows[i].device == index)
                row_tell(outside, &rows[i]);
    }
    pthread_mutex_unlock(&mutex);
    qsort(outside->rows, outside->rows_count, sizeof(outside->rows[0]), rows_order);
    return is_read;
}
