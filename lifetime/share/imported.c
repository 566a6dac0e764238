/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of other processes: see imported.h. */
#include "share/imported.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "base/plural.h"
#include "gpu/capturing.h"
#include "memory/device/access.h"
#include "share/descriptor.h"
#include "share/offered.h"
#include "share/relayed.h"

typedef struct imported {
    struct imported *next;
    tnr_import_info info;
    tnri_device *device;    /* that it is for: its context, and its addresses if there is a span */
    uint64_t peers;         /* that reach it besides */
    uintptr_t mapped;       /* where its addresses begin; 0: it has none */
    size_t mapped_bytes;    /* of addresses */
    size_t done_bytes;      /* of them that have memory */
    tnri_span *span;        /* null: the addresses are of the driver */
    tnri_descriptor socket; /* to the exporter */
    tnri_descriptor origin; /* where memory that was relayed is from: open as long as it is here */
    int has_handle;         /* 1: `handle`, of the chunk that came last, is not released yet */
    CUmemGenericAllocationHandle handle;
    tnr_export_name name; /* that it was opened by; zeros: by none */
    int same_address;     /* as it was opened; with a name. Likewise: */
    int read_only;
    uint32_t opened; /* times that it is to be closed; the lock */
} imported;

static struct {
    tnri_lock lock; /* protects the list; nothing is taken behind it */
    imported *first;
} all = {.lock = {.rank = TNRI_RANK_HOST}};

/* ---- what was received ---------------------------------------------------------------------- */

static int is_known_type(uint64_t type)
{
    return type == TNR_HANDLE_POSIX_FD || type == TNR_HANDLE_FABRIC;
}

/* Whether the first message makes sense by itself. */
static int block_is_sound(const tnri_device *device, const tnri_shared_block *told)
{
    size_t granule = device->capabilities.granularity_bytes;
    return told->magic == TNRI_SHARED_MAGIC && is_known_type(told->handle_type) &&
           told->is_relayed <= 1 && told->mapped_bytes > 0 && told->mapped_bytes <= TNR_BYTES_MAX &&
           told->mapped_bytes % granule == 0 && told->chunks_count > 0 &&
           told->chunks_count <= TNRI_SHARED_CHUNKS_MAX &&
           told->chunks_count <= told->mapped_bytes / granule &&
           told->offset < told->mapped_bytes && told->bytes > 0 &&
           told->bytes <= told->mapped_bytes - told->offset && told->offset <= told->address &&
           told->address - told->offset <= UINTPTR_MAX - told->mapped_bytes;
}

/* Whether a further one does, for the chunk of that number; `left`: bytes that it may have. */
static int chunk_is_sound(const tnri_device *device, const tnri_shared_chunk *told, uint64_t index,
                          size_t left)
{
    return told->magic == TNRI_SHARED_MAGIC && told->index == index && told->bytes > 0 &&
           told->bytes <= left && told->bytes % device->capabilities.granularity_bytes == 0;
}

/* This process's number of the device with that name. */
static tnr_status owner_find(const tnri_shared_block *told, int *owner)
{
    if (!tnri_gpu_has(TNRI_GPU_DEVICE_UUID) || !tnri_gpu_has(TNRI_GPU_IMPORT))
        return tnri_error(TNR_ERR_DRIVER_TOO_OLD, "the driver cannot import memory of other "
                                                  "processes. Install a newer one.");
    for (*owner = 0; *owner < tnri_devices_count(); ++*owner) {
        CUuuid uuid;
        CUresult result = tnri_gpu_device_uuid(&uuid, tnri_device_at(*owner)->capabilities.handle);
        if (result != CUDA_SUCCESS)
            return tnri_driver_error(result, TNRI_GPU_DEVICE_UUID, "importing a block");
        if (memcmp(uuid.bytes, told->uuid, sizeof(told->uuid)) == 0)
            return TNR_OK;
    }
    return tnri_error(TNR_ERR_INVALID_DEVICE,
                      "the exported memory is of a device that this process does not see. Look at "
                      "CUDA_VISIBLE_DEVICES in both.");
}

