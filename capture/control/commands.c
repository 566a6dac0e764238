/* SPDX-License-Identifier: Apache-2.0 */
/* What requests do: see commands.h. */
#include "control/commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <tenure/compact.h>
#include <tenure/history.h>
#include <tenure/tag.h>

#include "api/library.h"
#include "base/error.h"
#include "base/prim/file.h"
#include "base/prim/process.h"
#include "memory/device/tag.h"

/* A request on its way. */
typedef struct task {
    tnri_connection *connection;
    const tnri_control_place *place;
    const tnri_control_request *request;
    tnri_answer *answer;
} task;

static unsigned snapshots_count; /* of this process; the serving thread's */

void tnri_greet(tnri_answer *answer)
{
    char version[32];
    unsigned number = tnr_version();
    snprintf(version, sizeof(version), "%u.%u.%u", number / 10000, number / 100 % 100,
             number % 100);
    tnri_answer_clear(answer);
    tnri_json_object(&answer->json, NULL);
    tnri_json_number(&answer->json, "protocol", TNRI_CONTROL_PROTOCOL);
    tnri_json_text(&answer->json, "tenure", version);
    tnri_json_number(&answer->json, "pid", (uint64_t)tnri_process_id());
    tnri_json_text(&answer->json, "program", tnri_program_name());
    tnri_json_object_end(&answer->json);
    tnri_answer_end(answer);
}

/* ---- on devices ----------------------------------------------------------------------------- */

/* What a command does on one device; adds what it says of it to the answer. */
typedef tnr_status (*device_work)(const task *self, int device);

/* Null: it is no device, or not in use. */
static tnri_device *device_used(tnri_device *device)
{
    return device != NULL && atomic_load_explicit(&device->in_use, memory_order_acquire) ? device
                                                                                         : NULL;
}

/* Refuses tags that no memory has before anything is done on any device. */
static tnr_status tags_check(const tnri_control_request *request)
{
    for (size_t i = 0; i < request->tags_count; i++) {
        tnr_stats stats = {.struct_bytes = sizeof(stats)};
        for (int d = 0; d < tnri_devices_count(); d++)
            if (device_used(tnri_device_at(d)) != NULL) {
                tnr_status status = tnr_tag_stats_get(&stats, request->tags[i], d);
                if (status != TNR_OK)
                    return status;
                break; /* it is the name that is asked about */
            }
    }
    return TNR_OK;
}

/* What a device has now. */
static void device_told(const task *self, int device, int has_released, size_t released)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    if (tnr_stats_get(&stats, NULL, device) != TNR_OK)
        return;
    tnri_json_object(&self->answer->json, NULL);
    tnri_json_number(&self->answer->json, "device", (uint64_t)device);
    if (has_released)
        tnri_json_number(&self->answer->json, "released_bytes", released);
    tnri_json_number(&self->answer->json, "reserved_bytes", stats.reserved_bytes.current);
    tnri_json_number(&self->answer->json, "asleep_bytes", stats.bytes_asleep);
    tnri_json_limit(&self->answer->json, "limit_bytes", stats.limit_bytes);
    if (self->request->tags_count > 0) {
        tnri_json_list(&self->answer->json, "tags");
        for (size_t i = 0; i < self->request->tags_count; i++)
            tnri_tag_tell(self->answer, self->request->tags[i], device);
        tnri_json_list_end(&self->answer->json);
    }
    tnri_json_object_end(&self->answer->json);
}

static tnr_status sleep_work(const task *self, int device)
{
    const tnri_control_request *request = self->request;
    tnr_sleep_options options = TNR_SLEEP_OPTIONS_INIT;
    options.content = request->content;
    options.keep_backing = request->keep_backing;
    options.pinned_bytes_max = (size_t)request->pinned_bytes_max;
    tnr_status status = request->tags_count > 0
                            ? tnr_tags_sleep(request->tags, request->tags_count, device, &options)
                            : tnr_device_sleep(device, &options);
    if (status == TNR_OK)
        device_told(self, device, 0, 0);
    return status;
}

static tnr_status wake_work(const task *self, int device)
{
    const tnri_control_request *request = self->request;
    tnr_status status = request->tags_count > 0
                            ? tnr_tags_wake(request->tags, request->tags_count, device)
                            : tnr_device_wake(device);
    if (status == TNR_OK)
        device_told(self, device, 0, 0);
    return status;
}

