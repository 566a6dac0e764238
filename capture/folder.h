/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder in which processes are found, and a socket in it.
 *
 * The folder belongs to the user of the process, and nobody else may enter it. Any other folder is
 * refused, because whoever may enter it could remove sockets or put others there. The folder is
 * made if it is not there.
 *
 * A socket is called tenure-PID-BOOT-RANDOM.sock. PID is the process's number as it sees itself;
 * two containers may have the same one. BOOT says which boot of which machine the socket is of.
 * RANDOM makes the name unlike any other for ever. The socket gets that name only when its process
 * listens at it. So if nobody answers at a name, and BOOT is the reader's own, nobody ever will
 * again, and the reader may remove the name.
 *
 * A path may be longer than a socket's address can be. The folder is then reached through its open
 * descriptor.
 */
#ifndef TNRI_CAPTURE_FOLDER_H
#define TNRI_CAPTURE_FOLDER_H

#include <stddef.h>

#include <tenure/status.h>

enum { TNRI_FOLDER_BYTES = 256, TNRI_SOCKET_NAME_BYTES = 80 };

/* The path that the setting control_dir gives, or else the default. */
void tnri_folder_path(char path[TNRI_FOLDER_BYTES], const char *setting);

/* Opens the folder, and makes it if it is not there. Errors: TNR_ERR_FILE; the sentence begins with
 * `purpose`, what the folder is for. */
tnr_status tnri_folder_open(int *folder, const char *path, const char *purpose);

/* Makes a socket in the folder, listens at it, and gives its name. Errors: TNR_ERR_FILE. */
tnr_status tnri_folder_listen(int *listener, char name[TNRI_SOCKET_NAME_BYTES], int folder,
                              const char *path);

#endif