/* Whether the device, and the peers that were asked for, reach memory of the owner. */
static tnr_status reach_check(int owner, int device, uint64_t peers)
{
    tnr_status status = TNR_OK;
    uint64_t wanted = (peers | UINT64_C(1) << device) & ~(UINT64_C(1) << owner);
    for (; wanted != 0 && status == TNR_OK; wanted &= wanted - 1)
        status = tnri_peer_check(tnri_device_at(owner), __builtin_ctzll(wanted));
    return status;
}

/* ---- addresses ------------------------------------------------------------------------------ */

static tnr_status taken_error(const imported *one, const char *why)
{
    return tnri_error(TNR_ERR_ADDRESS_SPACE,
                      "%zu bytes at %p, where the exporter has them, %s. Import without "
                      "same_address, or before memory is allocated here.",
                      one->mapped_bytes, (void *)one->mapped, why);
}

/* The addresses that one->mapped says, of the device's own range. */
static tnr_status span_take(imported *one)
{
    tnri_space *space = &one->device->space;
    if (((one->mapped - space->base) | one->mapped_bytes) & (tnri_page_bytes(space) - 1))
        return taken_error(one, "are no whole pages here: chunk_mb is larger");
    int is_free;
    one->span = tnri_space_take_at(space, one->mapped, one->mapped_bytes, &is_free);
    if (one->span != NULL)
        return TNR_OK;
    return is_free ? tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the record of a span.")
                   : taken_error(one, "are taken in this process");
}

/* Addresses at one->mapped; 0: anywhere. */
static tnr_status addresses_take(imported *one)
{
    uintptr_t wanted = one->mapped;
    const tnri_device *owner = wanted == 0 ? NULL : tnri_device_of(wanted);
    if (owner == NULL && wanted != 0)
        owner = tnri_device_of(wanted + one->mapped_bytes - 1);
    if (owner == one->device && tnri_device_of(wanted + one->mapped_bytes - 1) == owner &&
        tnri_device_of(wanted) == owner)
        return span_take(one);
    if (owner != NULL)
        return taken_error(one, "are another device's in this process");
    CUdeviceptr base;
    CUresult result = tnri_gpu_reserve(&base, one->mapped_bytes, 0, wanted);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return tnri_error_driver(TNR_ERR_ADDRESS_SPACE, (int)result,
                                 "there are no %zu bytes of addresses left for an import. Close "
                                 "others, or lower address_space_gb.",
                                 one->mapped_bytes);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_RESERVE, "importing a block");
    if (wanted == 0 || base == wanted) {
        one->mapped = (uintptr_t)base;
        return TNR_OK;
    }
    (void)tnri_gpu_unreserve(base, one->mapped_bytes);
    return taken_error(one, "are taken in this process");
}

static tnr_status handle_release(imported *one)
{
    if (!one->has_handle)
        return TNR_OK;
    CUresult result = tnri_gpu_release(one->handle);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_RELEASE, "importing a chunk of another process");
    one->has_handle = 0;
    return TNR_OK;
}

/* Gives memory and addresses back. What the driver refuses stays, to be tried again. */
static tnr_status addresses_give_back(imported *one)
{
    if (one->done_bytes > 0) {
        CUresult result = tnri_gpu_unmap(one->mapped, one->done_bytes);
        if (result != CUDA_SUCCESS)
            return tnri_driver_error(result, TNRI_GPU_UNMAP, "closing an import");
        one->done_bytes = 0;
    }
    tnr_status status = handle_release(one);
    if (status != TNR_OK)
        return status;
    if (one->span != NULL) {
        tnri_space_return(&one->device->space, one->span);
        one->span = NULL;
    } else if (one->mapped != 0) {
        CUresult result = tnri_gpu_unreserve(one->mapped, one->mapped_bytes);
        if (result != CUDA_SUCCESS)
            return tnri_driver_error(result, TNRI_GPU_UNRESERVE, "closing an import");
    }
    one->mapped = 0;
    return TNR_OK;
}

