/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process holds under names: see <tenure/publish.h>.
 *
 * A holding is an export (lifetime/share/exported.h) that a notice speaks of, or spoke of. Older
 * generations are closed exports, listed as long as readers have them. The list has a lock of its
 * own, so that it can be shown while a name is being changed. Changes come one after the other.
 */
#include "share/publish/publish.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/library.h"
#include "base/plural.h"
#include "base/prim/calm.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/lock.h"
#include "base/prim/thread.h"
#include "share/exported.h"
#include "share/imported.h"
#include "share/offered.h"
#include "share/publish/notice.h"
#include "share/sharing.h"

/* TRIES_MAX: generations that a reader, or who takes over, tries one after another. A publisher
 * that replaces without a pause is ahead of it many times in a row. */
enum { OLDER_DEFAULT = 4, TRIES_MAX = 4096, PROCESSES_TOLD = 8 };

typedef struct holding {
    struct holding *next;
    char name[TNR_EXPORT_LABEL_BYTES];
    uint64_t generation;
    size_t bytes;
    tnr_export number;
    int is_latest, is_taken_over, yields;
} holding;

static tnri_mutex changing = TNRI_MUTEX_INIT;

static struct {
    tnri_lock
        lock; /* protects the list; changed under `changing` too. Nothing is taken behind it */
    holding *first;
} all = {.lock = {.rank = TNRI_RANK_HOST}};

/* ---- the list ------------------------------------------------------------------------------- */

/* What this process holds as the latest of a name, or null. Under `changing`. */
static holding *latest_find(const char *name)
{
    holding *one = all.first;
    while (one != NULL && !(one->is_latest && strcmp(one->name, name) == 0))
        one = one->next;
    return one;
}

/* Lets go of the latest of a name, which no notice speaks of any more. Under `changing`. */
static void latest_end(const char *name)
{
    holding *one = latest_find(name);
    if (one == NULL)
        return;
    tnri_lock_take(&all.lock);
    one->is_latest = 0;
    tnri_lock_release(&all.lock);
    (void)tnri_exported_close(one->number); /* unless the device was ended by force */
}

/* Forgets older generations without a reader. Under `changing`. */
static void older_forget(void)
{
    tnri_exported_settle();
    for (holding **link = &all.first, *one; (one = *link) != NULL;) {
        if (one->is_latest || tnri_exported_importers(one->number, NULL, 0) > 0) {
            link = &one->next;
            continue;
        }
        tnri_lock_take(&all.lock);
        *link = one->next;
        tnri_lock_release(&all.lock);
        tnri_host_free(one, sizeof(*one));
    }
}

/* TNR_ERR_BUSY if readers have as many generations of a name as they may. Under `changing`, after
 * older_forget. */
static tnr_status older_check(const char *name, const tnr_publish_options *options)
{
    uint32_t most = options->older_max == 0 ? OLDER_DEFAULT : options->older_max, count = 0;
    const holding *oldest = NULL;
    for (const holding *one = all.first; one != NULL; one = one->next)
        if (strcmp(one->name, name) == 0 && tnri_exported_importers(one->number, NULL, 0) > 0) {
            count++;
            if (oldest == NULL || one->generation < oldest->generation)
                oldest = one;
        }
    if (count <= most)
        return TNR_OK;
    int who = 0;
    uint32_t readers = tnri_exported_importers(oldest->number, &who, 1);
    return tnri_error(TNR_ERR_BUSY,
                      "readers have %u generations of \"%s\" open here, and %u may be older than "
                      "the latest. Generation %llu has %u reader%s, one of them process %ld: have "
                      "them attach the latest and close it.",
                      count, name, most, (unsigned long long)oldest->generation, readers,
                      tnri_plural(readers), (long)who);
}

/* Puts a new latest generation into the list, whose notice is written, and ends the one before.
 * Under `changing`. */
static void latest_enter(holding *fresh, const char *name, const tnri_notice *notice)
{
    latest_end(name);
    (void)snprintf(fresh->name, sizeof(fresh->name), "%s", name);
    fresh->generation = notice->generation;
    fresh->bytes = (size_t)notice->bytes;
    fresh->is_latest = 1;
    tnri_lock_take(&all.lock);
    fresh->next = all.first;
    all.first = fresh;
    tnri_lock_release(&all.lock);
}

