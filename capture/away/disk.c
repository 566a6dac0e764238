/* SPDX-License-Identifier: Apache-2.0 */
/* Files for contents: see disk.h. */
#include "away/disk.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes_text.h"
#include "base/conf/conf.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/prim/file.h"
#include "base/prim/pages.h"
#include "base/prim/process.h"
#include "base/prim/thread.h"

enum { NAME_BYTES = 64, NAMES_TRIED = 1000 };

size_t tnri_disk_file_bytes = (size_t)64 << 20;

struct tnri_disk_file {
    tnri_disk_file *next, **link; /* all that there are: the mutex */
    size_t room;                  /* of the path, which leads there from any folder */
    char path[];
};

/* A mutex, because the exit removes files under it. */
static tnri_mutex mutex = TNRI_MUTEX_INIT;
static tnri_disk_file *files; /* the mutex */
static tnri_once exit_once = TNRI_ONCE_INIT;
static int process; /* whose exit removes the files: not a forked child's */

/* ---- the end of the process ----------------------------------------------------------------- */

static void exit_remove(void)
{
    if (tnri_process_id() != process)
        return;
    tnri_mutex_lock(&mutex);
    for (const tnri_disk_file *file = files; file != NULL; file = file->next)
        (void)tnri_name_remove(TNRI_FOLDER_OWN, file->path);
    tnri_mutex_unlock(&mutex);
}

static void exit_watch(void)
{
    process = tnri_process_id();
    (void)atexit(exit_remove);
}

/* ---- files ---------------------------------------------------------------------------------- */

static void file_free(tnri_disk_file *file)
{
    tnri_host_free(file, sizeof(*file) + file->room);
}

static void file_list(tnri_disk_file *file)
{
    tnri_mutex_lock(&mutex);
    file->next = files;
    file->link = &files;
    if (files != NULL)
        files->link = &file->next;
    files = file;
    tnri_mutex_unlock(&mutex);
}

static void file_unlist(tnri_disk_file *file)
{
    tnri_mutex_lock(&mutex);
    *file->link = file->next;
    if (file->next != NULL)
        file->next->link = file->link;
    tnri_mutex_unlock(&mutex);
}

/* Opens a new file in the folder. 0, or an error number. */
static int file_open(tnri_disk_file *file, const char *folder, int *opened)
{
    static _Atomic uint64_t last;
    for (int tries = 0; tries < NAMES_TRIED; tries++) {
        snprintf(file->path, file->room, "%s/tenure-%d-%llu.contents", folder, tnri_process_id(),
                 (unsigned long long)atomic_fetch_add(&last, 1));
        *opened = tnri_file_open(TNRI_FOLDER_OWN, file->path,
                                 TNRI_FILE_BOTH | TNRI_FILE_NEW | TNRI_FILE_UNLINKED, 0600);
        if (*opened >= 0)
            return 0;
        if (errno != EEXIST) /* it may be what a killed process with this number has left */
            return errno;
    }
    return EEXIST;
}

static tnr_status file_refuse(const tnri_disk_file *file, int error, size_t bytes)
{
    char text[128];
    return tnri_error(TNR_ERR_FILE,
                      "%s cannot have the %s of contents that are to be kept there: %s. Make room, "
                      "set contents_dir to another folder, or keep them in host memory "
                      "(TNR_CONTENT_KEEP).",
                      file->path, TNRI_BYTES(bytes), tnri_system_text(error, text, sizeof(text)));
}

static tnr_status file_map(tnri_disk_file *file, const char *folder, void **memory, size_t bytes)
{
    int opened = -1;
    int error = file_open(file, folder, &opened);
    if (error != 0)
        return file_refuse(file, error, bytes);
    file_list(file); /* from now on the exit removes it */
    error = tnri_file_fill(opened, bytes);
    *memory = error == 0 ? tnri_host_pages_share(opened, bytes) : NULL;
    if (error == 0 && *memory == NULL)
        error = errno;
    (void)tnri_file_close(opened); /* the mapping keeps the file */
    if (error == 0)
        return TNR_OK;
    file_unlist(file);
    (void)tnri_name_remove(TNRI_FOLDER_OWN, file->path);
    return file_refuse(file, error, bytes);
}

tnr_status tnri_disk_map(tnri_disk_file **made, void **memory, size_t bytes)
{
    const char *set = tnri_conf_get()->contents_dir;
    char folder[TNRI_PATH_BYTES];
    if (set[0] == '\0')
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "contents are to be kept on a disk (TNR_CONTENT_DISK), and no folder is "
                          "set. Set contents_dir to one.");
    tnri_once_run(&exit_once, exit_watch);
    if (!tnri_path_real(set, folder)) /* the program may go to another folder before the wake */
        snprintf(folder, sizeof(folder), "%s", set); /* the open says why */
    size_t room = strlen(folder) + NAME_BYTES;
    tnri_disk_file *file = tnri_host_alloc(sizeof(*file) + room);
    if (file == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the record of contents.");
    file->room = room;
    tnr_status status = file_map(file, folder, memory, bytes);
    if (status == TNR_OK)
        *made = file;
    else
        file_free(file);
    return status;
}

tnr_status tnri_disk_settle(const tnri_disk_file *file, void *memory, size_t bytes)
{
    int error = tnri_host_pages_settle(memory, bytes);
    return error == 0 ? TNR_OK : file_refuse(file, error, bytes);
}

void tnri_disk_unmap(tnri_disk_file *file, void *memory, size_t bytes)
{
    tnri_host_pages_unmap(memory, bytes);
    file_unlist(file);
    (void)tnri_name_remove(TNRI_FOLDER_OWN, file->path);
    file_free(file);
}
