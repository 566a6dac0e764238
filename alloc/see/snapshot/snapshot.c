/* SPDX-License-Identifier: Apache-2.0 */
/* From a path to a file: see <tenure/history.h>. */
#include "see/snapshot/snapshot.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "log/history.h"
#include "memory/arena/note.h"
#include "see/snapshot/formats.h"
#include "see/snapshot/report.h"

/* 1 if the path ends so. */
static int path_ends(const char *path, size_t length, const char *end)
{
    size_t bytes = strlen(end);
    return length >= bytes && memcmp(path + length - bytes, end, bytes) == 0;
}

/* What is left open is decided by the end of the path. */
static tnr_status format_decide(const char *path, tnr_snapshot_format *format, int *is_gzip)
{
    size_t length = strlen(path);
    unsigned kind = (unsigned)*format & ~(unsigned)TNR_SNAPSHOT_GZIP;
    if (kind > TNR_SNAPSHOT_PICKLE)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_snapshot_write: there is no format %u. Use TNR_SNAPSHOT_AUTO, _JSON "
                          "or _PICKLE, with TNR_SNAPSHOT_GZIP or without.",
                          (unsigned)*format);
    int ends_in_gz = path_ends(path, length, ".gz");
    *is_gzip = ((unsigned)*format & TNR_SNAPSHOT_GZIP) != 0 || ends_in_gz;
    if (ends_in_gz)
        length -= 3;
    if (kind == TNR_SNAPSHOT_AUTO)
        kind = path_ends(path, length, ".pickle") || path_ends(path, length, ".pkl")
                   ? TNR_SNAPSHOT_PICKLE
                   : TNR_SNAPSHOT_JSON;
    *format = (tnr_snapshot_format)kind;
    return TNR_OK;
}

/* Under the lock of the history. */
static tnr_status picture_write(const tnri_picture *picture, const char *path,
                                tnr_snapshot_format format, int is_gzip)
{
    tnri_sink sink;
    tnr_status status = tnri_sink_open(&sink, path, is_gzip);
    if (status != TNR_OK)
        return status;
    int has_room = format == TNR_SNAPSHOT_PICKLE ? tnri_pickle_write(&sink, picture)
                                                 : tnri_json_write(&sink, picture);
    status = tnri_sink_close(&sink, !has_room);
    if (!has_room && status == TNR_OK)
        status = tnri_error(TNR_ERR_HOST_MEMORY, "no host memory to write a snapshot with.");
    return status;
}

tnr_status tnri_snapshot_take(const char *path, tnr_snapshot_format format, tnri_reason reason)
{
    int is_gzip = 0;
    tnr_status status = format_decide(path, &format, &is_gzip);
    if (status != TNR_OK)
        return status;
    tnri_picture picture;
    tnri_picture_still();
    tnri_history_lock_take();
    tnri_note_moment(TNRI_NOTED_SNAPSHOT);
    status = tnri_picture_take(&picture, reason);
    if (status == TNR_OK) {
        status = picture_write(&picture, path, format, is_gzip);
        tnri_picture_free(&picture);
    }
    tnri_history_lock_release();
    return status;
}

tnr_status tnri_snapshot_take_oom(const char *path, const char *report_path, const char *sentence,
                                  int device, size_t bytes)
{
    tnri_picture picture;
    tnri_sink sink;
    tnri_picture_still();
    tnri_history_lock_take();
    tnri_note_moment(TNRI_NOTED_SNAPSHOT);
    tnr_status status = tnri_picture_take(&picture, TNRI_SNAPSHOT_OOM);
    if (status == TNR_OK) {
        status = picture_write(&picture, path, TNR_SNAPSHOT_JSON, 1);
        tnr_status opened = tnri_sink_open(&sink, report_path, 0);
        if (opened == TNR_OK) {
            tnri_oom_text_write(&sink, &picture, sentence, device, bytes);
            opened = tnri_sink_close(&sink, 0);
        }
        if (status == TNR_OK)
            status = opened;
        tnri_picture_free(&picture);
    }
    tnri_history_lock_release();
    return status;
}