static tnr_status trim_work(const task *self, int device)
{
    const tnri_control_request *request = self->request;
    size_t released = 0, keep = (size_t)request->bytes;
    tnr_status status = request->tags_count == 0 ? tnr_trim(&released, keep, device) : TNR_OK;
    for (size_t i = 0; i < request->tags_count && status == TNR_OK; i++) {
        size_t part = 0;
        status = tnr_tag_trim(&part, request->tags[i], keep, device);
        released += part;
    }
    if (status == TNR_OK)
        device_told(self, device, 1, released);
    return status;
}

static tnr_status compact_work(const task *self, int device)
{
    size_t released = 0;
    tnr_status status = tnr_device_compact(&released, device);
    if (status == TNR_OK)
        device_told(self, device, 1, released);
    return status;
}

/* The error of a request above the limit says which command set it. */
static void limit_sign(const tnri_control_request *request, int device)
{
    static const char by[] = "tenure ctl";
    tnri_device *found;
    if (tnri_library_device(device, &found) != TNR_OK)
        return;
    if (request->tags_count == 0)
        atomic_store(&found->limit_by, by);
    for (size_t i = 0; i < request->tags_count; i++) {
        tnri_tag *tag = tnri_tag_find(request->tags[i]);
        if (tag != NULL)
            atomic_store(&tag->on[found->index].limit_by, by);
    }
}

static tnr_status limit_work(const task *self, int device)
{
    const tnri_control_request *request = self->request;
    size_t limit = request->bytes == UINT64_MAX ? SIZE_MAX : (size_t)request->bytes;
    tnr_status status = request->tags_count == 0 ? tnr_limit_set(limit, device) : TNR_OK;
    for (size_t i = 0; i < request->tags_count && status == TNR_OK; i++)
        status = tnr_tag_limit_set(request->tags[i], limit, device);
    if (status == TNR_OK) {
        limit_sign(request, device);
        device_told(self, device, 0, 0);
    }
    return status;
}

/* ---- on which devices ----------------------------------------------------------------------- */

/* 1 if a command without a device goes for this one: host memory does not sleep, and has a limit
 * only if it is named. */
static int is_meant(const tnri_device *device, device_work work)
{
    return !tnri_device_is_host(device) || work == trim_work;
}

/* On the device that is named, or on all that the process uses, one after the other until one
 * refuses. Those before it stay as they are then: what has been done is in the answer. */
static tnr_status devices_work(const task *self, device_work work)
{
    const tnri_control_request *request = self->request;
    int is_started = atomic_load(&tnri_generation) != 0;
    int is_known = request->device < TNRI_DEVICE_NUMBERS;
    if (request->has_device &&
        (!is_started || !is_known || device_used(tnri_device_at((int)request->device)) == NULL))
        return tnri_error(TNR_ERR_INVALID_DEVICE, "this process does not use device %llu.",
                          (unsigned long long)request->device);
    tnr_status status = tags_check(request);
    if (status != TNR_OK)
        return status;
    tnri_device *device;
    tnri_json_list(&self->answer->json, "devices");
    for (int i = 0; is_started && (device = tnri_device_nth(i)) != NULL && status == TNR_OK; i++)
        if (device_used(device) != NULL &&
            (request->has_device ? request->device == (uint64_t)device->index
                                 : is_meant(device, work)))
            status = work(self, device->index);
    tnri_json_list_end(&self->answer->json);
    return status;
}

/* ---- snapshots and settings ----------------------------------------------------------------- */

void tnri_snapshot_forget(tnri_connection *connection, int folder)
{
    if (connection->snapshot[0] != '\0')
        (void)tnri_name_remove(folder, connection->snapshot);
    connection->snapshot[0] = '\0';
}

