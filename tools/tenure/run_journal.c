/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading what dead processes have left: see run_journal.h. Nothing in a journal is trusted,
 * because the program may have written anywhere before it died.
 */
#include "run_journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes_text.h"
#include "base/plural.h"
#include "run_picture.h"
#include "shown.h"

exit_code run_journal_begin(run_journal *self)
{
    const char *place = getenv("TMPDIR");
    if ((!place || !*place) && access("/dev/shm", W_OK) == 0)
        place = "/dev/shm"; /* memory, where a disk would be written to */
    char prefix[PATH_MAX + 16];
    self->folder[0] = '\0';
    if (!self->is_wanted)
        return EXIT_CODE_OK;
    if (stat(self->snapshot, &self->before) != 0)
        self->before = (struct stat){0};
    snprintf(self->folder, PATH_MAX, "%s/tenure-run-XXXXXX", place && *place ? place : "/tmp");
    if (!mkdtemp(self->folder)) {
        fprintf(stderr, "tenure run: %s: %s\n", self->folder, strerror(errno));
        self->folder[0] = '\0';
        return EXIT_CODE_CHECK_FAILED;
    }
    snprintf(prefix, sizeof(prefix), "%s/journal", self->folder);
    setenv("TENURE_PRELOAD_JOURNAL", prefix, 1);
    setenv("TENURE_PRELOAD_JOURNAL_STACKS", self->has_stacks ? "1" : "0", 1);
    return EXIT_CODE_OK;
}

/* What became of the process: "died of signal 6 (Aborted)". How others than the program itself
 * ended is not known: nothing has waited for them. */