/* ---- receiving ------------------------------------------------------------------------------ */

/* Tells the exporter that this process has let go of everything. If the system refuses for want of
 * memory, the exporter waits for the end of the process. */
static void farewell(imported *one)
{
    enum { TRIES = 3 };
    tnri_shared_word word = {TNRI_SHARED_MAGIC, TNRI_SHARED_FAREWELL};
    tnri_message sent = one->socket.file >= 0 ? TNRI_MESSAGE_REFUSED : TNRI_MESSAGE_DONE;
    for (int i = 0; i < TRIES && sent == TNRI_MESSAGE_REFUSED; i++)
        sent = tnri_message_send(one->socket.file, &word, sizeof(word), -1);
    tnri_descriptor_close(&one->socket);
    tnri_descriptor_close(&one->origin);
}

/* Says who imports, before anything is mapped. */
static tnr_status greet(imported *one)
{
    tnri_shared_word word = {TNRI_SHARED_MAGIC, TNRI_SHARED_GREETING};
    tnri_descriptor process = TNRI_DESCRIPTOR_NONE;
    tnri_descriptor_of_process(&process);
    tnri_message sent = tnri_message_send(one->socket.file, &word, sizeof(word), process.file);
    tnr_status status =
        sent == TNRI_MESSAGE_DONE ? TNR_OK : tnri_message_error(sent, "answering an exporter");
    tnri_descriptor_close(&process);
    return status;
}

/* Maps the memory that a chunk's descriptor stands for at the end of what is there. */
static tnr_status chunk_map(imported *one, const tnri_shared_chunk *told, int file)
{
    int is_fabric = file < 0;
    void *shared = is_fabric ? (void *)(uintptr_t)told->fabric : (void *)(intptr_t)file;
    CUresult result = tnri_gpu_import(&one->handle, shared,
                                      is_fabric ? CU_MEM_HANDLE_TYPE_FABRIC
                                                : CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_IMPORT, "importing a chunk of another process");
    one->has_handle = 1;
    result = tnri_gpu_map(one->mapped + one->done_bytes, told->bytes, one->handle);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_MAP, "mapping a chunk of another process");
    one->done_bytes += told->bytes;
    return handle_release(one); /* the mapping keeps the memory */
}

static tnr_status chunk_receive(imported *one, const tnri_shared_block *block, uint64_t index,
                                int socket)
{
    tnri_shared_chunk told;
    tnri_descriptor memory = TNRI_DESCRIPTOR_NONE;
    int is_fabric = block->handle_type == TNR_HANDLE_FABRIC;
    tnri_message got =
        tnri_message_receive(socket, one->socket.file, 1, &told, sizeof(told), &memory);
    if (got == TNRI_MESSAGE_DONE &&
        (!chunk_is_sound(one->device, &told, index, one->mapped_bytes - one->done_bytes) ||
         (is_fabric && memory.file >= 0)))
        got = TNRI_MESSAGE_FOREIGN;
    tnr_status status;
    if (got != TNRI_MESSAGE_DONE)
        status = tnri_message_error(got, "receiving a chunk");
    else if (!is_fabric && memory.file < 0)
        status = tnri_descriptors_error(block->chunks_count);
    else
        status = chunk_map(one, &told, memory.file);
    tnri_descriptor_close(&memory);
    return status;
}

/* The socket to where memory that is relayed comes from, which is kept with it. */
static tnr_status origin_receive(imported *one, int socket)
{
    tnri_shared_chunk told;
    tnri_message got =
        tnri_message_receive(socket, one->socket.file, 1, &told, sizeof(told), &one->origin);
    if (got == TNRI_MESSAGE_DONE &&
        (told.magic != TNRI_SHARED_MAGIC || told.index != TNRI_SHARED_ORIGIN))
        got = TNRI_MESSAGE_FOREIGN;
    if (got != TNRI_MESSAGE_DONE)
        return tnri_message_error(got, "receiving an export");
    return one->origin.file >= 0 ? TNR_OK : tnri_descriptors_error(1);
}

