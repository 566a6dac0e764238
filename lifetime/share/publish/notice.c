/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of names: see notice.h. */
#include "share/publish/notice.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf/conf.h"
#include "base/error.h"
#include "base/file_room.h"
#include "base/prim/process.h"
#include "share/folder.h"
#include "share/offered.h"

/* Another number for each change of tnri_notice. */
#define NOTICE_MAGIC UINT64_C(0x315065727565746e)

enum { PATIENCE_MS = 10000, NAP_MS = 5, FILE_NAME_BYTES = TNR_EXPORT_LABEL_BYTES + 16 };

static tnr_status file_error(const char *what, const char *name, int error)
{
    char text[128];
    return tnri_error(TNR_ERR_FILE, "the published name \"%s\": %s (%s).", name, what,
                      tnri_system_text(error, text, sizeof(text)));
}

tnr_status tnri_name_check(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    if (name == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "the name that is to be published is null.");
    size_t length = strnlen(name, TNR_EXPORT_LABEL_BYTES);
    if (length > 0 && length < TNR_EXPORT_LABEL_BYTES && name[0] != '.' &&
        strspn(name, allowed) == length)
        return TNR_OK;
    return tnri_error(
        TNR_ERR_INVALID_ARGUMENT,
        "\"%.80s\" is not a name to publish under: that is 1 to 63 letters, digits, '.', "
        "'-' and '_', the first of them no '.'.",
        name);
}

/* ---- the file ------------------------------------------------------------------------------- */

/* Opens a file of the folder. An error number, or 0. */
static int file_open(tnri_descriptor *file, const tnri_descriptor *folder, const char *name,
                     int flags)
{
    tnri_descriptors_enter();
    int opened = openat(folder->file, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    int error = opened < 0 ? errno : 0;
    if (opened >= 0)
        tnri_descriptor_keep(file, opened);
    tnri_descriptors_leave();
    return error;
}

/* Reads or writes all of it. An error number, or 0; EIO: there was less. */
static int file_move(int file, void *data, size_t bytes, int is_write)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t moved = is_write ? write(file, (char *)data + done, bytes - done)
                                 : read(file, (char *)data + done, bytes - done);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0)
            return moved < 0 ? errno : EIO;
        done += (size_t)moved;
    }
    return 0;
}

tnr_status tnri_notice_read(tnri_notice *notice, const tnri_descriptor *folder, const char *name)
{
    char file_name[FILE_NAME_BYTES];
    struct stat found;
    tnri_descriptor file = TNRI_DESCRIPTOR_NONE;
    memset(notice, 0, sizeof(*notice));
    snprintf(file_name, sizeof(file_name), "%s.published", name);
    int error = file_open(&file, folder, file_name, O_RDONLY);
    if (error == ENOENT)
        return TNR_OK;
    if (error == 0 && fstat(file.file, &found) != 0)
        error = errno;
    int is_ours = error == 0 && S_ISREG(found.st_mode) && found.st_uid == geteuid() &&
                  found.st_size == (off_t)sizeof(*notice);
    if (is_ours)
        error = file_move(file.file, notice, sizeof(*notice), 0);
    tnri_descriptor_close(&file);
    if (error != 0)
        return file_error("its file cannot be read", name, error);
    if (is_ours && notice->magic == NOTICE_MAGIC && notice->generation > 0 &&
        notice->holders_count <= TNR_HOLDERS_MAX)
        return TNR_OK;
    return tnri_error(TNR_ERR_FILE,
                      "the published name \"%s\": its file is not of this version of Tenure. Have "
                      "all processes use the same one; if none holds the name, remove %s.",
                      name, file_name);
}

