/* SPDX-License-Identifier: Apache-2.0 */
/* Joining, giving and leaving: see member.h. What is asked of the others is in ask.c. */
#include "share/group/member.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf/conf.h"
#include "base/error.h"
#include "base/prim/file.h"
#include "base/prim/helper.h"
#include "base/prim/process.h"
#include "base/prim/thread.h"
#include "memory/device/upper.h"
#include "miss/reclaim.h"
#include "share/folder.h"
#include "share/group/ask.h"
#include "share/publish/publish.h"

enum { NAP_NS = 1000000, NAP_SHARE = 9 };

static tnri_member members[TNRI_DEVICE_NUMBERS]; /* host memory is in no group */
static tnri_once watch_once = TNRI_ONCE_INIT;

tnri_member *tnri_member_on(const tnri_device *device)
{
    return &members[device->index];
}

/* ---- giving --------------------------------------------------------------------------------- */

int tnri_member_yield(tnri_member *self)
{
    size_t bytes = tnri_publication_yield(self->device);
    atomic_fetch_add(&self->yields, bytes > 0);
    atomic_fetch_add(&self->yielded_bytes, bytes);
    return bytes > 0;
}

/* How many could give to somebody. */
static uint64_t givers_count(const tnri_member *self, int asker)
{
    uint64_t count = 0;
    for (int i = 0; i < TNRI_SEATS_MAX; i++) {
        const tnri_seat *seat = &self->at.board->seats[i];
        count += i != asker && atomic_load(&seat->process) != 0 &&
                 atomic_load(&seat->reserved_bytes) > atomic_load(&seat->floor_bytes);
    }
    return count == 0 ? 1 : count;
}

/* What this member is still to give to another: what that one lacks, of what it has asked for since
 * this one last looked in vain. */
static uint64_t lack_of(const tnri_member *self, int asker, uint64_t asked)
{
    const tnri_seat *seat = &self->at.board->seats[asker];
    int64_t lack = (int64_t)(asked - atomic_load(&seat->given_bytes));
    int64_t since = (int64_t)(asked - self->seen[asker]);
    lack = lack < since ? lack : since;
    return lack > 0 ? (uint64_t)lack : 0;
}

/* Gives to one asker, in pieces, so that several givers share what there is to give. Returns how
 * often it looked. */
static int member_give(tnri_member *self, int asker, size_t *held)
{
    tnri_seat *own = tnri_seat_own(&self->at), *seat = &self->at.board->seats[asker];
    uint64_t asked = atomic_load(&seat->asked_bytes), lack;
    int looks = 0, has_yielded = 0;
    size_t floor = (size_t)atomic_load(&own->floor_bytes);
    while ((lack = lack_of(self, asker, asked)) > 0 && !atomic_load(&self->is_ending)) {
        uint64_t piece = (lack - 1) / givers_count(self, asker) + 1;
        int is_short = atomic_load(&seat->short_count) > 0;
        /* graphs may have ended that nobody has looked for */
        (void)tnri_uppers_settle(self->device, 0);
        uint64_t given =
            tnri_reclaim_for_others(self->device, (size_t)piece, floor, is_short, held);
        looks++;
        /* One at a time: what is asked for has what was asked for before in it. */
        if (given == 0 && is_short && *held == 0 && !has_yielded &&
            atomic_load(&own->reserved_bytes) > floor && (has_yielded = tnri_member_yield(self)))
            continue;
        if (given == 0)
            break;
        atomic_fetch_add(&own->gave_bytes, given); /* first: who is given it looks at both */
        atomic_fetch_add(&seat->given_bytes, given);
        self->seen[asker] += given;
    }
    if (*held == 0) /* else what is on its way is still to be given */
        self->seen[asker] = asked;
    return looks;
}

