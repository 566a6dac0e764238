/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relays: memory of another process that this one neither maps nor uses. It keeps the memory to
 * pass it on, maybe after that process has ended. It keeps the descriptors of the chunks. These
 * keep device memory by themselves, so a relay needs no driver, and no context on the device.
 *
 * The process that the memory is from may live on and free the block. It must not hand the memory
 * out again while anybody has it to whom it was passed on, also if the relaying process is killed.
 * So a relay does not name its process in its greeting. It passes the socket that came from the
 * exporter (the origin) on to everybody along with the memory, and for the exporter the relay is
 * over when that socket is closed everywhere. If a process with the memory is just ending, the
 * memory may then be handed out while that process's last work still reads it. That does no harm.
 */
#ifndef TNRI_LIFETIME_RELAYED_H
#define TNRI_LIFETIME_RELAYED_H

#include "share/descriptor.h"
#include "share/shared.h"

typedef struct tnri_relay {
    /* Constant once it is made. */
    tnri_shared_block told;
    /* The socket to the process that it came from. */
    tnri_descriptor sender;
    tnri_descriptor origin;            /* none: that is the sender */
    struct tnri_relayed_chunk *chunks; /* told.chunks_count */
} tnri_relay;

/* Receives what an exporter sends by the socket. No lock held. */
tnr_status tnri_relay_receive(tnri_relay **made, int socket);
/* Sends it to an importer, with the importer's end of a pair of sockets. No lock held. */
tnr_status tnri_relay_send(const tnri_relay *relay, int far, int socket);
void tnri_relay_free(tnri_relay *relay);

/* The error for an exporter's refusal. */
tnr_status tnri_refusal_error(const tnri_shared_block *told);
/* The error for a message that came without the descriptor that belongs to it. */
tnr_status tnri_descriptors_error(uint64_t needed);

#endif
