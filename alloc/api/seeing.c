/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions of <tenure/history.h>: history, marks, names, snapshots, walks. */
#include <tenure/history.h>

#include <stdio.h>
#include <string.h>

#include "api/library.h"
#include "base/prim/calm.h"
#include "base/error.h"
#include "log/history.h"
#include "log/mappings.h"
#include "log/note.h"
#include "log/origins.h"
#include "log/ring.h"
#include "log/stacks.h"
#include "log/texts.h"
#include "memory/device/upper.h"
#include "memory/pool/family.h"
#include "see/snapshot/snapshot.h"

enum { RECORDS_MAX = 1 << 30 };

tnr_status tnr_history_set(size_t records, tnr_history_mode mode)
{
    TNRI_CALM_CALL;
    if ((int)mode < 0 || mode > TNR_HISTORY_FULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_history_set: there is no mode %d. Use TNR_HISTORY_OFF, _LIGHT or "
                          "_FULL.",
                          (int)mode);
    if (records > RECORDS_MAX)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_history_set: %zu records are too many; the most is %d.", records,
                          RECORDS_MAX);
    tnr_status status = tnri_library_start();
    if (status != TNR_OK)
        return status;
    static const char *const words[] = {"off", "light", "full"};
    char text[80];
    if (records == 0)
        snprintf(text, sizeof(text), "history:%s", words[mode]);
    else
        snprintf(text, sizeof(text), "history:%s,history_records:%zu", words[mode], records);
    return tnr_configure(text);
}

tnr_status tnr_history_get(tnr_history_info *info)
{
    TNRI_CALM_CALL;
    if (info == NULL || info->struct_bytes != sizeof(*info))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_history_get: set info->struct_bytes to sizeof(tnr_history_info).");
    if (tnri_library_is_forked())
        return tnri_forked_error();
    tnri_history_lock_take();
    tnri_ring_sums sums = tnri_ring_sums_get();
    info->mode = tnri_history_mode();
    info->records_max = sums.capacity;
    info->written = sums.written;
    info->overwritten = sums.overwritten;
    info->missed = sums.missed;
    info->stacks = tnri_stacks_count();
    info->stacks_missed = tnri_stacks_missed();
    tnri_history_lock_release();
    return TNR_OK;
}

tnr_status tnr_frames_source_set(tnr_frames_take take, tnr_frames_describe describe)
{
    TNRI_CALM_CALL;
    tnr_frames_describe none = NULL;
    if ((take == NULL) != (describe == NULL))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_frames_source_set: one function without the other. Give "
                          "both, or null for both.");
    if (tnri_library_is_forked())
        return tnri_forked_error();
    if (describe != NULL &&
        !atomic_compare_exchange_strong(&tnri_frames_describe, &none, describe) && none != describe)
        return tnri_error(TNR_ERR_BUSY, "tnr_frames_source_set: another interpreter has set its "
                                        "functions in this process.");
    atomic_store(&tnri_frames_take, take);
    return TNR_OK;
}

tnr_status tnr_mark(const char *text)
{
    TNRI_CALM_CALL;
    tnr_status status = tnri_library_start();
    if (status != TNR_OK)
        return status;
    int no_host = 0;
    uint32_t number = tnri_text_number(text, &no_host);
    if (no_host)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for one more text of tnr_mark.");
    tnri_note_thread *thread = tnri_note_here();
    thread->mark = number;
    thread->mark_epoch = atomic_load_explicit(&tnri_library_epoch, memory_order_relaxed);
    uint32_t began = tnri_note_begin();
    tnri_note_moment(TNRI_NOTED_MARK);
    tnri_note_end(began);
    return TNR_OK;
}

/* ---- names of streams ----------------------------------------------------------------------- */

/* The end of what a name keeps: no character of UTF-8 is cut in two. */
static size_t name_end(const char *name)
{
    size_t length = strnlen(name, TNR_STREAM_NAME_BYTES);
    if (length < TNR_STREAM_NAME_BYTES)
        return length;
    length = TNR_STREAM_NAME_BYTES - 1;
    while (length > 0 && ((unsigned char)name[length] & 0xc0) == 0x80)
        length--;
    return length;
}

/* The number of a name; what would break a line or a terminal is a blank in it. */
static uint32_t name_number(const char *name, int *no_host)
{
    char kept[TNR_STREAM_NAME_BYTES];
    size_t length = name_end(name);
    for (size_t i = 0; i < length; i++)
        kept[i] = (unsigned char)name[i] < 0x20 || name[i] == 0x7f ? ' ' : name[i];
    kept[length] = '\0';
    return tnri_text_number(kept, no_host);
}

tnr_status tnr_stream_name_set(int device_index, tnr_stream handle, const char *name)
{
    TNRI_CALM_CALL;
    tnri_device *device;
    tnri_stream *stream;
    int no_host = 0;
    tnr_status status = tnri_library_device(device_index, &device);
    if (status == TNR_OK)
        status = tnri_stream_is_capturing(handle)
                     ? tnri_stream_find_captured(device, handle, &stream)
                     : tnri_stream_find(device, handle, &stream);
    if (status != TNR_OK)
        return status;
    uint32_t number = name == NULL ? 0 : name_number(name, &no_host);
    if (no_host)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for one more name of a stream.");
    /* Either this sees that there are origins, or who makes the first sees the name. */
    if (atomic_exchange(&stream->name, number) != number && atomic_load(&stream->has_origins))
        tnri_origins_name(stream->number, &stream->name);
    return TNR_OK;
}

/* ---- pictures ------------------------------------------------------------------------------- */

tnr_status tnr_snapshot_write(const char *path, tnr_snapshot_format format)
{
    TNRI_CALM_CALL;
    if (path == NULL || path[0] == '\0')
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "tnr_snapshot_write: path is null or empty.");
    tnr_status status = tnri_library_start();
    if (status != TNR_OK)
        return status;
    (void)tnri_uppers_settle(NULL, 0); /* graphs that have ended are in no picture */
    return tnri_snapshot_take(path, format, TNRI_SNAPSHOT_CALL);
}

void tnr_mappings_follow(int is_wanted)
{
    TNRI_CALM_CALL;
    tnri_mappings_follow(is_wanted != 0);
}

size_t tnr_mappings_take(tnr_mapping *mappings, uint64_t *lost, size_t room)
{
    TNRI_CALM_CALL;
    uint64_t uncounted;
    if (mappings == NULL || lost == NULL)
        return tnri_mappings_take(NULL, &uncounted, 0);
    return tnri_mappings_take(mappings, lost, room);
}

tnr_status tnr_memory_walk(tnr_pool handle, int device, tnr_walk_visit visit, void *user)
{
    TNRI_CALM_CALL;
    if (visit == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "tnr_memory_walk: visit is null.");
    tnri_device *found = NULL;
    tnr_pool pool = NULL;
    tnr_status status = handle == NULL ? tnri_library_device(device, &found)
                                       : tnri_library_pool_named(handle, device, &pool);
    if (status != TNR_OK)
        return status;
    if (pool != NULL) {
        handle = tnri_family_is(handle) ? pool->handle : handle;
        tnri_pool_drop(pool);
    }
    (void)tnri_uppers_settle(NULL, 0); /* graphs that have ended keep nothing */
    return tnri_memory_walk(handle, device, visit, user);
}