/* ---- beginning ------------------------------------------------------------------------------ */

static const tnr_publish_options defaults = TNR_PUBLISH_OPTIONS_INIT;

static tnr_status name_begin(const char *name)
{
    if (tnri_library_is_forked())
        return tnri_forked_error();
    tnr_status status = tnri_name_check(name);
    return status == TNR_OK ? tnri_library_start() : status;
}

/* 1 if the publication is to yield; headers before 1.1.0 have no such field. */
static int options_yield(const tnr_publish_options *options)
{
    return options->struct_bytes == sizeof(*options) && options->yields;
}

static tnr_status options_check(const tnr_publish_options *options)
{
    int is_known = options->struct_bytes == sizeof(*options) ||
                   options->struct_bytes == offsetof(tnr_publish_options, yields); /* 1.0 */
    if (is_known && (unsigned)options->replace <= 1 &&
        (options->struct_bytes < sizeof(*options) || (unsigned)options->yields <= 1))
        return TNR_OK;
    return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                      "the options of a publication are not of this version. Start from "
                      "TNR_PUBLISH_OPTIONS_INIT.");
}

/* What tnr_publish and tnr_hold begin with. On success `changing` is held. */
static tnr_status change_begin(const char *name, const tnr_publish_options **options,
                               holding **fresh)
{
    *options = *options == NULL ? &defaults : *options;
    tnr_status status = name_begin(name);
    if (status != TNR_OK)
        return status;
    status = options_check(*options);
    if (status != TNR_OK)
        return status;
    *fresh = tnri_host_alloc(sizeof(**fresh));
    if (*fresh == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for what is held under a name.");
    (*fresh)->yields = options_yield(*options);
    tnri_mutex_lock(&changing);
    older_forget();
    return TNR_OK;
}

/* The end of both: `fresh` was entered, or goes. */
static void change_end(holding *fresh, int is_entered)
{
    if (!is_entered) {
        tnri_error_aside first;
        tnri_error_take(&first);
        if (fresh->number != 0)
            (void)tnri_exported_close(fresh->number);
        tnri_error_restore(&first);
        tnri_host_free(fresh, sizeof(*fresh));
    }
    tnri_mutex_unlock(&changing);
}

static int has_own(const tnri_notice *notice)
{
    for (uint64_t i = 0; i < notice->holders_count; i++)
        if (tnri_offered_is_own(&notice->holders[i]))
            return 1;
    return 0;
}

/* ---- publishing ----------------------------------------------------------------------------- */

/* Whether this process may make the next generation. */
static tnr_status notice_check(const tnri_notice *notice, const char *name, int replace)
{
    if (replace || notice->holders_count == 0 || has_own(notice))
        return TNR_OK;
    return tnri_error(TNR_ERR_BUSY,
                      "process %ld holds the name \"%s\". Take another name, or say `replace` to "
                      "make the next generation of it.",
                      (long)tnri_offered_process(&notice->holders[0]), name);
}

/* Exports the block and says so, under the lock of the names. */
static tnr_status publish(holding *fresh, tnri_notice *notice, const tnri_descriptor *folder,
                          const char *name, const void *ptr)
{
    tnr_export_info info = {.struct_bytes = sizeof(info)};
    tnr_status status = tnr_export_create(&fresh->number, ptr);
    if (status == TNR_OK)
        status = tnri_offered_name(&notice->holders[0], fresh->number);
    if (status == TNR_OK)
        status = tnri_exported_get(fresh->number, &info);
    if (status != TNR_OK)
        return status;
    notice->holders_count = 1;
    notice->bytes = info.bytes;
    notice->generation++;
    return tnri_notice_write(notice, folder, name);
}

tnr_status tnr_publish(uint64_t *generation, const char *name, const void *ptr,
                       const tnr_publish_options *options)
{
    TNRI_CALM_CALL;
    holding *fresh;
    tnri_notice notice;
    tnri_descriptor folder = TNRI_DESCRIPTOR_NONE;
    tnr_status status = change_begin(name, &options, &fresh);
    if (status != TNR_OK)
        return status;
    status = older_check(name, options);
    if (status == TNR_OK)
        status = tnri_names_lock(&folder, name, TNRI_NAMES_PATIENCE_MS);
    if (status == TNR_OK)
        status = tnri_notice_read(&notice, &folder, name);
    if (status == TNR_OK) {
        tnri_notice_clean(&notice, 0);
        status = notice_check(&notice, name, options->replace);
    }
    if (status == TNR_OK)
        status = publish(fresh, &notice, &folder, name, ptr);
    tnri_descriptor_close(&folder);
    if (status == TNR_OK) {
        latest_enter(fresh, name, &notice);
        if (generation != NULL)
            *generation = notice.generation;
    }
    change_end(fresh, status == TNR_OK);
    return status;
}

/* ---- taking over ---------------------------------------------------------------------------- */

static tnr_status notice_look(tnri_notice *notice, const char *name)
{
    tnri_descriptor folder = TNRI_DESCRIPTOR_NONE;
    tnr_status status = tnri_names_open(&folder, name);
    if (status != TNR_OK)
        return status;
    status = tnri_notice_read(notice, &folder, name);
    tnri_descriptor_close(&folder);
    if (status != TNR_OK || notice->holders_count > 0)
        return status;
    return tnri_error(
        TNR_ERR_INVALID_EXPORT, "no process holds a block under the name \"%s\".%s", name,
        notice->generation > 0 ? " Its holders have ended, or have unpublished it." : "");
}

/* Takes the block over from any of the holders. */
static tnr_status block_adopt(holding *fresh, const tnri_notice *notice)
{
    tnr_status status = TNR_ERR_TRANSPORT;
    tnri_sharing_register();
    for (uint64_t i = 0; i < notice->holders_count && status == TNR_ERR_TRANSPORT; i++) {
        tnri_descriptor connection = TNRI_DESCRIPTOR_NONE;
        status = tnri_offered_ask(&notice->holders[i], &connection);
        if (status == TNR_OK)
            status = tnri_exported_adopt(connection.file, &fresh->number);
        tnri_descriptor_close(&connection);
    }
    return status;
}

/* Adds this process to the holders of the generation that it has taken over. *is_late: there is a
 * newer one. */
static tnr_status holder_add(const holding *fresh, tnri_notice *notice, const char *name,
                             int *is_late)
{
    tnri_descriptor folder = TNRI_DESCRIPTOR_NONE;
    uint64_t generation = notice->generation;
    tnr_status status = tnri_names_lock(&folder, name, TNRI_NAMES_PATIENCE_MS);
    if (status == TNR_OK)
        status = tnri_notice_read(notice, &folder, name);
    *is_late = status == TNR_OK && notice->generation != generation;
    if (status == TNR_OK && !*is_late) {
        tnri_notice_clean(notice, 0);
        if (notice->holders_count == TNR_HOLDERS_MAX)
            status =
                tnri_error(TNR_ERR_BUSY, "\"%s\" has %d holders already.", name, TNR_HOLDERS_MAX);
        if (status == TNR_OK)
            status = tnri_offered_name(&notice->holders[notice->holders_count++], fresh->number);
        if (status == TNR_OK)
            status = tnri_notice_write(notice, &folder, name);
    }
    tnri_descriptor_close(&folder);
    return status;
}

/* One try to become a holder. *is_done: no other is needed; *is_entered: the list has `fresh`. */
static tnr_status hold_try(holding *fresh, tnri_notice *notice, const char *name,
                           const tnr_publish_options *options, int *is_done, int *is_entered)
{
    tnri_notice later;
    int is_late = 0;
    *is_done = 1;
    tnr_status status = notice_look(notice, name);
    if (status != TNR_OK || has_own(notice))
        return status;
    status = older_check(name, options);
    if (status == TNR_OK)
        status = block_adopt(fresh, notice);
    if (status == TNR_ERR_TRANSPORT && notice_look(&later, name) == TNR_OK &&
        later.generation != notice->generation)
        is_late = 1; /* it was replaced while it was asked for */
    if (status == TNR_OK)
        status = holder_add(fresh, notice, name, &is_late);
    if (is_late) {
        if (fresh->number != 0)
            (void)tnri_exported_close(fresh->number);
        fresh->number = 0;
        *is_done = 0;
        return tnri_error(TNR_ERR_TRANSPORT,
                          "new generations of \"%s\" come faster than one can be attached.", name);
    }
    if (status == TNR_OK) {
        fresh->is_taken_over = 1;
        latest_enter(fresh, name, notice);
        *is_entered = 1;
    }
    return status;
}

tnr_status tnr_hold(uint64_t *generation, const char *name, const tnr_publish_options *options)
{
    TNRI_CALM_CALL;
    holding *fresh;
    tnri_notice notice;
    int is_done = 0, is_entered = 0;
    if (options != NULL && options_yield(options))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_hold: what was taken over is the publisher's memory, and does not "
                          "yield. Set `yields` where it is published.");
    tnr_status status = change_begin(name, &options, &fresh);
    if (status != TNR_OK)
        return status;
    for (int i = 0; i < TRIES_MAX && !is_done; i++)
        status = hold_try(fresh, &notice, name, options, &is_done, &is_entered);
    if (status == TNR_OK && generation != NULL)
        *generation = notice.generation;
    change_end(fresh, is_entered);
    return status;
}

