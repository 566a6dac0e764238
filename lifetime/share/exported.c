/* SPDX-License-Identifier: Apache-2.0 */
/* Exports and who has them: see exported.h. */
#include "share/exported.h"

#include <string.h>

#include "base/plural.h"
#include "base/prim/calm.h"
#include "base/prim/thread.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "memory/arena/range.h"
#include "memory/arena/find.h"
#include "memory/device/chunk.h"
#include "memory/pool/asleep.h"
#include "miss/park.h"
#include "order/hold.h"
#include "share/descriptor.h"
#include "share/relayed.h"

typedef struct exported {
    struct exported *next;
    tnri_offer offer;  /* its number, be it an offer or not */
    tnri_relay *relay; /* memory of another process; null: a block of this one, and then: */
    tnri_uses *uses;   /* the block's, held */
    tnri_arena *arena;
    uintptr_t base;
    size_t bytes;               /* asked for, when it was exported */
    uint32_t references;        /* being open, threads that work with it, importers; the lock */
    int is_open;                /* the lock */
    _Atomic uint32_t importers; /* that have it, or are being sent it */
} exported;

typedef struct importer {
    struct importer *next;
    exported *of;
    tnri_descriptor socket;
    tnri_descriptor process; /* came with the greeting */
    int who;                 /* that asked for it; 0: not known */
} importer;

static struct {
    tnri_lock lock; /* protects what follows; nothing is taken behind it */
    exported *exports;
    importer *importers;
    importer *sending; /* those that are being sent it, each its own thread's */
    tnr_export last;
    _Atomic uint64_t count; /* importers whose memory is not back yet; read without the lock */
    /* Held by the thread that looks who is over, so that all others find either an importer in the
     * list, or what it held let go of. */
    tnri_mutex looking;
} all = {.lock = {.rank = TNRI_RANK_HOST}, .looking = TNRI_MUTEX_INIT};

/* ---- exports -------------------------------------------------------------------------------- */

static tnr_status number_error(tnr_export number)
{
    return tnri_error(
        TNR_ERR_INVALID_EXPORT,
        "%llu is not an open export: it was closed, its device was ended, or there never "
        "was one.",
        (unsigned long long)number);
}

/* The open export of that number, with a reference. */
static exported *export_find(tnr_export number)
{
    tnri_lock_take(&all.lock);
    exported *one = all.exports;
    while (one != NULL && !(one->is_open && one->offer.number == number))
        one = one->next;
    if (one != NULL)
        one->references++;
    tnri_lock_release(&all.lock);
    return one;
}

/* Gives up a reference; the last one ends the export's hold. In the context if there is one to be
 * had, no lock held. */
static void export_drop(exported *one)
{
    tnri_lock_take(&all.lock);
    int is_last = --one->references == 0;
    exported **link = &all.exports;
    while (is_last && *link != one)
        link = &(*link)->next;
    if (is_last)
        *link = one->next;
    tnri_lock_release(&all.lock);
    if (!is_last)
        return;
    if (one->relay != NULL) {
        tnri_relay_free(one->relay);
        tnri_host_free(one, sizeof(*one));
        return;
    }
    tnri_arena_enter(one->arena);
    one->uses->exports--;
    if (one->uses->offer == &one->offer)
        one->uses->offer = NULL;
    tnri_arena_leave(one->arena);
    atomic_fetch_sub(&one->arena->account->exports, 1);
    tnri_hold_end(one->uses); /* what fails is tried again later; the arena may be gone */
    tnri_host_free(one, sizeof(*one));
}

/* The same from outside of the context. */
static void export_leave(exported *one)
{
    tnri_visit visit;
    tnri_error_aside before;
    tnri_error_take(&before);
    int is_inside = one->relay == NULL && tnri_device_enter(one->arena->device, &visit) == TNR_OK;
    export_drop(one);
    if (is_inside)
        tnri_device_leave(&visit);
    tnri_error_restore(&before);
}

/* 1 if this thread is the one that closes it. It stays in the list as long as somebody has it. */
static int export_shut(exported *one)
{
    tnri_lock_take(&all.lock);
    int is_first = one->is_open;
    one->is_open = 0;
    tnri_lock_release(&all.lock);
    return is_first;
}