static const char *ending_text(int is_over, int is_main, int status, char *text, size_t bytes)
{
    if (is_over)
        snprintf(text, bytes, "could not write its snapshot");
    else if (is_main && WIFSIGNALED(status))
        snprintf(text, bytes, "died of signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (is_main && WIFEXITED(status))
        snprintf(text, bytes, "ended with exit code %d, without running its exit handlers",
                 WEXITSTATUS(status));
    else
        snprintf(text, bytes, "did not end by itself");
    return text;
}

/* ---- statistics ----------------------------------------------------------------------------- */

static uint64_t count_of(const journal *book, service_count which)
{
    return atomic_load(&book->counts[which]);
}

static void stats_json(const journal *book)
{
    static const char *const names[] = {
#define NAME(name, text) text,
        SERVICE_COUNT_LIST(NAME)
#undef NAME
    };
    fprintf(stderr, "{\"pid\": %" PRIu64, book->pid);
    for (int i = 0; i < COUNT_COUNT; i++)
        fprintf(stderr, ", \"%s\": %" PRIu64, names[i], count_of(book, (service_count)i));
    fprintf(stderr,
            ", \"live_blocks\": %" PRIu64 ", \"live_bytes\": %" PRIu64
            ", \"peak_live_bytes\": %" PRIu64 ", \"ended_by_itself\": false}\n",
            atomic_load(&book->live_blocks), atomic_load(&book->live_bytes),
            atomic_load(&book->peak_live_bytes));
}

static void stats_text(const journal *book, const char *ending)
{
    uint64_t allocs = count_of(book, COUNT_ALLOCS_SERVED);
    uint64_t frees = count_of(book, COUNT_FREES_SERVED);
    uint64_t blocks = atomic_load(&book->live_blocks);
    fprintf(stderr,
            "tenure: process %" PRIu64 " %s: %" PRIu64 " allocation%s served, %" PRIu64
            " passed on to the driver, %" PRIu64 " failed; %" PRIu64 " free%s served, %" PRIu64
            " passed on; peak %s live; %" PRIu64 " block%s (%s) live when it died\n",
            book->pid, ending, allocs, tnri_plural(allocs), count_of(book, COUNT_ALLOCS_PASSED),
            count_of(book, COUNT_ALLOCS_FAILED), frees, tnri_plural(frees),
            count_of(book, COUNT_FREES_PASSED), TNRI_BYTES(atomic_load(&book->peak_live_bytes)),
            blocks, tnri_plural(blocks),
            TNRI_BYTES_OF(atomic_load(&book->live_bytes), atomic_load(&book->peak_live_bytes)));
}

/* ---- launches ------------------------------------------------------------------------------- */

static const journal_freed *freed_at(const journal *book, uint64_t address)
{
    uint64_t count = atomic_load(&book->freed_count);
    for (uint64_t back = 1; back <= count && back <= JOURNAL_FREED; back++) {
        const journal_freed *one = &book->freed[(count - back) % JOURNAL_FREED];
        uint64_t base = atomic_load(&one->was.address);
        if (base > JOURNAL_BUSY && address >= base && address - base < one->was.bytes)
            return one;
    }
    return NULL;
}

static int is_live(const journal *book, uint64_t address)
{
    for (size_t i = 0; i < JOURNAL_LIVE; i++) {
        uint64_t base = atomic_load(&book->live[i].address);
        if (base > JOURNAL_BUSY && address >= base && address - base < book->live[i].bytes)
            return 1;
    }
    return 0;
}

/* 1 if a launch may have run when the memory was somebody else's, or nobody's: it came after the
 * free, or before it on a stream for which a free in the block's own order does not wait. */
static int is_suspect(const journal_launch *launch, const journal_freed *freed)
{
    return freed->freed_ns <= launch->time_ns ||
           (!freed->was.is_at_once && freed->was.stream != launch->stream);
}

static void suspect_print(const journal *book, const journal_launch *launch, uint64_t word,
                          const journal_freed *freed)
{
    uint64_t base = atomic_load(&freed->was.address);
    double ms = (double)(launch->time_ns - freed->freed_ns) / 1e6;
    say(stderr,
        "  launch %" PRIu64 " of %" PRIu64 ", %s, on stream 0x%" PRIx64 ": 0x%" PRIx64 ", %" PRIu64
        " byte%s into block 0x%" PRIx64 " of %" PRIu64 " byte%s, which was freed %.3f ms %s\n",
        atomic_load(&launch->number), atomic_load(&book->launches_count),
        launch->kernel[0] ? launch->kernel : "a kernel", launch->stream, word, word - base,
        tnri_plural(word - base), base, freed->was.bytes, tnri_plural(freed->was.bytes),
        ms < 0 ? -ms : ms, ms < 0 ? "after it" : "before");
    run_picture_stack_print(book, "launched", launch->stack);
    run_picture_stack_print(book, "allocated", freed->was.stack);
    run_picture_stack_print(book, "freed", freed->freed_stack);
}

/* What the latest launches named of memory that was freed: CUDA tells no address with a fault. */
static void launches_print(const journal *book)
{
    uint64_t count = atomic_load(&book->launches_count);
    int is_titled = 0;
    for (uint64_t back = 0; back < count && back < JOURNAL_LAUNCHES; back++) {
        const journal_launch *one = &book->launches[(count - back) % JOURNAL_LAUNCHES];
        if (atomic_load(&one->number) != count - back)
            continue;
        for (uint32_t i = 0; i < one->words_count && i < JOURNAL_WORDS; i++) {
            const journal_freed *freed =
                is_live(book, one->words[i]) ? NULL : freed_at(book, one->words[i]);
            if (!freed || !is_suspect(one, freed))
                continue;
            if (!is_titled)
                fprintf(stderr,
                        "tenure: process %" PRIu64 ": its last launches named memory that was "
                        "freed, the latest first:\n",
                        book->pid);
            is_titled = 1;
            suspect_print(book, one, one->words[i], freed);
        }
    }
}

/* ---- the journals --------------------------------------------------------------------------- */

/* A text of a file that the program may have written to ends somewhere. What is right is not
 * written, which would copy its page. */
static void text_end(char *text, size_t bytes)
{
    if (text[bytes - 1] != '\0')
        text[bytes - 1] = '\0';
}

/* Maps a journal; null if it is none. */
static journal *book_open(const char *path)
{
    struct stat file;
    int from = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    void *mapped = MAP_FAILED;
    if (from >= 0 && fstat(from, &file) == 0 && S_ISREG(file.st_mode) &&
        file.st_size == (off_t)sizeof(journal))
        mapped = mmap(NULL, sizeof(journal), PROT_READ | PROT_WRITE, MAP_PRIVATE, from, 0);
    if (from >= 0)
        close(from);
    if (mapped == MAP_FAILED)
        return NULL;
    journal *book = mapped;
    (void)madvise(mapped, sizeof(journal), MADV_RANDOM); /* see book_make in watch/journal.c */
    text_end(book->program, JOURNAL_PATH);
    for (int i = 0; i < JOURNAL_MODULES; i++) {
        text_end(book->modules[i].path, JOURNAL_PATH);
        text_end(book->modules[i].build_id, JOURNAL_ID);
    }
    for (int i = 0; i < JOURNAL_LAUNCHES; i++)
        text_end(book->launches[i].kernel, JOURNAL_NAME);
    if (book->magic == JOURNAL_MAGIC && book->bytes == sizeof(journal))
        return book;
    munmap(mapped, sizeof(journal));
    return NULL;
}

/* The path with %p as the process's number. */
static void path_expand(char *path, size_t bytes, const char *from, uint64_t pid)
{
    size_t length = 0;
    path[0] = '\0';
    while (*from && length + 1 < bytes) {
        int added = strncmp(from, "%p", 2) == 0
                        ? snprintf(path + length, bytes - length, "%" PRIu64, pid)
                        : snprintf(path + length, bytes - length, "%c", *from);
        from += strncmp(from, "%p", 2) == 0 ? 2 : 1;
        length += added > 0 ? (size_t)added : 0;
    }
}

/* 1 if no snapshot of this run lies there: the process may have changed its user or its root. */
static int is_lost(const run_journal *self, const char *path)
{
    struct stat now;
    const struct stat *was = &self->before;
    return stat(path, &now) != 0 || (now.st_dev == was->st_dev && now.st_ino == was->st_ino &&
                                     now.st_mtim.tv_sec == was->st_mtim.tv_sec &&
                                     now.st_mtim.tv_nsec == was->st_mtim.tv_nsec);
}

static void book_tell(const run_journal *self, const journal *book, pid_t pid, int status)
{
    char ending[96], path[PATH_MAX * 2];
    int is_main = (uint64_t)pid == book->pid;
    int is_bad = is_main && (!WIFEXITED(status) || WEXITSTATUS(status) != 0);
    int is_over = atomic_load(&book->is_over) != 0;
    ending_text(is_over, is_main, status, ending, sizeof(ending));
    if (is_bad)
        launches_print(book);
    if (!is_over && self->has_stats && self->is_json)
        stats_json(book);
    else if (!is_over && self->has_stats)
        stats_text(book, ending);
    if (self->snapshot[0] == '\0')
        return;
    path_expand(path, sizeof(path), self->snapshot, book->pid);
    if (is_over ? !is_lost(self, path) : !is_main && !strstr(self->snapshot, "%p"))
        return;
    if (run_picture_write(book, path, ending) == 0)
        fprintf(stderr, "tenure run: process %" PRIu64 " %s: %s was written from its journal\n",
                book->pid, ending, path);
}

void run_journal_end(const run_journal *self, pid_t pid, int status)
{
    if (self->folder[0] == '\0')
        return;
    DIR *folder = opendir(self->folder);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[PATH_MAX + 280];
        if (strncmp(entry->d_name, "journal.", 8) != 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", self->folder, entry->d_name);
        journal *book = status == -1 ? NULL : book_open(path);
        if (book) {
            book_tell(self, book, pid, status);
            munmap(book, sizeof(*book));
        }
        unlink(path);
    }
    if (folder)
        closedir(folder);
    rmdir(self->folder);
}
