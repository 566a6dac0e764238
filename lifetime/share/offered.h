/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names by which processes of one user open each other's blocks.
 *
 * A name says which process has the block, and which export it is. A process that opens the name
 * asks that process over an abstract Unix socket. The socket's name has the process's number and a
 * random token, and the socket goes when the process ends. A request names an export. The answer
 * sends that export (tnri_exported_send), or hangs up. Both sides check that the other belongs to
 * their user.
 *
 * A thread of this module takes connections, from the first offer to the end of the process. Each
 * is answered by a thread of its own, up to 32 side by side, so a process that asks and then is
 * silent, or does not take its answer, keeps no other waiting. While readers have memory of another
 * process by this one, the thread also looks twice a second which of them are over: that process
 * waits for it, and this one may have no other reason to look. The threads have all signals
 * blocked. A forked child has neither threads nor socket.
 */
#ifndef TNRI_LIFETIME_OFFERED_H
#define TNRI_LIFETIME_OFFERED_H

#include <tenure/export.h>

#include "share/descriptor.h"

/* Writes the name of an export of this process; from then on requests for it are answered. No lock
 * held. */
tnr_status tnri_offered_name(tnr_export_name *name, tnr_export number);

/* Asks the process that a name tells of for the block. What that process sends comes by the
 * connection. The caller closes the connection. No lock held. */
tnr_status tnri_offered_ask(const tnr_export_name *name, tnri_descriptor *connection);

/* 1 if the process that a name tells of lives, or if that cannot be told for now. No lock held. */
int tnri_offered_is_there(const tnr_export_name *name);
/* 1 if it is this one. */
int tnri_offered_is_own(const tnr_export_name *name);
/* Its number, as it sees itself. */
int tnri_offered_process(const tnr_export_name *name);

/* Between these two calls no request is being answered. No lock held. */
void tnri_offered_pause(void);
void tnri_offered_resume(void);

#endif