static tnr_status arena_check(tnri_arena *arena, const void *ptr)
{
    const tnri_account *account = arena->account;
    if (account->is_graph)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "%p is memory of a graph, which every launch writes again. Copy what is "
                          "to be exported to a block of another pool.",
                          ptr);
    if (tnri_account_is_foreign(account))
        return tnri_error(TNR_ERR_FOREIGN_SEGMENT,
                          "pool \"%s\" is made of foreign segments, which only their owner can "
                          "export.",
                          account->name);
    if (account->handle_type != TNR_HANDLE_POSIX_FD && account->handle_type != TNR_HANDLE_FABRIC)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "pool \"%s\" was made without handles that can be exported. Allocate "
                          "from one made with TNR_HANDLE_POSIX_FD, or set handle_type:posix_fd.",
                          account->name);
    return TNR_OK;
}

/* Gives an export its number and puts it into the list. */
static void export_enter(exported *one)
{
    one->references = 1;
    one->is_open = 1;
    tnri_lock_take(&all.lock);
    one->offer.number = ++all.last;
    one->next = all.exports;
    all.exports = one;
    tnri_lock_release(&all.lock);
}

/* Holds a block for a new export. Under the arena's lock, which no other export of the block can
 * then come between. */
static tnr_status block_hold(tnri_arena *arena, tnri_block *block, exported *one, int is_offer)
{
    tnr_status status = tnri_hold_add(arena, block, &one->uses);
    if (status != TNR_OK)
        return status;
    one->arena = arena;
    one->base = block->base;
    one->bytes = tnri_block_requested(block);
    one->uses->exports++;
    atomic_fetch_add(&arena->account->exports, 1);
    if (is_offer)
        one->uses->offer = &one->offer;
    export_enter(one);
    return TNR_OK;
}

/* Exports the live block that contains the address by `*fresh`, which is null afterwards, unless it
 * is to be offered and is already. */
static tnr_status block_export(tnri_device *device, const void *ptr, exported **fresh, int is_offer,
                               tnr_export *number)
{
    tnri_block *block = tnri_live_find(device, (uintptr_t)ptr);
    if (block == NULL)
        return tnri_error(TNR_ERR_NOT_LIVE,
                          "%p lies in no live block of device %d; one of tnr_reserve needs a "
                          "commit before it is exported.",
                          ptr, device->index);
    tnri_arena *arena = block->world->arena;
    tnr_status status = TNR_OK;
    if (block->state == TNRI_PARKED)
        status = tnri_parked_error(ptr, "it has no memory to export");
    if (status == TNR_OK)
        status = arena_check(arena, ptr);
    if (status == TNR_OK && tnri_range_is_whole(arena, block))
        status = tnri_error(TNR_ERR_INVALID_ARGUMENT,
                            "the block at %p has memory in single pages, which come and go. Copy "
                            "what is to be exported to a block of tnr_malloc.",
                            (void *)block->base);
    if (status == TNR_OK && is_offer && block->uses != NULL && block->uses->offer != NULL) {
        *number = block->uses->offer->number;
    } else if (status == TNR_OK) {
        status = block_hold(arena, block, *fresh, is_offer);
        if (status == TNR_OK) {
            *number = (*fresh)->offer.number;
            *fresh = NULL;
        }
    }
    tnri_live_leave(device, block);
    return status;
}

