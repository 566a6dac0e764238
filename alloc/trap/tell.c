/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling what a trap has found: see story.h. The text is made without host memory, and is bounded.
 * It goes to the standard error if no file is named, because a silent trap would be of no use.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/calm.h"
#include "base/file_room.h"
#include "conf/conf.h"
#include "history/stacks.h"
#include "trap/listener.h"
#include "trap/story.h"

enum { TEXT_BYTES = 6000, FRAMES_SHOWN = 12 };

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
static int is_ours(const Dl_info *frame)
{
    Dl_info here;
    if (frame->dli_fname != NULL && tnri_module_is_between(frame->dli_fname))
        return 1;
    return dladdr((void *)(uintptr_t)&tnri_finding_tell, &here) != 0 &&
           here.dli_fbase == frame->dli_fbase;
}

/* An interpreter's frame. */
static void text_add_described(text *self, uintptr_t frame)
{
    tnr_frame_info info = {"", "", 0};
    tnr_frames_describe describe = atomic_load(&tnri_frames_describe);
    describe(&info, frame);
    text_add(self, "    %s:%d (%s)\n", info.file, (int)info.line, info.function);
}

static void text_add_stack(text *self, uint32_t number, const char *what)
{
    size_t count;
    size_t shown = 0;
    int is_inside = 1;
    const uintptr_t *frames = tnri_stack_get(number, &count);
    text_add(self, "  %s%s\n", what, frames == NULL ? ": the stack is not known" : " at");
    for (size_t i = 0; frames != NULL && i < count && shown < FRAMES_SHOWN; i++) {
        Dl_info frame = {0};
        if (tnri_frame_is_described(frames[i])) {
            text_add_described(self, frames[i]);
            is_inside = 0;
            shown++;
            continue;
        }
        int is_known =
            dladdr((void *)(frames[i] - 1), &frame) != 0; /* the call, not what follows */
        if (is_inside && is_known && is_ours(&frame))
            continue;
        is_inside = 0;
        shown++;
        if (!is_known) {
            text_add(self, "    %p\n", (void *)frames[i]);
            continue;
        }
        const char *file = frame.dli_fname == NULL ? "?" : frame.dli_fname;
        text_add(self, "    %s+0x%zx", file, (size_t)(frames[i] - 1 - (uintptr_t)frame.dli_fbase));
        text_add(self, frame.dli_sname == NULL ? "\n" : " (%s)\n", frame.dli_sname);
    }
}

static void text_make(text *self, const tnri_finding *finding)
{
    const tnri_story *story = &finding->story;
    uintptr_t at = finding->address + finding->first;
    if (finding->is_poison)
        text_add(self,
                 "tenure: poison: %zu bytes at %p, %zu bytes into a block that was freed, were "
                 "written\n",
                 finding->wrong, (void *)at, (size_t)(at - story->base));
    else
        text_add(self,
                 "tenure: canary: %zu bytes at %p, %zu bytes behind what was asked for, were "
                 "written\n",
                 finding->wrong, (void *)at, (size_t)(at - story->base - story->requested));
    text_add(self, "  block %p of %zu bytes, device %d, pool %u, stream %p\n", (void *)story->base,
             story->requested, story->device, story->pool, (void *)story->stream);
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

/* Writes all of it; what cannot be written is lost. */
static void bytes_write(const char *bytes, size_t count)
{
    const char *path = tnri_conf_get()->trap_file;
    int file = STDERR_FILENO;
    struct stat found;
    if (path[0] != '\0')
        file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    int has_room =
        path[0] == '\0' ||
        (file >= 0 && fstat(file, &found) == 0 &&
         (!S_ISREG(found.st_mode) || tnri_file_limit((uint64_t)found.st_size + count) == 0));
    for (size_t done = 0; has_room && done < count;) {
        ssize_t written = write(file, bytes + done, count - done);
        if (written <= 0)
            break;
        done += (size_t)written;
    }
    if (file >= 0 && path[0] != '\0')
        (void)close(file);
}

void tnri_trap_say(const char *line)
{
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