static CUresult access_set(const imported *one, CUmemAccess_flags flags)
{
    CUmemAccessDesc wanted[TNRI_DEVICES_MAX];
    size_t count = 0;
    uint64_t devices = one->peers | UINT64_C(1) << one->device->index;
    for (; devices != 0; devices &= devices - 1) {
        CUmemAccessDesc access = {.flags = flags};
        access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        access.location.id = tnri_device_at(__builtin_ctzll(devices))->capabilities.handle;
        wanted[count++] = access;
    }
    return tnri_gpu_access(one->mapped, one->mapped_bytes, wanted, count);
}

/* For reading alone if that is asked for, and the driver has such a thing. */
static tnr_status access_give(imported *one)
{
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (one->read_only)
        result = access_set(one, CU_MEM_ACCESS_FLAGS_PROT_READ);
    one->info.is_read_only = result == CUDA_SUCCESS;
    if (result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_INVALID_VALUE)
        result = access_set(one, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_ACCESS, "giving access to an import");
    return TNR_OK;
}

/* All that comes after the first message. On an error the caller takes back what there is. */
static tnr_status import_make(imported *one, const tnri_shared_block *told, int socket)
{
    int owner = 0;
    tnr_status status = owner_find(told, &owner);
    if (status == TNR_OK)
        status = reach_check(owner, one->device->index, one->peers);
    if (status == TNR_OK)
        status = greet(one);
    if (status == TNR_OK)
        status = addresses_take(one);
    if (status != TNR_OK) {
        one->mapped = 0;
        return status;
    }
    if (told->is_relayed)
        status = origin_receive(one, socket);
    for (uint64_t i = 0; i < told->chunks_count && status == TNR_OK; i++)
        status = chunk_receive(one, told, i, socket);
    if (status == TNR_OK && one->done_bytes != one->mapped_bytes)
        status = tnri_message_error(TNRI_MESSAGE_FOREIGN, "receiving an export");
    if (status == TNR_OK)
        status = access_give(one);
    one->info.ptr = (void *)(one->mapped + told->offset);
    one->info.device_owner = owner;
    return status;
}

static void import_enter(imported *one)
{
    tnri_lock_take(&all.lock);
    one->next = all.first;
    all.first = one;
    tnri_lock_release(&all.lock);
}

/* Takes back an import that is not used yet. In the device's context. */
static void import_abandon(imported *one)
{
    tnri_error_aside first;
    tnri_error_take(&first);
    int is_all_back = addresses_give_back(one) == TNR_OK;
    tnri_error_restore(&first);
    if (!is_all_back) {
        one->info.ptr = NULL; /* to be tried again: tnri_imported_retry */
        import_enter(one);
        return;
    }
    farewell(one);
    tnri_host_free(one, sizeof(*one));
}