/* ---- ending and looking --------------------------------------------------------------------- */

/* Ends what this process holds under a name. Under `changing`. */
static tnr_status publication_end(const char *name, int patience_ms)
{
    tnri_notice notice;
    tnri_descriptor folder = TNRI_DESCRIPTOR_NONE;
    tnr_status status = tnri_names_lock(&folder, name, patience_ms);
    if (status == TNR_OK)
        status = tnri_notice_read(&notice, &folder, name);
    if (status == TNR_OK && has_own(&notice)) {
        tnri_notice_clean(&notice, 1);
        status = tnri_notice_write(&notice, &folder, name);
    }
    tnri_descriptor_close(&folder);
    if (status == TNR_OK) {
        latest_end(name);
        older_forget();
    }
    return status;
}

/* Readers no longer find the name before the export is closed. One that was quicker keeps what it
 * has: then nothing is free. */
size_t tnri_publication_yield(const tnri_device *device)
{
    tnri_error_aside before;
    if (!tnri_mutex_try(&changing))
        return 0;
    tnri_error_take(&before);
    tnri_exported_settle();
    const holding *oldest = NULL; /* the list has the latest first */
    for (const holding *one = all.first; one != NULL; one = one->next)
        if (one->is_latest && one->yields && tnri_exported_is_unused(one->number, device))
            oldest = one;
    size_t bytes = oldest == NULL ? 0 : oldest->bytes;
    if (oldest != NULL && publication_end(oldest->name, 0) != TNR_OK)
        bytes = 0;
    tnri_error_restore(&before);
    tnri_mutex_unlock(&changing);
    return bytes;
}

