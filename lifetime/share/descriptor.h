/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File descriptors that this library has for a while, and messages that carry one.
 *
 * A descriptor of device memory keeps that memory. A descriptor that shows that a process lives
 * keeps other processes waiting. A forked child can use neither, so it closes them all. For that
 * each descriptor enters a list as soon as it exists, and a fork waits (the gate) while one exists
 * that is not in the list yet. exec closes the descriptors too.
 *
 * A thread keeps the gate during the call that makes a descriptor, also if that is a call of the
 * driver. It enters the gate with no lock of the library held, and takes no lock while it is
 * inside.
 */
#ifndef TNRI_LIFETIME_DESCRIPTOR_H
#define TNRI_LIFETIME_DESCRIPTOR_H

#include <stddef.h>

#include <tenure/status.h>

typedef struct tnri_descriptor {
    int file; /* -1: none */
    struct tnri_descriptor *next, **link;
} tnri_descriptor;

#define TNRI_DESCRIPTOR_NONE                                                                       \
    {                                                                                              \
        -1, NULL, NULL                                                                             \
    }

/* The gate: around whatever makes descriptors, until they are kept. */
void tnri_descriptors_enter(void);
void tnri_descriptors_leave(void);

/* Has a forked child close the file, and closes it at exec. Inside the gate. */
void tnri_descriptor_keep(tnri_descriptor *descriptor, int file);
/* Closes it, if there is one. Outside. */
void tnri_descriptor_close(tnri_descriptor *descriptor);

/* A connected pair of nameless sockets that keep messages apart. 0 if the system refuses. */
int tnri_descriptors_pair(tnri_descriptor *near, tnri_descriptor *far);

/* A descriptor that becomes readable when this process has ended; none if the kernel has no such
 * thing. */
void tnri_descriptor_of_process(tnri_descriptor *descriptor);
/* 1 if the process has ended. */
int tnri_descriptor_has_ended(const tnri_descriptor *process);

typedef enum tnri_message {
    TNRI_MESSAGE_DONE,
    TNRI_MESSAGE_NONE,    /* receiving without patience: there is none now */
    TNRI_MESSAGE_ENDED,   /* the other side has hung up */
    TNRI_MESSAGE_LATE,    /* it did not come, or go, in time */
    TNRI_MESSAGE_FOREIGN, /* it has another length */
    TNRI_MESSAGE_REFUSED  /* by the system: errno */
} tnri_message;

/* The error for a message that failed, while `doing` something. */
tnr_status tnri_message_error(tnri_message message, const char *doing);

/* Sends one message, with the file unless it is -1. Waits for room, but not without end. */
tnri_message tnri_message_send(int socket, const void *data, size_t bytes, int file);

/* Receives one message of that length, and the first file that comes with it; other files are
 * closed. If `is_patient`, it waits for the message, but not without end. If `other` is not -1, it
 * also stops waiting when `other` hangs up. */
tnri_message tnri_message_receive(int socket, int other, int is_patient, void *data, size_t bytes,
                                  tnri_descriptor *file);

#endif
