/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that several processes have in common: one budget of memory for all processes that name
 * the same file in TENURE_SIM_SHARED. The contents of memory stay separate, except for what is
 * exported (share.c).
 *
 * The file has a place for each process, with what the process has taken of each device. A process
 * locks the byte of its place. The kernel releases that lock when the process ends, however it
 * ends. From then on the place no longer counts. No process waits for another, so a process that is
 * stopped in the middle of a call does not block the others.
 */
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PLACES_MAX = 64, TRIES_MAX = 1000 };

struct place {
    _Atomic uint64_t used[SIM_DEVICES_MAX];
    _Atomic uint64_t trying[SIM_DEVICES_MAX]; /* asked for, and neither had nor refused yet */
};

static struct {
    struct place *places; /* null: the devices are this process's alone */
    int file;
    int own;
} shared;

static int place_lock(int file, int place)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = place, .l_len = 1};
    return fcntl(file, F_SETLK, &lock) == 0;
}

static int place_lives(int place)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = place, .l_len = 1};
    return fcntl(shared.file, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

int sim_shared_open(const char *path)
{
    size_t bytes = PLACES_MAX * sizeof(struct place);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    void *places = MAP_FAILED;
    int own = 0;
    if (file >= 0 && ftruncate(file, (off_t)bytes) == 0)
        places = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    while (places != MAP_FAILED && own < PLACES_MAX && !place_lock(file, own))
        own++;
    if (places == MAP_FAILED || own == PLACES_MAX) {
        sim_note("TENURE_SIM_SHARED=%s cannot be used: %s", path,
                 places == MAP_FAILED ? strerror(errno) : "64 processes share it");
        if (places != MAP_FAILED)
            munmap(places, bytes);
        if (file >= 0)
            close(file);
        return 0;
    }
    shared.places = places;
    shared.file = file;
    shared.own = own;
    for (int i = 0; i < SIM_DEVICES_MAX; i++) {
        atomic_store(&shared.places[own].used[i], 0);
        atomic_store(&shared.places[own].trying[i], 0);
    }
    return 1;
}

/* In a forked child nothing is taken off: the place is the parent's. */
void sim_shared_close(void)
{
    if (shared.places == NULL)
        return;
    for (int i = 0; i < SIM_DEVICES_MAX && !sim.is_forked; i++)
        atomic_store(&shared.places[shared.own].used[i], 0);
    munmap(shared.places, PLACES_MAX * sizeof(struct place));
    close(shared.file);
    shared.places = NULL;
}

/* What other processes have of a device; in *trying, what they are about to. */
static uint64_t others_used(const struct sim_device *device, uint64_t *trying)
{
    uint64_t used = 0;
    *trying = 0;
    for (int i = 0; shared.places != NULL && i < PLACES_MAX; i++) {
        const struct place *place = &shared.places[i];
        uint64_t tries = atomic_load(&place->trying[device->ordinal]);
        uint64_t has = atomic_load(&place->used[device->ordinal]);
        if (i == shared.own || has + tries == 0 || !place_lives(i))
            continue;
        used += has;
        *trying += tries;
    }
    return used;
}

uint64_t sim_memory_left(const struct sim_device *device)
{
    uint64_t trying;
    uint64_t used = device->used_bytes + others_used(device, &trying);
    return used < device->capacity_bytes ? device->capacity_bytes - used : 0;
}

/* Two processes that try at once see each other: both step back and try again, in their own time.
 * What another tries for in vain is no reason to refuse, unless it stays: it has been stopped. */
static int shared_take(const struct sim_device *device, uint64_t bytes)
{
    struct place *own = &shared.places[shared.own];
    for (int i = 0; i < TRIES_MAX; i++) {
        uint64_t trying;
        atomic_store(&own->trying[device->ordinal], bytes);
        uint64_t others = others_used(device, &trying) + device->used_bytes;
        int has_room = others <= device->capacity_bytes && bytes <= device->capacity_bytes - others;
        int has_all = has_room && trying <= device->capacity_bytes - others - bytes;
        if (has_all)
            atomic_fetch_add(&own->used[device->ordinal], bytes);
        atomic_store(&own->trying[device->ordinal], 0);
        if (has_all || !has_room)
            return has_all;
        for (int n = 0; n <= shared.own; n++) /* each its own pause */
            (void)sched_yield();
    }
    return 0;
}

int sim_memory_take(struct sim_device *device, uint64_t bytes)
{
    if (bytes > device->capacity_bytes - device->used_bytes ||
        (shared.places != NULL && !shared_take(device, bytes)))
        return 0;
    device->used_bytes += bytes;
    sim_dmem_tell();
    return 1;
}

void sim_memory_give(struct sim_device *device, uint64_t bytes)
{
    device->used_bytes -= bytes;
    if (shared.places != NULL && !sim.is_forked)
        atomic_fetch_sub(&shared.places[shared.own].used[device->ordinal], bytes);
    sim_dmem_tell();
}