/* Receives an import that is in no list yet. In the device's context. */
static tnr_status import_receive(tnri_device *device, int socket, const tnr_import_options *options,
                                 imported **received)
{
    tnri_shared_block told;
    imported *one = tnri_host_alloc(sizeof(*one));
    if (one == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the record of an import.");
    one->device = device;
    one->peers = options->peers;
    one->read_only = options->read_only;
    one->socket.file = one->origin.file = -1;
    tnri_message got = tnri_message_receive(socket, -1, 1, &told, sizeof(told), &one->socket);
    int is_refused =
        got == TNRI_MESSAGE_DONE && told.magic == TNRI_SHARED_MAGIC && told.refusal != TNR_OK;
    if (got == TNRI_MESSAGE_DONE && !is_refused && !block_is_sound(device, &told))
        got = TNRI_MESSAGE_FOREIGN;
    tnr_status status = TNR_OK;
    if (is_refused) {
        status = tnri_refusal_error(&told);
    } else if (got != TNRI_MESSAGE_DONE) {
        status = tnri_message_error(got, "receiving an export");
    } else if (one->socket.file < 0) {
        status = tnri_descriptors_error(told.chunks_count);
    } else {
        one->info = (tnr_import_info){
            .struct_bytes = sizeof(one->info), .bytes = told.bytes, .device = device->index};
        one->mapped_bytes = told.mapped_bytes;
        one->mapped = options->same_address ? told.address - told.offset : 0;
        status = import_make(one, &told, socket);
    }
    if (status == TNR_OK) {
        one->opened = 1;
        *received = one;
        return TNR_OK;
    }
    import_abandon(one);
    return status;
}

tnr_status tnri_imported_receive(tnri_device *device, int socket, const tnr_import_options *options,
                                 tnr_import_info *info)
{
    imported *one;
    tnr_status status = import_receive(device, socket, options, &one);
    if (status == TNR_OK) {
        *info = one->info;
        import_enter(one);
    }
    return status;
}

/* ---- by name -------------------------------------------------------------------------------- */

/* Opens the import once more that was opened in the same way before, or enters `fresh`, which may
 * be null, as the first. 0: there is none. */
static int import_open(const tnri_device *device, const tnr_export_name *name,
                       const tnr_import_options *options, imported *fresh, tnr_import_info *info)
{
    tnri_lock_take(&all.lock);
    imported *one = all.first;
    while (one != NULL &&
           (one->info.ptr == NULL || one->device != device || one->peers != options->peers ||
            one->same_address != options->same_address || one->read_only != options->read_only ||
            memcmp(&one->name, name, sizeof(*name)) != 0))
        one = one->next;
    if (one != NULL) {
        one->opened++;
    } else if (fresh != NULL) {
        one = fresh;
        one->next = all.first;
        all.first = one;
    }
    if (one != NULL)
        *info = one->info;
    tnri_lock_release(&all.lock);
    return one != NULL;
}

tnr_status tnri_imported_open(tnri_device *device, const tnr_export_name *name,
                              const tnr_import_options *options, tnr_import_info *info)
{
    if (import_open(device, name, options, NULL, info))
        return TNR_OK;
    imported *one;
    tnri_descriptor connection = TNRI_DESCRIPTOR_NONE;
    tnr_status status = tnri_offered_ask(name, &connection);
    if (status != TNR_OK)
        return status;
    status = import_receive(device, connection.file, options, &one);
    tnri_descriptor_close(&connection);
    if (status != TNR_OK)
        return status;
    one->name = *name;
    one->info.process = (int)tnri_offered_process(name);
    one->same_address = options->same_address;
    (void)import_open(device, name, options, one, info);
    if (info->ptr != one->info.ptr) /* another thread was quicker */
        import_abandon(one);
    return TNR_OK;
}

void tnri_imported_label(const void *ptr, const char *published, uint64_t generation)
{
    tnri_lock_take(&all.lock);
    for (imported *one = all.first; one != NULL; one = one->next)
        if (one->info.ptr == ptr) {
            (void)snprintf(one->info.published, sizeof(one->info.published), "%s", published);
            one->info.generation = generation;
        }
    tnri_lock_release(&all.lock);
}

int tnri_imported_at(size_t index, tnr_import_info *info)
{
    tnri_lock_take(&all.lock);
    const imported *one = all.first;
    while (one != NULL && (one->info.ptr == NULL || index-- > 0))
        one = one->next;
    if (one != NULL)
        *info = one->info;
    tnri_lock_release(&all.lock);
    return one != NULL;
}

/* ---- looking and closing -------------------------------------------------------------------- */

tnr_status tnri_imported_get(const void *ptr, tnr_import_info *info)
{
    int is_found = 0;
    tnri_lock_take(&all.lock);
    for (const imported *one = all.first; one != NULL && !is_found; one = one->next)
        if (one->info.ptr != NULL && (uintptr_t)ptr - (uintptr_t)one->info.ptr < one->info.bytes) {
            *info = one->info;
            is_found = 1;
        }
    tnri_lock_release(&all.lock);
    if (is_found)
        return TNR_OK;
    return tnri_error(TNR_ERR_FOREIGN_POINTER, "%p lies in no import of this process.", ptr);
}

/* Takes out of the list one that failed to be made, and could not be taken back; or, if `all_of` is
 * not null, any that a device has. */
static imported *import_take(const tnri_device *all_of)
{
    tnri_lock_take(&all.lock);
    imported **link = &all.first;
    while (*link != NULL &&
           (all_of != NULL ? (*link)->device != all_of : (*link)->info.ptr != NULL))
        link = &(*link)->next;
    imported *one = *link;
    if (one != NULL)
        *link = one->next;
    tnri_lock_release(&all.lock);
    return one;
}

/* Waits for the devices that reach it. In the context. */
static tnr_status import_finish(const imported *one)
{
    CUresult result = tnri_gpu_context_await();
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_CONTEXT_AWAIT, "closing an import");
    tnr_status status = TNR_OK;
    uint64_t peers = one->peers & ~(UINT64_C(1) << one->device->index);
    for (; peers != 0 && status == TNR_OK; peers &= peers - 1)
        status = tnri_peer_finish(__builtin_ctzll(peers), "closing an import");
    return status;
}

