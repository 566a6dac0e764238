/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling what a trap has found: see story.h. The text is made without host memory, and is bounded.
 * It goes to the standard error if no file is named or the file cannot be opened, because a silent
 * trap would be of no use.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "base/prim/calm.h"
#include "base/conf/conf.h"
#include "base/prim/file.h"
#include "base/prim/loader.h"
#include "base/prim/process.h"
#include "log/stacks.h"
#include "see/trap/listener.h"
#include "see/trap/story.h"

enum { TEXT_BYTES = 6000, FRAMES_SHOWN = 12, STANDARD_ERROR = 2 };

/* Who listens; see listener.h. */
static struct {
    tnri_lock lock;
    tnr_trap_callback function;
    void *user;
} listener = {.lock = {.rank = TNRI_RANK_TRAPS}};

void tnri_trap_listen(tnr_trap_callback function, void *user)
{
    tnri_lock_take(&listener.lock);
    listener.function = function;
    listener.user = user;
    tnri_lock_release(&listener.lock);
}

/* ---- the text ------------------------------------------------------------------------------- */

typedef struct text {
    char bytes[TEXT_BYTES];
    size_t used;
} text;

static __attribute__((format(printf, 2, 3))) void text_add(text *self, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t room = sizeof(self->bytes) - self->used;
    int length = vsnprintf(self->bytes + self->used, room, format, arguments);
    va_end(arguments);
    if (length > 0)
        self->used += (size_t)length < room ? (size_t)length : room - 1;
}

/* 1 for a frame of this library, or of one between it and the program. */
static int is_ours(const tnri_loaded_at *frame)
{
    tnri_loaded_at here;
    if (frame->path != NULL && tnri_module_is_between(frame->path))
        return 1;
    return tnri_loader_find((uintptr_t)&tnri_finding_tell, &here) && here.base == frame->base;
}

/* An interpreter's frame. */
static void text_add_described(text *self, uintptr_t frame)
{
    tnr_frame_info info = {"", "", 0};
    tnr_frames_describe describe = atomic_load(&tnri_frames_describe);
    describe(&info, frame);
    text_add(self, "    %s:%d (%s)\n", info.file, (int)info.line, info.function);
}

/* The module of a return address, and its path from the root: the program's own name may be
 * relative. 0: it is in none that is known. */
static int frame_find(uintptr_t frame, tnri_loaded_at *at, char path[TNRI_PATH_BYTES])
{
    if (!tnri_loader_find(frame - 1, at)) /* -1: the call itself */
        return 0;
    if (tnri_loader_is_program(frame - 1) && tnri_program_path(path, TNRI_PATH_BYTES) > 0)
        return 1;
    if (at->path == NULL || !tnri_path_real(at->path, path))
        (void)snprintf(path, TNRI_PATH_BYTES, "%s", at->path == NULL ? "?" : at->path);
    return 1;
}

/* 1 for a frame of the C library. */
static int is_libc(uintptr_t frame)
{
    tnri_loaded_at at;
    if (tnri_frame_is_described(frame) || !tnri_loader_find(frame - 1, &at) || at.path == NULL)
        return 0;
    const char *slash = strrchr(at.path, '/');
    return strncmp(slash == NULL ? at.path : slash + 1, "libc.so", 7) == 0;
}

/* How many frames are left of a stack without what the C library starts threads and programs with:
 * its outermost frames, and the frame of the program's that they return to. */
static size_t frames_end(const uintptr_t *frames, size_t count)
{
    size_t end = count;
    if (end > 1 && !is_libc(frames[end - 1]) && is_libc(frames[end - 2]))
        end--;
    while (end > 0 && is_libc(frames[end - 1]))
        end--;
    return end > 0 ? end : count;
}

static void text_add_frame(text *self, uintptr_t frame, const tnri_loaded_at *at, const char *path)
{
    text_add(self, "    %s+0x%zx", path, (size_t)(frame - 1 - at->base));
    text_add(self, at->symbol == NULL ? "\n" : " (%s)\n", at->symbol);
}

