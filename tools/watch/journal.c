/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the journal: see journal.h. */
#include "watch/journal.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check/places.h"
#include "check/python.h"
#include "room.h"
#include "service.h"

_Static_assert((int)COUNT_COUNT <= (int)JOURNAL_COUNTS, "the journal has a place for each count");

enum { PROBES = 256 };

_Atomic int journal_state = -1;
static journal *book;
static int has_stacks;
static struct timespec began;
static pthread_mutex_t begin_mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- beginning ------------------------------------------------------------------------------ */

static void program_name(char *name, size_t bytes)
{
    ssize_t length = readlink("/proc/self/exe", name, bytes - 1);
    if (length < 0) /* another root, without /proc */
        snprintf(name, bytes, "%s", program_invocation_name);
    else
        name[length] = '\0';
}

/* The path of this process's file; 0: it is too long. */
static int path_make(char path[PATH_MAX], const char *prefix)
{
    int length = snprintf(path, PATH_MAX, "%s.%ld", prefix, (long)getpid());
    return length > 0 && length < PATH_MAX;
}

/* The file of a process that may change its user or its root, and then reaches the folder no more:
 * opened, and empty, from the process's beginning. -1: none. */
static struct {
    int file;
    dev_t device;
    ino_t inode;
} early = {.file = -1};

/* The file that was opened early, and from now on is the caller's; -1 if the program has closed
 * it: the number may be another file's. */
static int early_take(void)
{
    struct stat found;
    int file = early.file;
    early.file = -1;
    return file >= 0 && fstat(file, &found) == 0 && found.st_dev == early.device &&
                   found.st_ino == early.inode
               ? file
               : -1;
}

/* Only root changes its user or its root. What the process was before an exec may have left the
 * file: it serves if it is empty. */
static void early_open(void)
{
    enum { ABOVE = 200 }; /* numbers that a program may count on are below */
    char path[PATH_MAX];
    struct stat found;
    const char *prefix = getenv("TENURE_PRELOAD_JOURNAL");
    if (prefix == NULL || *prefix == '\0' || geteuid() != 0 || !path_make(path, prefix))
        return;
    int low = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (low < 0)
        return;
    int file = fcntl(low, F_DUPFD_CLOEXEC, ABOVE);
    if (file < 0)
        file = low;
    else
        (void)close(low);
    if (fstat(file, &found) != 0 || !S_ISREG(found.st_mode) || found.st_size != 0) {
        (void)close(file);
        return;
    }
    early.file = file;
    early.device = found.st_dev;
    early.inode = found.st_ino;
}

/* A child has a file of its own; after the parent's first allocation, none: is_ours. */
static void early_renew(void)
{
    int parents = early_take();
    if (parents >= 0)
        (void)close(parents);
    if (book == NULL)
        early_open();
}

__attribute__((constructor)) static void early_begin(void)
{
    early_open();
    (void)pthread_atfork(NULL, NULL, early_renew);
}

/* Maps a new file for this process; null if that fails. */
static journal *book_make(const char *prefix)
{
    char path[PATH_MAX];
    void *mapped = MAP_FAILED;
    int error = 0;
    if (!path_make(path, prefix))
        return NULL;
    int file = early_take();
    if (file < 0)
        file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 && errno == EEXIST) /* of what the process was before an exec */
        return NULL;
    /* All its blocks: where the disk is full, a mapped file with holes would end the program. */
    error = file < 0 ? errno : room_limit(sizeof(journal));
    if (error == 0)
        error = posix_fallocate(file, 0, (off_t)sizeof(journal));
    if (error == 0) {
        mapped = mmap(NULL, sizeof(journal), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        error = errno;
    }
    if (file >= 0)
        (void)close(file);
    if (mapped != MAP_FAILED) {
        /* Entries lie by hash: what stands around a page is not read with it. */
        (void)madvise(mapped, sizeof(journal), MADV_RANDOM);
        return mapped;
    }
    (void)unlink(path);
    (void)dprintf(STDERR_FILENO,
                  "tenure: %s: %s. If the program dies, there is no report of its memory.\n", path,
                  strerror(error));
    return NULL;
}