/* Ends one that is in no list, or puts it back there. By force also in a context that has failed,
 * where no work goes on. */
static tnr_status import_end(imported *one, int force)
{
    tnri_visit visit;
    tnr_status status = tnri_device_enter(one->device, &visit);
    if (status == TNR_OK) {
        status = import_finish(one);
        if (status == TNR_OK || force)
            status = addresses_give_back(one);
        tnri_device_leave(&visit);
    }
    if (status != TNR_OK) {
        import_enter(one);
        return status;
    }
    farewell(one);
    tnri_host_free(one, sizeof(*one));
    return TNR_OK;
}

void tnri_imported_retry(void)
{
    imported *one;
    while ((one = import_take(NULL)) != NULL)
        if (import_end(one, 1) != TNR_OK)
            return; /* it is in the list again */
}

/* Closes once what begins at an address. *last is the import if this was the last time, and null
 * if it was not; it stays open if it may not end. */
static tnr_status import_leave(const void *ptr, int may_end, imported **last)
{
    tnr_status status = TNR_OK;
    *last = NULL;
    tnri_lock_take(&all.lock);
    imported **link = &all.first;
    while (*link != NULL && (ptr == NULL || (*link)->info.ptr != ptr))
        link = &(*link)->next;
    imported *one = *link;
    if (one == NULL) {
        status = TNR_ERR_FOREIGN_POINTER;
    } else if (one->opened > 1) {
        one->opened--;
    } else if (!may_end) {
        status = TNR_ERR_CAPTURE;
    } else {
        *link = one->next;
        *last = one;
    }
    tnri_lock_release(&all.lock);
    return status;
}

tnr_status tnri_imported_close(void *ptr)
{
    imported *one;
    int may_end = !tnri_capturing();
    if (may_end)
        tnri_imported_retry();
    tnr_status status = import_leave(ptr, may_end, &one);
    if (status == TNR_ERR_CAPTURE)
        return tnri_error(TNR_ERR_CAPTURE,
                          "closing an import waits for the device's work, which a capture under "
                          "way forbids. Close it after the capture.");
    if (status != TNR_OK)
        return tnri_error(TNR_ERR_FOREIGN_POINTER, "no import of this process begins at %p.", ptr);
    return one == NULL ? TNR_OK : import_end(one, 0);
}

tnr_status tnri_imported_end(const tnri_device *device, int force)
{
    size_t count = 0;
    tnri_lock_take(&all.lock);
    for (const imported *one = all.first; one != NULL; one = one->next)
        count += one->device == device && one->info.ptr != NULL;
    tnri_lock_release(&all.lock);
    if (count > 0 && !force)
        return tnri_error(
            TNR_ERR_BUSY,
            "device %d still has %zu import%s open. Close them, or end it with force.",
            device->index, count, tnri_plural(count));
    tnr_status status = TNR_OK;
    imported *one;
    while (force && status == TNR_OK && (one = import_take(device)) != NULL)
        status = import_end(one, 1);
    return status;
}