tnr_status tnr_unpublish(const char *name)
{
    TNRI_CALM_CALL;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    tnr_status status = tnri_name_check(name);
    if (status != TNR_OK)
        return status;
    tnri_mutex_lock(&changing);
    status =
        latest_find(name) != NULL
            ? publication_end(name, TNRI_NAMES_PATIENCE_MS)
            : tnri_error(TNR_ERR_INVALID_EXPORT, "this process holds nothing under \"%s\".", name);
    tnri_mutex_unlock(&changing);
    return status;
}

/* Describes one of the list; 0: there are not so many. */
static tnr_export holding_copy(tnr_publication_info *info, size_t index)
{
    tnr_export number = 0;
    tnri_lock_take(&all.lock);
    const holding *one = all.first;
    for (size_t i = 0; one != NULL && i < index; i++)
        one = one->next;
    if (one != NULL) {
        memcpy(info->name, one->name, sizeof(info->name));
        info->generation = one->generation;
        info->bytes = one->bytes;
        info->is_latest = one->is_latest;
        info->is_taken_over = one->is_taken_over;
        number = one->number;
    }
    tnri_lock_release(&all.lock);
    return number;
}

tnr_status tnr_publication_at(tnr_publication_info *info, size_t index)
{
    TNRI_CALM_CALL;
    if (info == NULL || info->struct_bytes != sizeof(*info))
        return tnri_error(
            TNR_ERR_INVALID_ARGUMENT,
            "tnr_publication_at: set info->struct_bytes to sizeof(tnr_publication_info).");
    if (tnri_library_is_forked())
        return tnri_forked_error();
    tnri_exported_settle();
    tnr_export number;
    for (size_t i = 0, known = 0; (number = holding_copy(info, i)) != 0; i++) {
        int who[PROCESSES_TOLD];
        info->readers = tnri_exported_importers(number, who, PROCESSES_TOLD);
        if (!info->is_latest && info->readers == 0)
            continue; /* it is over, and will be forgotten */
        for (int k = 0; k < PROCESSES_TOLD; k++)
            info->processes[k] = (int)who[k];
        if (known++ == index)
            return TNR_OK;
    }
    return tnri_error(TNR_ERR_INVALID_ARGUMENT, "index is %zu; this process holds fewer blocks.",
                      index);
}