static tnr_status export_make(tnri_device *device, const void *ptr, int is_offer,
                              tnr_export *number)
{
    exported *one = tnri_host_alloc(sizeof(*one));
    if (one == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the record of an export.");
    tnr_status status = block_export(device, ptr, &one, is_offer, number);
    if (one != NULL)
        tnri_host_free(one, sizeof(*one));
    return status;
}

tnr_status tnri_exported_create(tnri_device *device, const void *ptr, tnr_export *number)
{
    return export_make(device, ptr, 0, number);
}

tnr_status tnri_exported_offer(tnri_device *device, const void *ptr, tnr_export *number)
{
    return export_make(device, ptr, 1, number);
}

tnr_status tnri_exported_adopt(int socket, tnr_export *number)
{
    exported *one = tnri_host_alloc(sizeof(*one));
    if (one == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the record of an export.");
    tnr_status status = tnri_relay_receive(&one->relay, socket);
    if (status != TNR_OK) {
        tnri_host_free(one, sizeof(*one));
        return status;
    }
    one->base = (uintptr_t)one->relay->told.address;
    one->bytes = (size_t)one->relay->told.bytes;
    export_enter(one);
    *number = one->offer.number;
    return TNR_OK;
}

tnr_status tnri_exported_get(tnr_export number, tnr_export_info *info)
{
    tnri_exported_settle();
    exported *one = export_find(number);
    if (one == NULL)
        return number_error(number);
    info->ptr = (void *)one->base;
    info->bytes = one->bytes;
    info->importers = atomic_load(&one->importers);
    info->is_freed = 0;
    if (one->relay == NULL) {
        tnri_arena_enter(one->arena);
        info->is_freed = one->uses->is_freed;
        tnri_arena_leave(one->arena);
    }
    export_leave(one);
    return TNR_OK;
}

tnr_status tnri_exported_close(tnr_export number)
{
    exported *one = export_find(number);
    if (one == NULL)
        return number_error(number);
    int is_first = export_shut(one);
    if (is_first)
        export_leave(one); /* the reference of being open */
    export_leave(one);
    return is_first ? TNR_OK : number_error(number);
}

int tnri_exported_is_unused(tnr_export number, const tnri_device *device)
{
    exported *one = export_find(number);
    if (one == NULL)
        return 0;
    int is_unused =
        one->relay == NULL && one->arena->device == device && atomic_load(&one->importers) == 0;
    if (is_unused) {
        tnri_arena_enter(one->arena);
        is_unused = one->uses->is_freed && one->uses->holds == 1;
        tnri_arena_leave(one->arena);
    }
    export_leave(one);
    return is_unused;
}

/* ---- sending -------------------------------------------------------------------------------- */

/* The chunk that is mapped at an address of the block. It stays there: the block is held. */
static tnri_chunk *chunk_at(const exported *one, uintptr_t address)
{
    const tnri_space *space = &one->arena->device->space;
    tnri_arena_enter(one->arena);
    tnri_chunk *chunk = space->pages[tnri_page_of(space, address)];
    tnri_arena_leave(one->arena);
    return chunk;
}

static size_t chunk_bytes(const exported *one, const tnri_chunk *chunk)
{
    return chunk->pages << one->arena->device->space.page_shift;
}

/* What is told of the block, as it is now: one of tnr_reserve may have grown. */
static tnr_status block_describe(const exported *one, tnri_shared_block *told)
{
    const tnri_device *device = one->arena->device;
    CUuuid uuid;
    if (!tnri_gpu_has(TNRI_GPU_DEVICE_UUID) || !tnri_gpu_has(TNRI_GPU_EXPORT))
        return tnri_error(TNR_ERR_DRIVER_TOO_OLD, "the driver has no handles that can be exported, "
                                                  "or no names of devices. Install a newer one.");
    CUresult result = tnri_gpu_device_uuid(&uuid, device->capabilities.handle);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_DEVICE_UUID, "exporting a block");
    memset(told, 0, sizeof(*told));
    tnri_arena_enter(one->arena);
    uintptr_t end = one->base + one->uses->block->bytes;
    told->bytes = tnri_block_requested(one->uses->block);
    tnri_arena_leave(one->arena);
    told->magic = TNRI_SHARED_MAGIC;
    told->address = one->base;
    told->handle_type = one->arena->account->handle_type;
    memcpy(told->uuid, uuid.bytes, sizeof(told->uuid));
    for (uintptr_t at = one->base; at < end; told->chunks_count++) {
        const tnri_chunk *chunk = chunk_at(one, at);
        uintptr_t first = tnri_page_address(&device->space, chunk->page);
        if (told->chunks_count == 0)
            told->offset = one->base - first;
        told->mapped_bytes += chunk_bytes(one, chunk);
        at = first + chunk_bytes(one, chunk);
    }
    return TNR_OK;
}

/* A descriptor of a chunk's memory, or its fabric handle. */
static CUresult chunk_export(const exported *one, const tnri_chunk *chunk, tnri_shared_chunk *told,
                             tnri_descriptor *memory)
{
    if (one->arena->account->handle_type == TNR_HANDLE_FABRIC)
        return tnri_gpu_export(told->fabric, chunk->handle, CU_MEM_HANDLE_TYPE_FABRIC);
    int file = -1;
    tnri_descriptors_enter();
    CUresult result =
        tnri_gpu_export(&file, chunk->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result == CUDA_SUCCESS)
        tnri_descriptor_keep(memory, file);
    tnri_descriptors_leave();
    return result;
}

static tnr_status chunk_send(const exported *one, const tnri_chunk *chunk, uint64_t index,
                             int socket)
{
    tnri_descriptor memory = TNRI_DESCRIPTOR_NONE;
    tnri_shared_chunk told = {
        .magic = TNRI_SHARED_MAGIC, .index = index, .bytes = chunk_bytes(one, chunk)};
    CUresult result = chunk_export(one, chunk, &told, &memory);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_EXPORT, "exporting a chunk");
    tnri_message sent = tnri_message_send(socket, &told, sizeof(told), memory.file);
    tnr_status status =
        sent == TNRI_MESSAGE_DONE ? TNR_OK : tnri_message_error(sent, "sending a chunk");
    tnri_descriptor_close(&memory);
    return status;
}