static void book_fill(journal *fresh)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &began);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    fresh->bytes = sizeof(*fresh);
    fresh->pid = (uint64_t)getpid();
    fresh->began_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    program_name(fresh->program, sizeof(fresh->program));
    fresh->magic = JOURNAL_MAGIC;
}

int journal_begin(void)
{
    (void)pthread_mutex_lock(&begin_mutex);
    if (atomic_load(&journal_state) < 0) {
        const char *prefix = getenv("TENURE_PRELOAD_JOURNAL");
        const char *stacks = getenv("TENURE_PRELOAD_JOURNAL_STACKS");
        has_stacks = stacks != NULL && strcmp(stacks, "1") == 0;
        book = prefix == NULL || *prefix == '\0' ? NULL : book_make(prefix);
        if (book != NULL)
            book_fill(book);
        atomic_store(&journal_state, book != NULL);
    }
    (void)pthread_mutex_unlock(&begin_mutex);
    return book != NULL;
}

/* 0 in a forked child, whose memory is not what the journal is about. */
static int is_ours(void)
{
    return !service_is_forked();
}

static int64_t time_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)(now.tv_sec - began.tv_sec) * 1000000000 + (now.tv_nsec - began.tv_nsec);
}

/* ---- stacks --------------------------------------------------------------------------------- */

/* The build id in a segment of notes, in hexadecimal; empty: it is not in there. */
static void note_find(const char *at, const char *end, char *text)
{
    text[0] = '\0';
    while (end - at >= (ptrdiff_t)sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        memcpy(&note, at, sizeof(note));
        const char *name = at + sizeof(note);
        const char *value = name + ((note.n_namesz + 3u) & ~3u);
        if (value > end || note.n_descsz > (size_t)(end - value))
            return;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(name, "GNU", 4) == 0 &&
            note.n_descsz * 2 < JOURNAL_ID) {
            for (unsigned i = 0; i < note.n_descsz; i++)
                snprintf(text + (size_t)i * 2, 3, "%02x", (unsigned char)value[i]);
            return;
        }
        at = value + ((note.n_descsz + 3u) & ~3u);
    }
}

/* Of the module that begins at a base: dl_iterate_phdr's way to tell it. */
typedef struct sought {
    uint64_t base;
    char *text;
} sought;

static int module_look(struct dl_phdr_info *info, size_t size, void *user)
{
    const sought *self = user;
    const ElfW(Phdr) *notes = NULL;
    uint64_t first = UINT64_MAX;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *one = &info->dlpi_phdr[i];
        if (one->p_type == PT_LOAD && one->p_vaddr < first)
            first = one->p_vaddr;
    }
    if (info->dlpi_addr + (first & ~(uint64_t)4095) != self->base)
        return 0;
    for (int i = 0; i < info->dlpi_phnum && self->text[0] == '\0'; i++) {
        notes = &info->dlpi_phdr[i];
        if (notes->p_type == PT_NOTE)
            note_find((const char *)(uintptr_t)(info->dlpi_addr + notes->p_vaddr),
                      (const char *)(uintptr_t)(info->dlpi_addr + notes->p_vaddr + notes->p_memsz),
                      self->text);
    }
    return 1;
}

/* The module's number, from 1; 0: there is no place. */
static uint32_t module_number(const Dl_info *info)
{
    uint64_t base = (uint64_t)(uintptr_t)info->dli_fbase;
    for (uint32_t i = 0; i < JOURNAL_MODULES; i++) {
        journal_module *one = &book->modules[i];
        uint64_t found = atomic_load(&one->base);
        if (found == 0 && atomic_compare_exchange_strong(&one->base, &found, base)) {
            char *real = realpath(info->dli_fname == NULL ? "" : info->dli_fname, NULL);
            snprintf(one->path, sizeof(one->path), "%s",
                     real != NULL              ? real
                     : info->dli_fname == NULL ? ""
                                               : info->dli_fname);
            free(real);
            (void)dl_iterate_phdr(module_look, &(sought){base, one->build_id});
            return i + 1;
        }
        if (found == base)
            return i + 1;
    }
    return 0;
}