/* ---- reading -------------------------------------------------------------------------------- */

tnr_status tnr_published_get(tnr_published_info *info, const char *name)
{
    TNRI_CALM_CALL;
    tnri_notice notice;
    tnri_descriptor folder = TNRI_DESCRIPTOR_NONE;
    if (info == NULL || info->struct_bytes != sizeof(*info))
        return tnri_error(
            TNR_ERR_INVALID_ARGUMENT,
            "tnr_published_get: set info->struct_bytes to sizeof(tnr_published_info).");
    tnr_status status = name_begin(name);
    if (status == TNR_OK)
        status = tnri_names_open(&folder, name);
    if (status != TNR_OK)
        return status;
    status = tnri_notice_read(&notice, &folder, name);
    tnri_descriptor_close(&folder);
    if (status == TNR_OK && notice.generation == 0)
        status = tnri_error(TNR_ERR_INVALID_EXPORT, "nothing was ever published as \"%s\".", name);
    if (status != TNR_OK)
        return status;
    tnri_notice_clean(&notice, 0);
    *info = (tnr_published_info){.struct_bytes = sizeof(*info),
                                 .generation = notice.generation,
                                 .bytes = (size_t)notice.bytes,
                                 .holders = (uint32_t)notice.holders_count};
    for (uint64_t i = 0; i < notice.holders_count; i++)
        info->processes[i] = (int)tnri_offered_process(&notice.holders[i]);
    return TNR_OK;
}

/* Opens what a notice speaks of, from any of its holders. */
static tnr_status notice_open(tnr_import_info *info, const tnri_notice *notice, int device,
                              const tnr_import_options *options)
{
    tnr_status status = TNR_ERR_TRANSPORT;
    for (uint64_t i = 0; i < notice->holders_count && status == TNR_ERR_TRANSPORT; i++)
        status = tnr_import_open(info, &notice->holders[i], device, options);
    return status;
}

tnr_status tnr_attach(tnr_import_info *info, const char *name, int device,
                      const tnr_import_options *options)
{
    TNRI_CALM_CALL;
    tnr_import_options reading = TNR_IMPORT_OPTIONS_INIT;
    tnri_notice notice, before = {0};
    tnr_status status = name_begin(name), opened = TNR_OK;
    if (options != NULL)
        reading = *options;
    if (status != TNR_OK)
        return status;
    reading.read_only = 1;
    for (int i = 0; i < TRIES_MAX; i++) {
        status = notice_look(&notice, name);
        if (status != TNR_OK || (i > 0 && memcmp(&notice, &before, sizeof(notice)) == 0))
            break;
        opened = notice_open(info, &notice, device, &reading);
        if (opened == TNR_OK) {
            tnri_imported_label(info->ptr, name, notice.generation);
            return tnr_import_get(info, info->ptr);
        }
        if (opened != TNR_ERR_TRANSPORT)
            return opened;
        before = notice;
    }
    return status == TNR_OK ? opened : status;
}
