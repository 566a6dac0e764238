/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder in which processes are found, and a socket in it.
 *
 * The folder belongs to the user of the process and is nobody else's to enter; anything else is
 * refused, since who may enter it may take sockets away or put others there. It is made if it is
 * not there.
 *
 * A socket is called tenure-PID-BOOT-RANDOM.sock. PID is the process's as it sees itself, which in
 * two containers may be the same; BOOT says which boot of which machine it is of; RANDOM makes the
 * name unlike any other for ever. It gets that name once it is listened at. So if nobody answers at
 * a name, and the boot is one's own, nobody ever will again, and whoever sees that may remove it.
 *
 * A path may be longer than a socket's address can be: the folder is then reached through the
 * descriptor that is open of it.
 */
#ifndef TNRI_CAPTURE_FOLDER_H
#define TNRI_CAPTURE_FOLDER_H

#include <stddef.h>

#include <tenure/status.h>

enum { TNRI_FOLDER_BYTES = 256, TNRI_SOCKET_NAME_BYTES = 80 };

/* Where the setting control_dir says, or else it is the default. */
void tnri_folder_path(char path[TNRI_FOLDER_BYTES], const char *setting);

/* Opens the folder, made if it is not there. Errors begin with what it is for: TNR_ERR_FILE. */
tnr_status tnri_folder_open(int *folder, const char *path, const char *purpose);

/* Makes a socket in the folder that is listened at, and its name. Errors: TNR_ERR_FILE. */
tnr_status tnri_folder_listen(int *listener, char name[TNRI_SOCKET_NAME_BYTES], int folder,
                              const char *path);

#endif
