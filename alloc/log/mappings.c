/* SPDX-License-Identifier: Apache-2.0 */
/* A queue of mappings: see mappings.h. */
#include "log/mappings.h"

#include <string.h>

#include "base/array.h"
#include "base/host_memory.h"
#include "base/lock.h"

enum { MAPPINGS_MAX = 1 << 16 }; /* that wait; a program that follows takes them */

_Atomic int tnri_mappings_followed;

static struct {
    tnri_lock lock; /* protects what follows */
    tnr_mapping *all;
    size_t first, count, room; /* those that wait are `count` from `first` on */
    uint64_t lost;
} queue = {.lock = {.rank = TNRI_RANK_HISTORY}};

void tnri_mapping_add(const tnr_mapping *mapping)
{
    tnri_lock_take(&queue.lock);
    size_t end = queue.first + queue.count;
    if (end == queue.room && queue.first > 0) {
        memmove(queue.all, queue.all + queue.first, queue.count * sizeof(queue.all[0]));
        queue.first = 0;
        end = queue.count;
    }
    if (atomic_load(&tnri_mappings_followed) && queue.count < MAPPINGS_MAX &&
        TNRI_ARRAY_GROW(queue.all, queue.room, end + 1)) {
        queue.all[end] = *mapping;
        queue.count++;
    } else {
        queue.lost++;
    }
    tnri_lock_release(&queue.lock);
}

void tnri_mappings_follow(int is_wanted)
{
    tnri_lock_take(&queue.lock);
    atomic_store(&tnri_mappings_followed, is_wanted);
    if (!is_wanted) {
        tnri_host_free(queue.all, queue.room * sizeof(queue.all[0]));
        queue.all = NULL;
        queue.first = queue.count = queue.room = 0;
    }
    queue.lost = 0;
    tnri_lock_release(&queue.lock);
}

size_t tnri_mappings_take(tnr_mapping *mappings, uint64_t *lost, size_t room)
{
    *lost = 0;
    if (!tnri_is_following())
        return 0;
    tnri_lock_take(&queue.lock);
    size_t count = queue.count;
    if (room > 0) {
        count = count < room ? count : room;
        if (count > 0)
            memcpy(mappings, queue.all + queue.first, count * sizeof(mappings[0]));
        queue.first += count;
        queue.count -= count;
        if (queue.count == 0)
            queue.first = 0;
        *lost = queue.lost;
        queue.lost = 0;
    }
    tnri_lock_release(&queue.lock);
    return count;
}