/* Sends all there is to send; the importer's end of the socket goes along. */
static tnr_status block_send(const exported *one, int far, int socket)
{
    tnri_shared_block told;
    tnr_status status = block_describe(one, &told);
    if (status != TNR_OK)
        return status;
    tnri_message sent = tnri_message_send(socket, &told, sizeof(told), far);
    if (sent != TNRI_MESSAGE_DONE)
        status = tnri_message_error(sent, "sending an export");
    uintptr_t at = one->base - told.offset;
    for (uint64_t i = 0; i < told.chunks_count && status == TNR_OK; i++) {
        const tnri_chunk *chunk = chunk_at(one, at);
        status = chunk_send(one, chunk, i, socket);
        at += chunk_bytes(one, chunk);
    }
    return status;
}

/* The same, be it a block or not, with a new pair of sockets. */
static tnr_status export_send(const exported *one, importer *to, int socket)
{
    tnri_descriptor far = TNRI_DESCRIPTOR_NONE;
    if (!tnri_descriptors_pair(&to->socket, &far))
        return tnri_message_error(TNRI_MESSAGE_REFUSED, "making a pair of sockets");
    tnr_status status = one->relay != NULL ? tnri_relay_send(one->relay, far.file, socket)
                                           : block_send(one, far.file, socket);
    tnri_descriptor_close(&far);
    return status;
}

static void importer_free(importer *one)
{
    tnri_descriptor_close(&one->socket);
    tnri_descriptor_close(&one->process);
    tnri_host_free(one, sizeof(*one));
}

/* It is over: what it held goes its way. As export_drop, after which the caller counts it off. */
static void importer_end(importer *gone)
{
    exported *of = gone->of;
    atomic_fetch_sub(&of->importers, 1);
    if (of->relay == NULL)
        atomic_fetch_sub(&of->arena->account->importers, 1);
    importer_free(gone);
    export_drop(of);
}

/* Sends a block of this process to a new importer. In the context. */
static tnr_status importer_begin(exported *of, importer *fresh, int socket)
{
    tnri_account *account = of->arena->account;
    /* Counted first: a sleep that begins now sees it, one that has begun is seen. */
    atomic_fetch_add(&account->importers, 1);
    tnr_status status = TNR_OK;
    if (tnri_pool_work_begin(of->arena->pool))
        tnri_pool_work_end(of->arena->pool);
    else
        status = tnri_asleep_error(of->arena->pool);
    if (status == TNR_OK)
        status = export_send(of, fresh, socket);
    if (status != TNR_OK)
        atomic_fetch_sub(&account->importers, 1);
    return status;
}

