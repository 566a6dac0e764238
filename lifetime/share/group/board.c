/* SPDX-License-Identifier: Apache-2.0 */
/* See board.h. */
#include "share/group/board.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/prim/file.h"
#include "base/prim/pages.h"
#include "base/prim/process.h"

/* What a board of this version begins with. */
#define BOARD_MAGIC UINT64_C(0x0231707267726e74)

static tnr_status board_error(const char *path, const char *name, const char *what, int error)
{
    char text[128];
    return tnri_error(TNR_ERR_FILE,
                      "group: %s/%s %s (%s). Remove it when no process uses it, or name another "
                      "group or another folder (control_dir).",
                      path, name, what, tnri_system_text(error, text, sizeof(text)));
}

/* ---- seats ---------------------------------------------------------------------------------- */

int tnri_seat_lives(const tnri_sitting *sitting, int seat)
{
    if (seat == sitting->own || atomic_load(&sitting->board->seats[seat].process) == 0)
        return 0;
    return tnri_byte_is_locked(sitting->file, seat);
}

/* Its lock is held. What was asked for is as if it had been given. */
static void seat_clear(tnri_seat *seat)
{
    atomic_store(&seat->process, 0);
    atomic_store(&seat->floor_bytes, 0);
    atomic_store(&seat->ceiling_bytes, UINT64_MAX);
    atomic_store(&seat->limit_bytes, UINT64_MAX);
    atomic_store(&seat->reserved_bytes, 0);
    atomic_store(&seat->coming_bytes, 0);
    atomic_store(&seat->gave_bytes, 0);
    atomic_store(&seat->short_count, 0);
    atomic_store(&seat->is_silent, 0);
    atomic_store(&seat->given_bytes, atomic_load(&seat->asked_bytes));
    atomic_store(&seat->answered, atomic_load(&seat->rings));
}

uint64_t tnri_seat_clear_dead(const tnri_sitting *sitting, int seat)
{
    tnri_seat *found = &sitting->board->seats[seat];
    uint64_t had = 0;
    if (seat == sitting->own || atomic_load(&found->process) == 0 ||
        !tnri_byte_lock(sitting->file, seat, 1))
        return 0;
    if (atomic_load(&found->process) != 0) { /* no other process has cleared it since */
        had = atomic_load(&found->reserved_bytes) + atomic_load(&found->coming_bytes);
        had += had == 0; /* it may have given all, and not said so */
        seat_clear(found);
    }
    (void)tnri_byte_lock(sitting->file, seat, 0);
    return had;
}

/* ---- the file ------------------------------------------------------------------------------- */

/* Only what this version made is used, and only if no other user can have written to it. A file
 * that was just made is empty, and all zeros are a board without anybody. It is mapped, so it gets
 * all its blocks first: also one with holes, which another version may have made. */
static tnr_status board_check(int file, const char *path, const char *name)
{
    tnri_file_facts found;
    if (!tnri_file_ask(file, &found))
        return board_error(path, name, "cannot be looked at", errno);
    if (!found.is_regular || found.user != tnri_process_user() || (found.mode & 077) != 0)
        return board_error(path, name, "is not a file of this user's alone", EPERM);
    if (found.bytes != 0 && found.bytes != sizeof(tnri_board))
        return board_error(path, name, "is not a group of this version of Tenure", EINVAL);
    int error = tnri_file_fill(file, sizeof(tnri_board));
    if (error == 0)
        return TNR_OK;
    char text[128];
    return tnri_error(
        TNR_ERR_FILE,
        "group: %s/%s needs %zu bytes on the disk (%s). Make room, name another folder "
        "with control_dir, or leave `group` empty to go on alone.",
        path, name, sizeof(tnri_board), tnri_system_text(error, text, sizeof(text)));
}

static tnr_status board_map(tnri_sitting *sitting, const char *path, const char *name)
{
    uint64_t magic = 0;
    tnr_status status = board_check(sitting->file, path, name);
    if (status != TNR_OK)
        return status;
    void *map = tnri_host_pages_share(sitting->file, sizeof(tnri_board));
    if (map == NULL)
        return board_error(path, name, "cannot be mapped", errno);
    sitting->board = map;
    if (!atomic_compare_exchange_strong(&sitting->board->magic, &magic, BOARD_MAGIC) &&
        magic != BOARD_MAGIC)
        return board_error(path, name, "is not a group of this version of Tenure", EINVAL);
    for (sitting->own = 0; sitting->own < TNRI_SEATS_MAX; sitting->own++)
        if (tnri_byte_lock(sitting->file, sitting->own, 1)) {
            seat_clear(tnri_seat_own(sitting));
            return TNR_OK;
        }
    return tnri_error(TNR_ERR_BUSY,
                      "group: all %d places of %s/%s are taken. Name another group for some of "
                      "the processes.",
                      TNRI_SEATS_MAX, path, name);
}

tnr_status tnri_board_sit(tnri_sitting *sitting, int folder, const char *path, const char *name,
                          int may_make)
{
    *sitting = (tnri_sitting){0};
    unsigned how = TNRI_FILE_BOTH | TNRI_FILE_UNLINKED | TNRI_FILE_UNWAITED;
    sitting->file = tnri_file_open(folder, name, how | (may_make ? TNRI_FILE_MAKE : 0), 0600);
    if (sitting->file < 0)
        return board_error(path, name, "cannot be opened", errno);
    tnr_status status = board_map(sitting, path, name);
    if (status != TNR_OK)
        tnri_board_forget(sitting);
    return status;
}

/* Closing the file is what unlocks the seat. */
void tnri_board_forget(tnri_sitting *sitting)
{
    if (sitting->board != NULL)
        tnri_host_pages_unmap(sitting->board, sizeof(*sitting->board));
    (void)tnri_file_close(sitting->file);
    sitting->board = NULL;
}

void tnri_board_rise(tnri_sitting *sitting, int is_leaving)
{
    if (is_leaving)
        seat_clear(tnri_seat_own(sitting));
    tnri_board_forget(sitting);
}
