/* SPDX-License-Identifier: Apache-2.0 */
/* The files of names: see notice.h. */
#include "share/publish/notice.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/conf/conf.h"
#include "base/error.h"
#include "base/prim/clock.h"
#include "base/prim/file.h"
#include "base/prim/process.h"
#include "share/folder.h"
#include "share/offered.h"

/* Another number for each change of tnri_notice. */
#define NOTICE_MAGIC UINT64_C(0x315065727565746e)

enum { NAP_MS = 5, FILE_NAME_BYTES = TNR_EXPORT_LABEL_BYTES + 16 };

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
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "the name to publish under is null.");
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
                     unsigned how)
{
    tnri_descriptors_enter();
    int opened =
        tnri_file_open(folder->file, name, how | TNRI_FILE_UNLINKED | TNRI_FILE_UNWAITED, 0600);
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
        int64_t moved = is_write ? tnri_file_write(file, (char *)data + done, bytes - done)
                                 : tnri_file_read(file, (char *)data + done, bytes - done);
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
    tnri_file_facts found;
    tnri_descriptor file = TNRI_DESCRIPTOR_NONE;
    memset(notice, 0, sizeof(*notice));
    snprintf(file_name, sizeof(file_name), "%s.published", name);
    int error = file_open(&file, folder, file_name, 0);
    if (error == ENOENT)
        return TNR_OK;
    if (error == 0 && !tnri_file_ask(file.file, &found))
        error = errno;
    int is_ours = error == 0 && found.is_regular && found.user == tnri_process_user() &&
                  found.bytes == sizeof(*notice);
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
        (void)tnri_name_remove(folder->file, new_name);
        error = file_open(&file, folder, new_name, TNRI_FILE_WRITE | TNRI_FILE_NEW);
    }
    if (error == 0)
        error = file_move(file.file, &written, sizeof(written), 1);
    tnri_descriptor_close(&file);
    if (error == 0 && !tnri_name_move(folder->file, new_name, file_name))
        error = errno;
    if (error == 0)
        return TNR_OK;
    (void)tnri_name_remove(folder->file, new_name);
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

tnr_status tnri_names_lock(tnri_descriptor *folder, const char *name, int patience_ms)
{
    char text[128];
    tnr_status status = tnri_names_open(folder, name);
    if (status != TNR_OK)
        return status;
    int waited = 0, is_locked;
    while (!(is_locked = tnri_file_lock(folder->file, 0)) &&
           (errno == EWOULDBLOCK || errno == EINTR) && waited < patience_ms) {
        tnri_nap(NAP_MS * UINT64_C(1000000));
        waited += NAP_MS;
    }
    if (is_locked)
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