/* Counts and lists an importer that is about to be sent its block: it may have all, and say so to
 * others, before this thread goes on. */
static void sending_begin(importer *fresh)
{
    tnri_lock_take(&all.lock);
    atomic_fetch_add(&fresh->of->importers, 1);
    fresh->next = all.sending;
    all.sending = fresh;
    tnri_lock_release(&all.lock);
}

/* It has been sent it, and is looked at from now on; or not, and then no table has it any more. */
static void sending_end(importer *fresh, int is_sent)
{
    tnri_lock_take(&all.lock);
    importer **link = &all.sending;
    while (*link != fresh)
        link = &(*link)->next;
    *link = fresh->next;
    if (is_sent) {
        atomic_fetch_add(&all.count, 1);
        fresh->next = all.importers;
        all.importers = fresh;
    } else {
        atomic_fetch_sub(&fresh->of->importers, 1);
    }
    tnri_lock_release(&all.lock);
}

/* Sends to a new importer, which has the export's reference from then on. In the context, if the
 * export is a block. */
static tnr_status importer_make(exported *of, int socket, int who)
{
    importer *fresh = tnri_host_alloc(sizeof(*fresh));
    if (fresh == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the record of an importer.");
    fresh->of = of;
    fresh->who = who;
    fresh->socket.file = fresh->process.file = -1;
    sending_begin(fresh);
    tnr_status status =
        of->relay != NULL ? export_send(of, fresh, socket) : importer_begin(of, fresh, socket);
    sending_end(fresh, status == TNR_OK);
    if (status != TNR_OK)
        importer_free(fresh); /* it cannot have used it: it was not told that it has all */
    return status;
}

tnr_status tnri_exported_send(tnr_export number, int socket, int who)
{
    exported *of = export_find(number);
    if (of == NULL)
        return number_error(number);
    tnri_visit visit;
    tnr_status status = of->relay != NULL ? TNR_OK : tnri_device_enter(of->arena->device, &visit);
    if (status == TNR_OK) {
        status = importer_make(of, socket, who);
        if (of->relay == NULL)
            tnri_device_leave(&visit);
    }
    if (status != TNR_OK)
        export_leave(of);
    return status;
}

/* ---- looking who is over -------------------------------------------------------------------- */

static int importer_is_over(importer *one)
{
    tnri_shared_word word;
    tnri_message got;
    while ((got = tnri_message_receive(one->socket.file, -1, 0, &word, sizeof(word),
                                       &one->process)) == TNRI_MESSAGE_DONE)
        if (word.magic == TNRI_SHARED_MAGIC && word.what == TNRI_SHARED_FAREWELL)
            return 1;
    if (one->process.file >= 0)
        return tnri_descriptor_has_ended(&one->process);
    return got == TNRI_MESSAGE_ENDED;
}

/* Takes all importers out of the list, for this thread to look at. */
static importer *importers_take(void)
{
    tnri_lock_take(&all.lock);
    importer *list = all.importers;
    all.importers = NULL;
    tnri_lock_release(&all.lock);
    return list;
}

static void importers_put_back(importer *first, importer *last)
{
    if (first == NULL)
        return;
    tnri_lock_take(&all.lock);
    last->next = all.importers;
    all.importers = first;
    tnri_lock_release(&all.lock);
}

/* The number of an offer whose block was freed; 0: there is none. */
static tnr_export freed_find(void)
{
    tnri_lock_take(&all.lock);
    const exported *one = all.exports;
    while (one != NULL && !(one->is_open && atomic_load(&one->offer.is_freed)))
        one = one->next;
    tnr_export number = one == NULL ? 0 : one->offer.number;
    tnri_lock_release(&all.lock);
    return number;
}

/* Closes offers whose blocks have been freed. */
static void offers_withdraw(void)
{
    if (tnri_likely(atomic_load_explicit(&tnri_offers_freed, memory_order_relaxed) == 0) ||
        atomic_exchange(&tnri_offers_freed, 0) == 0)
        return;
    TNRI_CALM;
    tnr_export number;
    tnri_error_aside before;
    tnri_error_take(&before);
    while ((number = freed_find()) != 0)
        (void)tnri_exported_close(number); /* unless another thread was quicker */
    tnri_error_restore(&before);
}

/* Looks at each importer: those that are over leave the list. Under `looking`. */
static importer *importers_look(void)
{
    importer *list = importers_take(), *gone = NULL, *kept = NULL, *last = NULL;
    while (list != NULL) {
        importer *one = list;
        list = one->next;
        importer **to = importer_is_over(one) ? &gone : &kept;
        if (to == &kept && kept == NULL)
            last = one;
        one->next = *to;
        *to = one;
    }
    importers_put_back(kept, last);
    return gone;
}

void tnri_exported_settle(void)
{
    offers_withdraw();
    if (tnri_likely(atomic_load_explicit(&all.count, memory_order_relaxed) == 0))
        return;
    TNRI_CALM;
    tnri_mutex_lock(&all.looking);
    for (importer *gone = importers_look(), *one; (one = gone) != NULL;) {
        exported *of = one->of;
        gone = one->next;
        tnri_lock_take(&all.lock);
        of->references++; /* until it was left in the context */
        tnri_lock_release(&all.lock);
        importer_end(one);
        export_leave(of);
        atomic_fetch_sub(&all.count, 1);
    }
    tnri_mutex_unlock(&all.looking);
}

int tnri_exported_relays(void)
{
    tnri_lock_take(&all.lock);
    const exported *one = all.exports;
    while (one != NULL && (one->relay == NULL || atomic_load(&one->importers) == 0))
        one = one->next;
    tnri_lock_release(&all.lock);
    return one != NULL;
}

/* Adds those of a list that have an export to the `known` ones. Under the lock. */
static uint32_t importers_told(const importer *list, tnr_export number, int *who, uint32_t known,
                               uint32_t room)
{
    for (const importer *one = list; one != NULL; one = one->next)
        if (one->of->offer.number == number && known < room)
            who[known++] = one->who;
    return known;
}

uint32_t tnri_exported_importers(tnr_export number, int *who, uint32_t room)
{
    uint32_t count = 0, known = 0;
    tnri_lock_take(&all.lock);
    for (const exported *one = all.exports; one != NULL; one = one->next)
        if (one->offer.number == number)
            count = atomic_load(&one->importers);
    known = importers_told(all.importers, number, who, known, room);
    known = importers_told(all.sending, number, who, known, room);
    while (known < room)
        who[known++] = 0;
    tnri_lock_release(&all.lock);
    return count;
}

/* ---- the end of a device -------------------------------------------------------------------- */

static int is_of(const exported *one, const tnri_device *device)
{
    return one->relay == NULL && one->arena->device == device;
}

static uint32_t device_exports(const tnri_device *device)
{
    uint32_t count = 0;
    tnri_lock_take(&all.lock);
    for (const exported *one = all.exports; one != NULL; one = one->next)
        count += one->is_open && is_of(one, device);
    for (const importer *one = all.importers; one != NULL; one = one->next)
        count += is_of(one->of, device);
    tnri_lock_release(&all.lock);
    return count;
}

tnr_status tnri_exported_end(const tnri_device *device, int force)
{
    tnri_exported_settle();
    uint32_t count = device_exports(device);
    if (count > 0 && !force)
        return tnri_error(TNR_ERR_BUSY,
                          "device %d still has %u open export%s, here or in other "
                          "processes. Close them, or end it with force.",
                          device->index, count, tnri_plural(count));
    tnri_mutex_lock(&all.looking);
    importer *kept = NULL, *last = NULL;
    for (importer *one = importers_take(), *next; one != NULL; one = next) {
        next = one->next;
        if (is_of(one->of, device)) {
            importer_end(one);
            atomic_fetch_sub(&all.count, 1);
            continue;
        }
        last = kept == NULL ? one : last;
        one->next = kept;
        kept = one;
    }
    importers_put_back(kept, last);
    tnri_mutex_unlock(&all.looking);
    for (exported *one = all.exports, *next; one != NULL; one = next) {
        next = one->next;
        if (is_of(one, device) && export_shut(one))
            export_drop(one);
    }
    return TNR_OK;
}