static void text_add_stack(text *self, uint32_t number, const char *what)
{
    size_t count = 0;
    size_t shown = 0;
    int is_inside = 1;
    const uintptr_t *frames = tnri_stack_get(number, &count);
    text_add(self, "  %s%s\n", what, frames == NULL ? ": the stack is not known" : " at");
    size_t end = frames == NULL ? 0 : frames_end(frames, count);
    for (size_t i = 0; i < end && shown < FRAMES_SHOWN; i++) {
        char path[TNRI_PATH_BYTES];
        tnri_loaded_at at = {0};
        if (tnri_frame_is_described(frames[i])) {
            text_add_described(self, frames[i]);
            is_inside = 0;
            shown++;
            continue;
        }
        int is_known = frame_find(frames[i], &at, path);
        if (is_inside && is_known && is_ours(&at))
            continue;
        is_inside = 0;
        shown++;
        if (is_known)
            text_add_frame(self, frames[i], &at, path);
        else
            text_add(self, "    %p\n", (void *)frames[i]);
    }
}

static void text_make(text *self, const tnri_finding *finding)
{
    const tnri_story *story = &finding->story;
    uintptr_t at = finding->address + finding->first;
    size_t into = at - story->base;
    const char *were = finding->wrong == 1 ? "was" : "were";
    if (finding->is_poison)
        text_add(self,
                 "tenure: poison: %zu byte%s at %p, %zu byte%s into a block that was freed, %s "
                 "written\n",
                 finding->wrong, tnri_plural(finding->wrong), (void *)at, into, tnri_plural(into),
                 were);
    else
        text_add(self,
                 "tenure: canary: %zu byte%s at %p, %zu byte%s past the requested size, %s "
                 "written\n",
                 finding->wrong, tnri_plural(finding->wrong), (void *)at, into - story->requested,
                 tnri_plural(into - story->requested), were);
    text_add(self, "  block %p of %zu byte%s, device %d, pool %u, stream %p\n", (void *)story->base,
             story->requested, tnri_plural(story->requested), story->device, story->pool,
             (void *)story->stream);
    text_add(self, "  should be %02x, is", finding->expected);
    for (size_t i = 0; i < finding->found_count; i++)
        text_add(self, " %02x", finding->found[i]);
    text_add(self, "\n");
    if (story->is_live)
        text_add(self, "  never freed\n");
    else
        text_add_stack(self, story->freed, "freed");
    text_add_stack(self, story->allocated, "allocated");
}

/* The file that the setting names; the standard error if none is, or if it cannot be opened. It is
 * not waited for: it may be a pipe that no process reads. */
static int file_open(void)
{
    const char *path = tnri_conf_get()->trap_file;
    int file = -1;
    if (path[0] != '\0')
        file = tnri_file_open(
            TNRI_FOLDER_OWN, path,
            TNRI_FILE_WRITE | TNRI_FILE_MAKE | TNRI_FILE_APPEND | TNRI_FILE_UNWAITED, 0644);
    return file < 0 ? STANDARD_ERROR : file;
}

/* Writes all of it; what cannot be written is lost. */
static void bytes_write(const char *bytes, size_t count)
{
    tnri_file_facts found;
    int file = file_open();
    int has_room = file == STANDARD_ERROR ||
                   (tnri_file_ask(file, &found) &&
                    (!found.is_regular || tnri_file_limit(found.bytes + count) == 0));
    for (size_t done = 0; has_room && done < count;) {
        int64_t written = tnri_file_write(file, bytes + done, count - done);
        if (written <= 0)
            break;
        done += (size_t)written;
    }
    if (file != STANDARD_ERROR)
        (void)tnri_file_close(file);
}

void tnri_trap_say(const char *line)
{
    tnri_lock_take(&listener.lock);
    int is_heard = listener.function != NULL;
    tnri_lock_release(&listener.lock);
    if (!is_heard)
        bytes_write(line, strlen(line));
}

void tnri_finding_tell(const tnri_finding *finding)
{
    TNRI_CALM;
    text self = {.used = 0};
    text_make(&self, finding);
    tnri_lock_take(&listener.lock);
    tnr_trap_callback function = listener.function;
    void *user = listener.user;
    tnri_lock_release(&listener.lock);
    if (function == NULL) {
        bytes_write(self.bytes, self.used);
        return;
    }
    tnr_trap_finding told = {
        .struct_bytes = sizeof(told),
        .is_overrun = !finding->is_poison,
        .device = finding->story.device,
        .address = (void *)(finding->address + finding->first),
        .bytes_wrong = finding->wrong,
        .block = (void *)finding->story.base,
        .bytes_requested = finding->story.requested,
        .stream = finding->story.stream,
        .text = self.bytes,
    };
    function(&told, user);
}