/* Gives to all who have asked. Returns what is on its way back to the driver: it waits for work. */
static size_t member_pass(tnri_member *self)
{
    size_t held = 0;
    int looks = 0;
    for (int i = 0; i < TNRI_SEATS_MAX; i++)
        if (tnri_seat_lives(&self->at, i))
            looks += member_give(self, i, &held);
    if (looks == 0) /* what was on its way before */
        (void)tnri_reclaim_for_others(self->device, 0, 0, 0, &held);
    return held;
}

/* At most a tenth of a processor goes into looking in vain for what could be given, and half of one
 * into giving, unless somebody waits for it: who grows meanwhile adds to what all have. */
static void member_nap(tnri_member *self, uint32_t urgent, uint64_t began_ns, int has_given)
{
    uint64_t nap = (tnri_clock_ns() - began_ns) * (has_given ? 1 : NAP_SHARE);
    tnri_word_wait(&tnri_seat_own(&self->at)->urgent, urgent, nap < NAP_NS ? NAP_NS : nap);
}

static void *member_run(void *argument)
{
    tnri_member *self = argument;
    tnri_seat *own = tnri_seat_own(&self->at);
    uint32_t looked = atomic_load(&own->answered);
    size_t held = 0;
    while (!atomic_load(&self->is_ending)) {
        uint32_t rings = atomic_load(&own->rings), urgent = atomic_load(&own->urgent);
        if (rings == looked && held == 0) {
            tnri_word_wait(&own->rings, rings, UINT64_MAX);
            continue;
        }
        uint64_t began_ns = tnri_clock_ns(), gave = atomic_load(&own->gave_bytes);
        tnri_mutex_lock(&self->turn);
        held = atomic_load(&self->is_ending) ? 0 : member_pass(self);
        tnri_mutex_unlock(&self->turn);
        looked = rings;
        if (held == 0) {
            atomic_store(&own->answered, rings);
            atomic_store(&own->is_silent, 0);
        }
        tnri_word_ring(&self->at.board->answers);
        member_nap(self, urgent, began_ns, atomic_load(&own->gave_bytes) != gave);
    }
    tnri_helper_end();
    return NULL;
}

static void thread_end(tnri_member *self)
{
    atomic_store(&self->is_ending, 1);
    tnri_word_ring(&tnri_seat_own(&self->at)->rings);
    tnri_word_ring(&tnri_seat_own(&self->at)->urgent);
}

/* ---- forks and the end of the process ------------------------------------------------------- */

static void fork_child(void)
{
    for (int i = 0; i < TNRI_DEVICES_MAX; i++)
        if (members[i].at.board != NULL) {
            atomic_store(&members[i].device->in_group, 0);
            tnri_board_forget(&members[i].at);
        }
}

/* The end of the process: the threads go, unless they are in the middle of something that may take
 * for ever. What the process had of the device stands at its seat until the driver has it back. */
static void exit_end(void)
{
    for (int i = 0; i < TNRI_DEVICES_MAX; i++) {
        tnri_member *self = &members[i];
        if (self->at.board == NULL || !tnri_mutex_try(&self->turn))
            continue;
        atomic_store(&self->device->in_group, 0);
        thread_end(self);
        tnri_mutex_unlock(&self->turn);
        tnri_thread_join(self->thread);
        tnri_board_rise(&self->at, 0);
    }
}

static void watch_begin(void)
{
    tnri_forks_watch(NULL, NULL, fork_child);
    (void)atexit(exit_end);
}

/* ---- joining and leaving -------------------------------------------------------------------- */

/* The name of a board: the group's, and the device's, which is the same for all processes. */
static void board_name(char *name, size_t bytes, const tnri_device *device)
{
    CUuuid uuid;
    int length = snprintf(name, bytes, "%s-", tnri_conf_get()->group);
    if (!tnri_gpu_has(TNRI_GPU_DEVICE_UUID) ||
        tnri_gpu_device_uuid(&uuid, device->capabilities.handle) != CUDA_SUCCESS) {
        snprintf(name + length, bytes - (size_t)length, "%d.group", device->index);
        return;
    }
    for (size_t i = 0; i < sizeof(uuid.bytes); i++)
        length += snprintf(name + length, bytes - (size_t)length, "%02x",
                           (unsigned)(unsigned char)uuid.bytes[i]);
    snprintf(name + length, bytes - (size_t)length, ".group");
}