static void stack_fill(journal_stack *to, const check_stack *from)
{
    uint32_t count = 0;
    for (int i = 0; i < from->count && count < JOURNAL_FRAMES; i++) {
        Dl_info info = {0};
        uint64_t address = (uint64_t)(uintptr_t)from->frames[i];
        int is_known = dladdr((const void *)(uintptr_t)(address - 1), &info) != 0;
        uint32_t module = is_known ? module_number(&info) : 0;
        to->modules[count] = module;
        to->offsets[count++] =
            module == 0 ? address : address - (uint64_t)(uintptr_t)info.dli_fbase;
    }
    to->count = count;
}

/* The stack's index; 0: none. */
static uint32_t stack_number(const check_stack *stack)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < stack->count; i++)
        hash = (hash ^ (uint64_t)(uintptr_t)stack->frames[i]) * UINT64_C(0x100000001b3);
    hash |= 1;
    for (uint32_t probe = 0; probe < PROBES; probe++) {
        uint32_t index = (uint32_t)((hash >> 20) + probe) % JOURNAL_STACKS;
        journal_stack *one = &book->stacks[index];
        uint64_t found = 0;
        if (index == 0)
            continue;
        if (atomic_compare_exchange_strong(&one->hash, &found, hash)) {
            stack_fill(one, stack);
            return index;
        }
        if (found == hash)
            return index;
    }
    return 0;
}

static uint32_t stack_here(void)
{
    check_stack room;
    return has_stacks ? stack_number(check_stack_take(&room)) : 0;
}

/* The frames of an interpreter mean nothing outside of the process. */
static uint32_t stack_of(const check_stack *from)
{
    if (from == NULL || (from->count > 0 && check_frame_is_described(from->frames[0])))
        return stack_here();
    return has_stacks ? stack_number(from) : 0;
}

static uint32_t thread_number(void)
{
    static _Thread_local uint32_t number;
    if (number == 0)
        number = (uint32_t)syscall(SYS_gettid);
    return number;
}

/* ---- blocks --------------------------------------------------------------------------------- */

static size_t slot_of(uint64_t address, uint32_t probe)
{
    return (size_t)((address >> 9) * UINT64_C(0x9e3779b97f4a7c15) >> 40) + probe;
}

static journal_block *block_find(uint64_t address)
{
    for (uint32_t probe = 0; probe < PROBES; probe++) {
        journal_block *one = &book->live[slot_of(address, probe) % JOURNAL_LIVE];
        uint64_t found = atomic_load(&one->address);
        if (found == address)
            return one;
        if (found == JOURNAL_FREE)
            return NULL;
    }
    return NULL;
}

static journal_block *block_take(uint64_t address)
{
    for (uint32_t probe = 0; probe < PROBES; probe++) {
        journal_block *one = &book->live[slot_of(address, probe) % JOURNAL_LIVE];
        uint64_t found = atomic_load(&one->address);
        if (found <= JOURNAL_GONE &&
            atomic_compare_exchange_strong(&one->address, &found, JOURNAL_BUSY))
            return one;
    }
    return NULL;
}

void journal_counted(void)
{
    if (!is_ours())
        return;
    for (int i = 0; i < COUNT_COUNT; i++)
        atomic_store_explicit(&book->counts[i],
                              atomic_load_explicit(&service_counts[i], memory_order_relaxed),
                              memory_order_relaxed);
}

/* Sums are of device memory, as those that a program writes at its end. */
static int is_host(int device)
{
    return device >= TNR_HOST(0);
}