tnr_status tnri_notice_write(const tnri_notice *notice, const tnri_descriptor *folder,
                             const char *name)
{
    char file_name[FILE_NAME_BYTES], new_name[FILE_NAME_BYTES];
    tnri_notice written = *notice;
    tnri_descriptor file = TNRI_DESCRIPTOR_NONE;
    written.magic = NOTICE_MAGIC;
    snprintf(file_name, sizeof(file_name), "%s.published", name);
    snprintf(new_name, sizeof(new_name), ".%s.new", name); /* of one that died here, perhaps */
    int error = tnri_file_limit(sizeof(written));
    if (error == 0) {
        (void)unlinkat(folder->file, new_name, 0);
        error = file_open(&file, folder, new_name, O_WRONLY | O_CREAT | O_EXCL);
    }
    if (error == 0)
        error = file_move(file.file, &written, sizeof(written), 1);
    tnri_descriptor_close(&file);
    if (error == 0 && renameat(folder->file, new_name, folder->file, file_name) != 0)
        error = errno;
    if (error == 0)
        return TNR_OK;
    (void)unlinkat(folder->file, new_name, 0);
    return file_error("its file cannot be written", name, error);
}

void tnri_notice_clean(tnri_notice *notice, int own)
{
    uint64_t count = notice->holders_count;
    notice->holders_count = 0;
    for (uint64_t i = 0; i < count; i++) {
        const tnr_export_name *holder = &notice->holders[i];
        int stays = tnri_offered_is_own(holder) ? !own : tnri_offered_is_there(holder);
        if (stays)
            notice->holders[notice->holders_count++] = *holder;
    }
    memset(&notice->holders[notice->holders_count], 0,
           (TNR_HOLDERS_MAX - notice->holders_count) * sizeof(notice->holders[0]));
}

/* ---- the folder ----------------------------------------------------------------------------- */

/* Opens the folder at a place. 0: it is not there. */
static int place_open(tnri_descriptor *folder, const char *path)
{
    int file;
    tnri_descriptors_enter();
    int is_open = tnri_place_open(&file, path);
    if (is_open)
        tnri_descriptor_keep(folder, file);
    tnri_descriptors_leave();
    return is_open;
}

static tnr_status home_open(tnri_descriptor *folder, const tnri_places *places)
{
    char path[TNRI_FOLDER_BYTES];
    int file;
    tnri_descriptors_enter();
    tnr_status status = tnri_folder_open(&file, path, places, "published names");
    if (status == TNR_OK)
        tnri_descriptor_keep(folder, file);
    tnri_descriptors_leave();
    return status;
}

/* The place in which a name is; -1: it is in none. A notice that cannot be read is one. */
static int place_find(const tnri_places *places, const char *name)
{
    int found = -1;
    for (int i = 0; i < places->count; i++) {
        tnri_notice notice;
        tnri_descriptor folder = TNRI_DESCRIPTOR_NONE;
        if (!place_open(&folder, places->paths[i]))
            continue;
        tnr_status status = tnri_notice_read(&notice, &folder, name);
        tnri_descriptor_close(&folder);
        if (status == TNR_OK && notice.generation == 0)
            continue;
        tnri_notice_clean(&notice, 0);
        found = i;
        if (status == TNR_OK && notice.holders_count > 0)
            break;
    }
    return found;
}

tnr_status tnri_names_open(tnri_descriptor *folder, const char *name)
{
    tnri_places places;
    tnri_places_list(&places, tnri_conf_get()->control_dir);
    int place = places.count > 1 ? place_find(&places, name) : -1;
    if (place >= 0 && place_open(folder, places.paths[place]))
        return TNR_OK;
    return home_open(folder, &places);
}

tnr_status tnri_names_lock(tnri_descriptor *folder, const char *name)
{
    char text[128];
    tnr_status status = tnri_names_open(folder, name);
    if (status != TNR_OK)
        return status;
    int waited = 0, result;
    while ((result = flock(folder->file, LOCK_EX | LOCK_NB)) != 0 &&
           (errno == EWOULDBLOCK || errno == EINTR) && waited < PATIENCE_MS) {
        (void)poll(NULL, 0, NAP_MS);
        waited += NAP_MS;
    }
    if (result == 0)
        return TNR_OK;
    int error = errno;
    tnri_descriptor_close(folder);
    if (error == EWOULDBLOCK || error == EINTR)
        return tnri_error(TNR_ERR_FILE,
                          "another process has kept the folder of published names locked for 10 s. "
                          "Is one of them stopped?");
    return tnri_error(TNR_ERR_FILE, "the folder of published names cannot be locked (%s).",
                      tnri_system_text(error, text, sizeof(text)));
}