/* 1 if somebody else sits there. */
static int has_company(const tnri_sitting *at)
{
    for (int i = 0; i < TNRI_SEATS_MAX; i++)
        if (tnri_seat_lives(at, i))
            return 1;
    return 0;
}

/* Sits down at a board that is there, at a place. `is_shared`: only if somebody else sits there. */
static tnr_status place_sit(tnri_sitting *at, const char *path, const char *name, int is_shared)
{
    int folder;
    if (!tnri_place_open(&folder, path))
        return TNR_ERR_FILE;
    tnr_status status = tnri_board_sit(at, folder, path, name, 0);
    tnri_file_close(folder);
    if (status != TNR_OK || !is_shared || has_company(at))
        return status;
    tnri_board_rise(at, 1);
    return TNR_ERR_FILE;
}

/* Where others sit; else at the board that is there, the last one, where processes sit that see no
 * other place; else at a new one. */
static tnr_status member_sit(tnri_member *self)
{
    char path[TNRI_FOLDER_BYTES], name[TNRI_CONF_TEXT_BYTES];
    tnri_places places;
    int folder;
    tnr_status status = TNR_ERR_FILE;
    tnri_places_list(&places, tnri_conf_get()->control_dir);
    board_name(name, sizeof(name), self->device);
    if (places.count > 1) {
        for (int i = 0; i < places.count && status == TNR_ERR_FILE; i++)
            status = place_sit(&self->at, places.paths[i], name, 1);
        for (int i = places.count; i > 0 && status == TNR_ERR_FILE; i--)
            status = place_sit(&self->at, places.paths[i - 1], name, 0);
    }
    if (status != TNR_ERR_FILE)
        return status;
    status = tnri_folder_open(&folder, path, &places, "group");
    if (status != TNR_OK)
        return status;
    status = tnri_board_sit(&self->at, folder, path, name, 1);
    tnri_file_close(folder);
    return status;
}

static uint64_t bytes_of(uint64_t mb)
{
    return mb >= UINT64_C(1) << 30 ? UINT64_MAX : mb << 20;
}

/* Says who this is, and remembers what others have asked for until now, which is not meant for
 * it. */
static void member_begin(tnri_member *self)
{
    const tnri_conf *conf = tnri_conf_get();
    tnri_seat *own = tnri_seat_own(&self->at);
    for (int i = 0; i < TNRI_SEATS_MAX; i++)
        self->seen[i] = atomic_load(&self->at.board->seats[i].asked_bytes);
    self->given_before = atomic_load(&own->given_bytes);
    atomic_store(&self->asks, 0);
    atomic_store(&self->yields, 0);
    atomic_store(&self->yielded_bytes, 0);
    atomic_store(&self->waived, 0);
    atomic_store(&self->is_ending, 0);
    self->is_paused = 0;
    snprintf(own->program, sizeof(own->program), "%s", tnri_program_name());
    atomic_store(&own->floor_bytes, conf->group_floor_mb << 20);
    atomic_store(&own->ceiling_bytes, bytes_of(conf->group_ceiling_mb));
    atomic_store(&own->limit_bytes, bytes_of(conf->group_limit_mb));
    atomic_store(&own->process, tnri_process_id());
}

static tnr_status group_join(tnri_device *device)
{
    tnri_member *self = tnri_member_on(device);
    char text[128];
    tnri_once_run(&watch_once, watch_begin);
    self->device = device;
    tnr_status status = member_sit(self);
    if (status != TNR_OK)
        return status;
    tnri_mutex_init(&self->turn);
    member_begin(self);
    int error = tnri_helper_make(&self->thread, member_run, self);
    if (error != 0) {
        tnri_board_rise(&self->at, 1);
        return tnri_error(TNR_ERR_HOST_MEMORY, "group: its thread cannot be made (%s).",
                          tnri_system_text(error, text, sizeof(text)));
    }
    atomic_store(&device->ceiling_bytes, bytes_of(tnri_group_ceiling().mb));
    atomic_store(&device->in_group, 1);
    tnri_ask_floor(self);
    return TNR_OK;
}