static void live_add(uint64_t bytes)
{
    uint64_t live = atomic_fetch_add(&book->live_bytes, bytes) + bytes;
    uint64_t peak = atomic_load(&book->peak_live_bytes);
    while (live > peak && !atomic_compare_exchange_weak(&book->peak_live_bytes, &peak, live))
        ;
    atomic_fetch_add(&book->live_blocks, 1);
}

void journal_allocated(uint64_t address, uint64_t bytes, const void *stream, int device,
                       int is_at_once)
{
    if (!is_ours())
        return;
    uint32_t stack = stack_here();
    journal_block *one = block_take(address);
    journal_counted();
    if (!is_host(device))
        live_add(bytes);
    if (one == NULL) {
        atomic_fetch_add(&book->lost, 1);
        return;
    }
    one->bytes = bytes;
    one->stream = (uint64_t)(uintptr_t)stream;
    one->time_ns = time_now();
    one->stack = stack;
    one->thread = thread_number();
    one->device = (uint32_t)device;
    one->is_at_once = (uint32_t)is_at_once;
    atomic_store(&one->address, address);
}

void journal_freeing(uint64_t address)
{
    journal_block *one = is_ours() ? block_find(address) : NULL;
    if (one == NULL)
        return;
    uint64_t place = atomic_fetch_add(&book->freed_count, 1) % JOURNAL_FREED;
    journal_freed *freed = &book->freed[place];
    atomic_store(&freed->was.address, JOURNAL_BUSY);
    freed->was.bytes = one->bytes;
    freed->was.stream = one->stream;
    freed->was.time_ns = one->time_ns;
    freed->was.stack = one->stack;
    freed->was.thread = one->thread;
    freed->was.device = one->device;
    freed->was.is_at_once = one->is_at_once;
    freed->freed_ns = time_now();
    freed->freed_stack = stack_here();
    freed->thread = thread_number();
    atomic_store(&freed->was.address, address);
    if (!is_host((int)one->device)) {
        atomic_fetch_sub(&book->live_bytes, one->bytes);
        atomic_fetch_sub(&book->live_blocks, 1);
    }
    atomic_store(&one->address, JOURNAL_GONE);
    journal_counted();
}

void journal_unfreed(uint64_t address)
{
    for (uint64_t back = 1; is_ours() && back <= 64; back++) {
        uint64_t count = atomic_load(&book->freed_count);
        if (back > count)
            return;
        const journal_block *was = &book->freed[(count - back) % JOURNAL_FREED].was;
        if (atomic_load(&was->address) != address)
            continue;
        journal_allocated(address, was->bytes, (const void *)(uintptr_t)was->stream,
                          (int)was->device, (int)was->is_at_once);
        return;
    }
}

/* ---- launches ------------------------------------------------------------------------------- */

void journal_launched(const char *kernel, const void *stream, const uint64_t *words, int count,
                      const check_stack *from)
{
    if (!is_ours())
        return;
    uint64_t number = atomic_load_explicit(&book->launches_count, memory_order_relaxed) + 1;
    atomic_store_explicit(&book->launches_count, number, memory_order_relaxed);
    if (count == 0)
        return;
    journal_launch *one = &book->launches[number % JOURNAL_LAUNCHES];
    atomic_store_explicit(&one->number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    size_t length = kernel == NULL ? 0 : strnlen(kernel, sizeof(one->kernel) - 1);
    memcpy(one->kernel, kernel == NULL ? "" : kernel, length);
    one->kernel[length] = '\0';
    one->stream = (uint64_t)(uintptr_t)stream;
    one->time_ns = time_now();
    one->stack = stack_of(from);
    one->words_count = (uint32_t)(count < JOURNAL_WORDS ? count : JOURNAL_WORDS);
    memcpy(one->words, words, one->words_count * sizeof(words[0]));
    atomic_store_explicit(&one->number, number, memory_order_release);
}

void journal_over(void)
{
    if (atomic_load(&journal_state) > 0 && is_ours()) {
        journal_counted();
        atomic_store(&book->is_over, 1);
    }
}
