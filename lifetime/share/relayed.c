/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is kept for others: see relayed.h. */
#include "share/relayed.h"

#include <tenure/alloc.h>

#include "base/error.h"
#include "base/host_memory.h"

typedef struct tnri_relayed_chunk {
    tnri_shared_chunk told;
    tnri_descriptor memory;
} tnri_relayed_chunk;

tnr_status tnri_refusal_error(const tnri_shared_block *told)
{
    const char *why;
    switch (told->refusal) {
    case TNR_ERR_INVALID_EXPORT:
        why = "the block was freed there, or is offered no more";
        break;
    case TNR_ERR_ASLEEP:
        why = "the pool that it is in is asleep there";
        break;
    case TNR_ERR_TRANSPORT:
        why = "the system gives that process no descriptor. Raise its limit (ulimit -n), or have "
              "importers close what they have";
        break;
    case TNR_ERR_HOST_MEMORY:
        why = "that process has no host memory";
        break;
    default:
        why = "the driver refuses it there";
    }
    return tnri_error(TNR_ERR_TRANSPORT, "the other process does not send the block: %s.", why);
}

tnr_status tnri_descriptors_error(uint64_t needed)
{
    return tnri_error(
        TNR_ERR_TRANSPORT,
        "a block of %llu chunks came without one of its descriptors: this process has "
        "no room for it. Raise its limit of open files (ulimit -n).",
        (unsigned long long)needed);
}

/* ---- receiving ------------------------------------------------------------------------------ */

static int block_is_sound(const tnri_shared_block *told)
{
    return told->magic == TNRI_SHARED_MAGIC && told->handle_type == TNR_HANDLE_POSIX_FD &&
           told->is_relayed <= 1 && told->chunks_count > 0 &&
           told->chunks_count <= TNRI_SHARED_CHUNKS_MAX && told->mapped_bytes <= TNR_BYTES_MAX &&
           told->bytes > 0 && told->offset < told->mapped_bytes &&
           told->bytes <= told->mapped_bytes - told->offset;
}

/* One message after the first, with its descriptor. */
static tnr_status part_receive(const tnri_relay *relay, int sender, int socket, uint64_t index,
                               tnri_shared_chunk *told, tnri_descriptor *file)
{
    tnri_message got = tnri_message_receive(socket, sender, 1, told, sizeof(*told), file);
    if (got == TNRI_MESSAGE_DONE && (told->magic != TNRI_SHARED_MAGIC || told->index != index))
        got = TNRI_MESSAGE_FOREIGN;
    if (got != TNRI_MESSAGE_DONE)
        return tnri_message_error(got, "taking a block over");
    return file->file >= 0 ? TNR_OK : tnri_descriptors_error(relay->told.chunks_count);
}

/* All that comes after the first message. */
static tnr_status parts_receive(tnri_relay *relay, int socket)
{
    const tnri_shared_word word = {TNRI_SHARED_MAGIC, TNRI_SHARED_GREETING};
    tnri_shared_chunk told;
    tnr_status status = TNR_OK;
    uint64_t count = relay->told.chunks_count, bytes = 0;
    tnri_message sent = tnri_message_send(relay->sender.file, &word, sizeof(word), -1);
    if (sent != TNRI_MESSAGE_DONE)
        return tnri_message_error(sent, "taking a block over");
    if (relay->told.is_relayed)
        status = part_receive(relay, relay->sender.file, socket, TNRI_SHARED_ORIGIN, &told,
                              &relay->origin);
    for (uint64_t i = 0; i < count && status == TNR_OK; i++) {
        tnri_relayed_chunk *chunk = &relay->chunks[i];
        status = part_receive(relay, relay->sender.file, socket, i, &chunk->told, &chunk->memory);
        bytes += chunk->told.bytes;
    }
    if (status == TNR_OK && bytes != relay->told.mapped_bytes)
        status = tnri_message_error(TNRI_MESSAGE_FOREIGN, "taking a block over");
    return status;
}

/* The first message. */
static tnr_status relay_begin(tnri_relay *relay, int socket)
{
    tnri_message got =
        tnri_message_receive(socket, -1, 1, &relay->told, sizeof(relay->told), &relay->sender);
    if (got != TNRI_MESSAGE_DONE)
        return tnri_message_error(got, "taking a block over");
    if (relay->told.magic == TNRI_SHARED_MAGIC && relay->told.refusal != TNR_OK)
        return tnri_refusal_error(&relay->told);
    if (relay->told.magic == TNRI_SHARED_MAGIC && relay->told.handle_type == TNR_HANDLE_FABRIC)
        return tnri_error(
            TNR_ERR_INVALID_ARGUMENT,
            "memory of fabric handles is not kept by descriptors, so no other process "
            "can take it over. Publish a block of a pool made with "
            "TNR_HANDLE_POSIX_FD.");
    if (!block_is_sound(&relay->told))
        return tnri_message_error(TNRI_MESSAGE_FOREIGN, "taking a block over");
    if (relay->sender.file < 0)
        return tnri_descriptors_error(relay->told.chunks_count);
    size_t count = (size_t)relay->told.chunks_count;
    relay->chunks = tnri_host_reserve(count * sizeof(relay->chunks[0]));
    if (relay->chunks == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the descriptors of a block.");
    for (size_t i = 0; i < count; i++)
        relay->chunks[i].memory.file = -1;
    return TNR_OK;
}

tnr_status tnri_relay_receive(tnri_relay **made, int socket)
{
    tnri_relay *relay = tnri_host_alloc(sizeof(*relay));
    if (relay == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the descriptors of a block.");
    relay->sender.file = relay->origin.file = -1;
    tnr_status status = relay_begin(relay, socket);
    if (status == TNR_OK)
        status = parts_receive(relay, socket);
    if (status == TNR_OK)
        *made = relay;
    else
        tnri_relay_free(relay);
    return status;
}

void tnri_relay_free(tnri_relay *relay)
{
    size_t count = relay->chunks == NULL ? 0 : (size_t)relay->told.chunks_count;
    for (size_t i = 0; i < count; i++)
        tnri_descriptor_close(&relay->chunks[i].memory);
    if (relay->chunks != NULL)
        tnri_host_unreserve(relay->chunks, count * sizeof(relay->chunks[0]));
    tnri_descriptor_close(&relay->origin);
    tnri_descriptor_close(&relay->sender);
    tnri_host_free(relay, sizeof(*relay));
}

/* ---- sending -------------------------------------------------------------------------------- */

tnr_status tnri_relay_send(const tnri_relay *relay, int far, int socket)
{
    tnri_shared_block told = relay->told;
    tnri_shared_chunk origin = {.magic = TNRI_SHARED_MAGIC, .index = TNRI_SHARED_ORIGIN};
    int file = relay->origin.file >= 0 ? relay->origin.file : relay->sender.file;
    told.is_relayed = 1;
    tnri_message sent = tnri_message_send(socket, &told, sizeof(told), far);
    if (sent == TNRI_MESSAGE_DONE)
        sent = tnri_message_send(socket, &origin, sizeof(origin), file);
    for (uint64_t i = 0; i < told.chunks_count && sent == TNRI_MESSAGE_DONE; i++) {
        const tnri_relayed_chunk *chunk = &relay->chunks[i];
        sent = tnri_message_send(socket, &chunk->told, sizeof(chunk->told), chunk->memory.file);
    }
    return sent == TNRI_MESSAGE_DONE ? TNR_OK : tnri_message_error(sent, "passing a block on");
}
