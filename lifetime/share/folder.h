/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder in which processes are found, and a socket in it.
 *
 * The folder belongs to the user of the process, and no other user may enter it. Any other folder
 * is refused, because a user who may enter it could remove sockets or put others there. The folder
 * is made if it is not there.
 *
 * The setting control_dir names it. Without that there are two places: `tenure` in the user's
 * runtime folder (XDG_RUNTIME_DIR, else /run/user/UID), where no other user can take the name, and
 * /tmp/tenure-UID, which is there for everybody. A process makes its own files in the first, if its
 * environment names it; processes of cron, of root's shells and of containers, whose does not, in
 * the second. Who looks for others looks in both, in one order for all. What several processes
 * write to (a board, a notice) stays in the place where it is.
 *
 * A socket is called tenure-PID-BOOT-RANDOM.sock. PID is the process's number as it sees itself;
 * two containers may have the same one. BOOT says which boot of which machine the socket is of.
 * RANDOM makes the name unlike any other, also of the past. The socket gets that name only when its
 * process listens at it. So if no process answers at a name, and BOOT is the reader's own, none
 * ever will again, and the reader may remove the name.
 *
 * A path may be longer than a socket's address can be. The folder is then reached through its open
 * descriptor.
 */
#ifndef TNRI_CAPTURE_FOLDER_H
#define TNRI_CAPTURE_FOLDER_H

#include <stddef.h>

#include <tenure/status.h>

#include "base/prim/file.h"

enum { TNRI_FOLDER_BYTES = 256, TNRI_SOCKET_NAME_BYTES = 80, TNRI_PLACES_MAX = 2 };

/* The places of a user's folder. */
typedef struct tnri_places {
    char paths[TNRI_PLACES_MAX][TNRI_FOLDER_BYTES]; /* in the order in which all look */
    int count;
    int home; /* where this process makes its own files */
} tnri_places;

/* `setting` is control_dir. */
void tnri_places_list(tnri_places *places, const char *setting);

/* Opens the folder at a place, if it is there and the user's alone. 0: it is not. */
int tnri_place_open(int *folder, const char *path);

/* Opens the folder at home, or at the other place if that cannot be had, and makes it if it is not
 * there; gives its path. Errors: TNR_ERR_FILE; the sentence begins with `purpose`, what the folder
 * is for. */
tnr_status tnri_folder_open(int *folder, char path[TNRI_FOLDER_BYTES], const tnri_places *places,
                            const char *purpose);

/* Makes a socket in the folder, listens at it, and gives its name. Errors: TNR_ERR_FILE. */
tnr_status tnri_folder_listen(int *listener, char name[TNRI_SOCKET_NAME_BYTES], int folder,
                              const char *path);

#endif