/* Into the folder, which the controller sees too, wherever it is mounted there. */
static tnr_status snapshot_work(const task *self)
{
    static const char *const formats[] = {"json.gz", "json", "pickle", "pickle.gz"};
    const char *format = self->request->format == NULL ? formats[0] : self->request->format;
    char path[TNRI_FOLDER_BYTES + TNRI_FILE_NAME_BYTES + 1];
    char *name = self->connection->snapshot;
    tnri_file_facts found = {0};
    size_t known = 0;
    while (known < 4 && strcmp(format, formats[known]) != 0)
        known++;
    if (known == 4)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "format must be json, json.gz, pickle or pickle.gz, not \"%.20s\".",
                          format);
    if (atomic_load(&tnri_generation) == 0)
        return tnri_error(TNR_ERR_SHUTDOWN, "this process has not started Tenure yet, or has shut "
                                            "it down.");
    snprintf(name, TNRI_FILE_NAME_BYTES, "%s-%u.%s", self->place->name, ++snapshots_count, format);
    snprintf(path, sizeof(path), "%s/%s", self->place->path, name);
    (void)tnri_name_remove(self->place->folder, name); /* a pipe there would be waited for */
    tnr_status status = tnr_snapshot_write(path, TNR_SNAPSHOT_AUTO);
    if (status != TNR_OK) {
        name[0] = '\0'; /* nothing is left of it */
        return status;
    }
    (void)tnri_name_ask(self->place->folder, name, &found);
    tnri_json_text(&self->answer->json, "file", name);
    tnri_json_number(&self->answer->json, "bytes", found.bytes);
    return TNR_OK;
}

static tnr_status settings_work(const task *self)
{
    tnr_setting_info info = {.struct_bytes = sizeof(info)};
    if (self->request->set != NULL)
        return tnr_configure(self->request->set);
    tnri_json_list(&self->answer->json, "settings");
    for (size_t i = 0; tnr_setting_get(&info, i) == TNR_OK; i++) {
        tnri_json_object(&self->answer->json, NULL);
        tnri_json_text(&self->answer->json, "key", info.key);
        tnri_json_text(&self->answer->json, "value", info.value);
        tnri_json_text(&self->answer->json, "default", info.default_value);
        tnri_json_flag(&self->answer->json, "is_set", info.is_set);
        tnri_json_flag(&self->answer->json, "at_start", info.at_start);
        tnri_json_object_end(&self->answer->json);
    }
    tnri_json_list_end(&self->answer->json);
    return TNR_OK;
}

static tnr_status status_work(const task *self)
{
    tnri_status_tell(self->answer, self->request->has_streams, self->request->has_account);
    return TNR_OK;
}

/* ---- serving -------------------------------------------------------------------------------- */

static tnr_status command_work(const task *self)
{
    static const device_work on_devices[TNRI_COMMAND_COUNT] = {
        [TNRI_COMMAND_SLEEP] = sleep_work, [TNRI_COMMAND_WAKE] = wake_work,
        [TNRI_COMMAND_TRIM] = trim_work,   [TNRI_COMMAND_COMPACT] = compact_work,
        [TNRI_COMMAND_LIMIT] = limit_work,
    };
    switch (self->request->command) {
    case TNRI_COMMAND_STATUS:
        return status_work(self);
    case TNRI_COMMAND_SNAPSHOT:
        return snapshot_work(self);
    case TNRI_COMMAND_SETTINGS:
        return settings_work(self);
    default:
        return devices_work(self, on_devices[self->request->command]);
    }
}

void tnri_serve(tnri_connection *connection, const tnri_control_place *place, char *line,
                size_t length)
{
    char error[256];
    tnri_control_request request;
    tnri_answer *answer = &connection->answer;
    tnri_snapshot_forget(connection, place->folder);
    int is_good = tnri_request_read(&request, line, length, error, sizeof(error));
    uint64_t id = request.has_id ? request.id : UINT64_MAX;
    if (!is_good) {
        tnri_answer_refuse(answer, id, TNR_ERR_INVALID_ARGUMENT, error);
        return;
    }
    task self = {connection, place, &request, answer};
    tnri_answer_clear(answer);
    tnri_json_object(&answer->json, NULL);
    if (request.has_id)
        tnri_json_number(&answer->json, "id", id);
    tnri_json_text(&answer->json, "command", tnri_command_name(request.command));
    tnr_status status = command_work(&self);
    tnri_json_flag(&answer->json, "ok", status == TNR_OK);
    if (status != TNR_OK) {
        tnri_json_text(&answer->json, "status", tnr_status_name(status));
        tnri_json_text(&answer->json, "message", tnr_last_error());
    }
    tnri_json_object_end(&answer->json);
    tnri_answer_end(answer);
}
