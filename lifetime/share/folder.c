/* SPDX-License-Identifier: Apache-2.0 */
/* See folder.h. */
#include "share/folder.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/conf/environment.h"
#include "base/error.h"
#include "base/prim/file.h"
#include "base/prim/process.h"
#include "base/prim/socket.h"

enum { WAITING_MAX = 16 };

/* ---- the places ----------------------------------------------------------------------------- */

/* 1 if a folder is the user's alone. */
static int is_private(const tnri_file_facts *found)
{
    return found->is_folder && found->user == tnri_process_user() && (found->mode & 077) == 0;
}

/* Adds the user's runtime folder, if there is one. 1: the environment names it. */
static int runtime_add(tnri_places *places)
{
    char base[TNRI_FOLDER_BYTES], *path = places->paths[places->count];
    tnri_file_facts found;
    const char *named = tnri_environment_runtime();
    int is_named =
        named != NULL && named[0] == '/' && tnri_path_ask(named, &found) && is_private(&found);
    if (!is_named) {
        snprintf(base, sizeof(base), "/run/user/%lu", (unsigned long)tnri_process_user());
        named = tnri_path_ask(base, &found) && is_private(&found) ? base : NULL;
    }
    if (named == NULL || snprintf(path, TNRI_FOLDER_BYTES, "%s/tenure", named) >= TNRI_FOLDER_BYTES)
        return 0;
    places->count++;
    return is_named;
}

void tnri_places_list(tnri_places *places, const char *setting)
{
    places->count = places->home = 0;
    if (setting[0] != '\0') {
        snprintf(places->paths[places->count++], TNRI_FOLDER_BYTES, "%s", setting);
        return;
    }
    int is_named = runtime_add(places);
    snprintf(places->paths[places->count++], TNRI_FOLDER_BYTES, "/tmp/tenure-%lu",
             (unsigned long)tnri_process_user());
    places->home = is_named ? 0 : places->count - 1;
}

static int folder_open(const char *path)
{
    return tnri_file_open(TNRI_FOLDER_OWN, path, TNRI_FILE_FOLDER | TNRI_FILE_UNLINKED, 0);
}

int tnri_place_open(int *folder, const char *path)
{
    tnri_file_facts found;
    *folder = folder_open(path);
    if (*folder < 0)
        return 0;
    if (tnri_file_ask(*folder, &found) && is_private(&found))
        return 1;
    (void)tnri_file_close(*folder);
    *folder = -1;
    return 0;
}

/* What keeps a process from being found there. */
static tnr_status folder_error(const char *path, const char *purpose, const char *what, int error)
{
    char text[128];
    return tnri_error(TNR_ERR_FILE, "%s: %s: %s (%s). Name another folder with control_dir.",
                      purpose, path, what, tnri_system_text(error, text, sizeof(text)));
}

/* Opens the folder at a place, and makes it if it is not there. */
static tnr_status place_make(int *folder, const char *path, const char *purpose)
{
    tnri_file_facts found;
    *folder = -1;
    if (!tnri_folder_make(path) && errno != EEXIST)
        return folder_error(path, purpose, "the folder cannot be made", errno);
    int file = folder_open(path);
    if (file < 0)
        return folder_error(path, purpose, "the folder cannot be opened", errno);
    int error = tnri_file_ask(file, &found) ? 0 : errno;
    if (error == 0 && is_private(&found)) {
        *folder = file;
        return TNR_OK;
    }
    (void)tnri_file_close(file);
    if (error != 0)
        return folder_error(path, purpose, "the folder cannot be looked at", error);
    return tnri_error(TNR_ERR_FILE,
                      "%s: %s belongs to user %lu and has mode %03o. The folder "
                      "must be of user %lu, who runs this process, with mode 700. Change that, or "
                      "name another with control_dir.",
                      purpose, path, (unsigned long)found.user, found.mode & 0777,
                      (unsigned long)tnri_process_user());
}

tnr_status tnri_folder_open(int *folder, char path[TNRI_FOLDER_BYTES], const tnri_places *places,
                            const char *purpose)
{
    tnr_status status = TNR_ERR_FILE;
    for (int i = 0; i < places->count && status != TNR_OK; i++) {
        int place = (places->home + places->count - i) % places->count; /* home is tried first */
        snprintf(path, TNRI_FOLDER_BYTES, "%s", places->paths[place]);
        status = place_make(folder, path, purpose);
    }
    return status;
}

/* ---- a socket ------------------------------------------------------------------------------- */

/* A number for the boot of this machine; 0: the kernel does not say. */
static uint32_t boot_number(void)
{
    char text[64];
    uint32_t number = 0;
    int file = tnri_file_open(TNRI_FOLDER_OWN, "/proc/sys/kernel/random/boot_id", 0, 0);
    int64_t length = file < 0 ? -1 : tnri_file_read(file, text, sizeof(text));
    if (file >= 0)
        (void)tnri_file_close(file);
    for (int64_t i = 0, digits = 0; i < length && digits < 8; i++) {
        static const char hex[] = "0123456789abcdef";
        const char *digit = text[i] == '\0' ? NULL : strchr(hex, text[i]);
        if (digit == NULL)
            continue;
        number = number << 4 | (uint32_t)(digit - hex);
        digits++;
    }
    return number;
}

/* Binds, listens and only then gives the name by which others find it. 0, or an error number. */
static int socket_publish(int listener, int folder, const char *path, const char *name)
{
    char hidden[TNRI_SOCKET_NAME_BYTES + 1], address[TNRI_PATH_BYTES];
    snprintf(hidden, sizeof(hidden), ".%s", name);
    if ((size_t)snprintf(address, sizeof(address), "%s/%s", path, hidden) >=
        tnri_socket_path_room())
        snprintf(address, sizeof(address), "/proc/self/fd/%d/%s", folder, hidden);
    if (!tnri_socket_bind(listener, address, 0))
        return errno;
    if (tnri_socket_listen(listener, WAITING_MAX) && tnri_name_move(folder, hidden, name))
        return 0;
    int error = errno;
    (void)tnri_name_remove(folder, hidden);
    return error;
}

/* One try. *error: ENOENT if somebody has taken the socket for one that was left. */
static tnr_status listen_try(int *listener, char name[TNRI_SOCKET_NAME_BYTES], int folder,
                             const char *path, int *error)
{
    uint64_t random;
    *error = 0;
    if (!tnri_random(&random, sizeof(random)))
        return folder_error(path, "control", "there are no random numbers for the socket's name",
                            errno);
    snprintf(name, TNRI_SOCKET_NAME_BYTES, "tenure-%ld-%08x-%016llx.sock", (long)tnri_process_id(),
             boot_number(), (unsigned long long)random);
    int file = tnri_socket_make(TNRI_SOCKET_UNWAITED);
    if (file < 0)
        return folder_error(path, "control", "no socket could be made", errno);
    *error = socket_publish(file, folder, path, name);
    if (*error == 0) {
        *listener = file;
        return TNR_OK;
    }
    (void)tnri_file_close(file);
    return folder_error(path, "control", "a socket cannot be made there", *error);
}

tnr_status tnri_folder_listen(int *listener, char name[TNRI_SOCKET_NAME_BYTES], int folder,
                              const char *path)
{
    int error;
    *listener = -1;
    tnr_status status = listen_try(listener, name, folder, path, &error);
    return error == ENOENT ? listen_try(listener, name, folder, path, &error) : status;
}
