/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relays: memory of another process that this one neither maps nor uses, but keeps, to pass it on
 * when that process may have ended. What is kept are the descriptors of its chunks, which keep
 * device memory by themselves; so a relay needs no driver, and no context on the device.
 *
 * The process that the memory is from may live on and free the block. It must not hand the memory
 * out again while anybody has it to whom it was passed on, also if the relaying process is killed.
 * So a relay does not name its process in its greeting: to the exporter it is over when the socket
 * that came from there is closed everywhere, and everybody gets that socket (the origin) along with
 * the memory. Memory of a process that is just ending is then handed out while its last work may
 * still read it, which harms nobody.
 */
#ifndef TNRI_LIFETIME_RELAYED_H
#define TNRI_LIFETIME_RELAYED_H

#include "descriptor.h"
#include "shared.h"

typedef struct tnri_relay {
    /* Constant once it is made. */
    tnri_shared_block told;
    tnri_descriptor sender;            /* the socket to whom it came from */
    tnri_descriptor origin;            /* none: that is the sender */
    struct tnri_relayed_chunk *chunks; /* told.chunks_count */
} tnri_relay;

/* Receives what an exporter sends by the socket. No lock held. */
tnr_status tnri_relay_receive(tnri_relay **made, int socket);
/* Sends it to an importer, whose end of a pair of sockets goes along. No lock held. */
tnr_status tnri_relay_send(const tnri_relay *relay, int far, int socket);
void tnri_relay_free(tnri_relay *relay);

/* The error for an exporter's refusal. */
tnr_status tnri_refusal_error(const tnri_shared_block *told);
/* The error for a message that came without the descriptor that belongs to it. */
tnr_status tnri_descriptors_error(uint64_t needed);

#endif