static void group_resume(tnri_device *device)
{
    tnri_member *self = tnri_member_on(device);
    if (!self->is_paused)
        return;
    self->is_paused = 0;
    tnri_mutex_unlock(&self->turn);
}

static void group_pause(tnri_device *device)
{
    tnri_member *self = tnri_member_on(device);
    tnri_mutex_lock(&self->turn);
    self->is_paused = 1;
}

static void group_leave(tnri_device *device)
{
    tnri_member *self = tnri_member_on(device);
    atomic_store(&device->in_group, 0);
    atomic_store(&device->ceiling_bytes, UINT64_MAX);
    thread_end(self);
    group_resume(device);
    tnri_thread_join(self->thread);
    tnri_mutex_end(&self->turn);
    tnri_board_rise(&self->at, 1);
}

/* ---- for the library ------------------------------------------------------------------------ */

static void group_count(const tnri_device *device, tnri_group_counts *counts)
{
    const tnri_member *self = tnri_member_on(device);
    const tnri_seat *own = tnri_seat_own(&self->at);
    counts->given_bytes = atomic_load(&own->gave_bytes);
    counts->taken_bytes =
        atomic_load(&own->given_bytes) - self->given_before - atomic_load(&self->waived);
    counts->asks = atomic_load(&self->asks);
    counts->yields = atomic_load(&self->yields);
    counts->yielded_bytes = atomic_load(&self->yielded_bytes);
}

static tnr_status group_device(tnri_device *device, tnri_device_step step)
{
    if (step == TNRI_DEVICE_STARTS)
        return group_join(device);
    if (device == NULL || tnri_group_of(device) == NULL)
        return TNR_OK;
    if (step == TNRI_DEVICE_PAUSES)
        group_pause(device);
    else if (step == TNRI_DEVICE_RESUMES)
        group_resume(device);
    else if (step == TNRI_DEVICE_STOPS)
        group_leave(device);
    return TNR_OK;
}

static __attribute__((constructor)) void group_register(void)
{
    static const tnri_upper upper = {
        .device = group_device,
        .take = tnri_ask_take,
        .took = tnri_ask_took,
        .ask = tnri_ask_wait,
        .count = group_count,
    };
    tnri_upper_register(TNRI_ROOM_GROUP, &upper);
}

int tnri_member_next(tnri_member_seen *seen, int *seat, int device)
{
    const tnri_member *self = &members[device];
    if (self->at.board == NULL || !atomic_load(&self->device->in_group))
        return 0;
    for (; *seat < TNRI_SEATS_MAX; ++*seat) {
        const tnri_seat *found = &self->at.board->seats[*seat];
        int is_self = *seat == self->at.own;
        if (!is_self && !tnri_seat_lives(&self->at, *seat))
            continue;
        *seen = (tnri_member_seen){.process = atomic_load(&found->process),
                                   .is_self = is_self,
                                   .is_silent = atomic_load(&found->is_silent) != 0,
                                   .floor_bytes = atomic_load(&found->floor_bytes),
                                   .ceiling_bytes = atomic_load(&found->ceiling_bytes),
                                   .limit_bytes = atomic_load(&found->limit_bytes),
                                   .reserved_bytes = atomic_load(&found->reserved_bytes),
                                   .gave_bytes = atomic_load(&found->gave_bytes)};
        snprintf(seen->program, sizeof(seen->program), "%.*s", TNRI_PROGRAM_BYTES - 1,
                 found->program);
        ++*seat;
        return 1;
    }
    return 0;
}
