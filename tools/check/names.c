/* SPDX-License-Identifier: Apache-2.0 */
/* What a return address is in: see names.h. */
#include "check/names.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "between.h"
#include "check/python.h"
#include "driver.h"

enum { BUILD_ID_MAX = 20, KNOWN = 4096 };

/* A file that code lies in, mapped as it is on the disk for its symbols. */
typedef struct module {
    struct module *next;
    const void *base;
    char *path;
    const char *name;
    char build_id[BUILD_ID_MAX * 2 + 1];
    const char *bytes; /* null: not to be had */
    size_t length;
    const ElfW(Sym) * symbols;
    size_t symbols_count;
    const char *strings; /* ends with a zero byte */
    size_t strings_bytes;
} module;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static module *modules; /* under the lock; none is ever removed */

/* Frames that were asked for, under the lock, as long as no library is unloaded. The loader looks
 * through all symbols of a library for one, and PyTorch's have hundreds of thousands. */
static struct {
    const void *address;
    check_frame frame;
} known[KNOWN];
static unsigned long long known_unloads;

static void lock_renew(void)
{
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    lock = fresh;
}

__attribute__((constructor)) static void lock_watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, lock_renew);
}

/* ---- files ---------------------------------------------------------------------------------- */

/* A part of the file; null if it does not lie in it. */
static const void *part_of(const module *in, uint64_t offset, uint64_t bytes)
{
    return offset <= in->length && bytes <= in->length - offset ? in->bytes + offset : NULL;
}

static void symbols_find(module *in, const ElfW(Ehdr) * header)
{
    const ElfW(Shdr) *sections =
        part_of(in, header->e_shoff, (uint64_t)header->e_shnum * sizeof(*sections));
    for (size_t i = 0; sections != NULL && i < header->e_shnum; i++) {
        const ElfW(Shdr) *one = &sections[i];
        if (one->sh_type != SHT_SYMTAB || one->sh_link >= header->e_shnum)
            continue;
        const ElfW(Shdr) *text = &sections[one->sh_link];
        const ElfW(Sym) *symbols = part_of(in, one->sh_offset, one->sh_size);
        const char *strings = part_of(in, text->sh_offset, text->sh_size);
        if (symbols == NULL || strings == NULL || text->sh_size == 0 ||
            strings[text->sh_size - 1] != '\0')
            continue;
        in->symbols = symbols;
        in->symbols_count = one->sh_size / sizeof(*symbols);
        in->strings = strings;
        in->strings_bytes = text->sh_size;
    }
}

static void build_id_take(module *in, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count && i < BUILD_ID_MAX; i++)
        (void)snprintf(in->build_id + 2 * i, 3, "%02x", bytes[i]);
}

static void build_id_find(module *in, const ElfW(Ehdr) * header)
{
    const ElfW(Phdr) *parts =
        part_of(in, header->e_phoff, (uint64_t)header->e_phnum * sizeof(*parts));
    for (size_t i = 0; parts != NULL && i < header->e_phnum; i++) {
        const char *notes =
            parts[i].p_type == PT_NOTE ? part_of(in, parts[i].p_offset, parts[i].p_filesz) : NULL;
        size_t left = notes == NULL ? 0 : parts[i].p_filesz;
        ElfW(Nhdr) note;
        while (left >= sizeof(note)) {
            memcpy(&note, notes, sizeof(note));
            size_t name = ((size_t)note.n_namesz + 3) & ~(size_t)3;
            size_t whole = sizeof(note) + name + (((size_t)note.n_descsz + 3) & ~(size_t)3);
            if (whole > left)
                break;
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4)
                build_id_take(in, (const unsigned char *)notes + sizeof(note) + name,
                              note.n_descsz);
            notes += whole;
            left -= whole;
        }
    }
}

static void module_read(module *in)
{
    struct stat info;
    int file = open(in->path, O_RDONLY | O_CLOEXEC);
    if (file >= 0 && fstat(file, &info) == 0 && S_ISREG(info.st_mode) &&
        (size_t)info.st_size >= sizeof(ElfW(Ehdr))) {
        void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        in->bytes = bytes == MAP_FAILED ? NULL : bytes;
        in->length = (size_t)info.st_size;
    }
    if (file >= 0)
        (void)close(file);
    const ElfW(Ehdr) *header = (const void *)in->bytes;
    if (header == NULL || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return;
    symbols_find(in, header);
    build_id_find(in, header);
}

/* The last part of a path. */
static const char *name_in(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* The file of a base; under the lock. Null: no memory. */
static module *module_of(const void *base, const char *path)
{
    for (module *at = modules; at != NULL; at = at->next)
        if (at->base == base && strcmp(at->path, path) == 0)
            return at;
    module *fresh = calloc(1, sizeof(*fresh));
    if (fresh == NULL)
        return NULL;
    fresh->path = strdup(path);
    if (fresh->path == NULL) {
        free(fresh);
        return NULL;
    }
    fresh->name = name_in(fresh->path);
    fresh->base = base;
    module_read(fresh);
    fresh->next = modules;
    modules = fresh;
    return fresh;
}

/* ---- functions ------------------------------------------------------------------------------ */

/* The function that has the place, as the file's addresses go. */
static const char *symbol_at(const module *in, uint64_t place)
{
    for (size_t i = 0; i < in->symbols_count; i++) {
        const ElfW(Sym) *one = &in->symbols[i];
        if (ELF64_ST_TYPE(one->st_info) == STT_FUNC && one->st_name < in->strings_bytes &&
            place - one->st_value < one->st_size)
            return in->strings + one->st_name;
    }
    return NULL;
}

/* A text of a library as it lies in its file, which stays mapped when the library is gone; null: it
 * is not there. */
static const char *text_in_file(const module *in, const struct link_map *loaded, const char *text)
{
    const ElfW(Ehdr) *header = (const void *)in->bytes;
    uint64_t place = (uint64_t)((uintptr_t)text - (uintptr_t)loaded->l_addr);
    const ElfW(Phdr) *parts =
        header == NULL || text == NULL
            ? NULL
            : part_of(in, header->e_phoff, (uint64_t)header->e_phnum * sizeof(*parts));
    for (size_t i = 0; parts != NULL && i < header->e_phnum; i++)
        if (parts[i].p_type == PT_LOAD && place - parts[i].p_vaddr < parts[i].p_filesz) {
            uint64_t offset = parts[i].p_offset + (place - parts[i].p_vaddr);
            const char *found = part_of(in, offset, strlen(text) + 1);
            return found != NULL && strcmp(found, text) == 0 ? found : NULL;
        }
    return NULL;
}

/* ---- C++ ------------------------------------------------------------------------------------ */

typedef struct readable {
    struct readable *next;
    const char *mangled; /* as the caller has it, which may go */
    char texts[];        /* the name, and behind it the mangled one */
} readable;

/* The name of a function of C++, as the source has it; the same text for what is none. The C++
 * library does it, if the program has one: unlike tools/snapshot/demangle.h it has parameters and
 * template arguments, by which rules of --suppress tell functions apart, and the names are the
 * program's own. Under the lock. */
static const char *name_readable(const char *mangled, const char **kept)
{
    enum { PARTS = 512 };
    static readable *parts[PARTS];
    char *(*demangle)(const char *, char *, size_t *, int *);
    void *symbol;
    uint64_t mixed = 0;
    *kept = NULL;
    if (mangled == NULL || strncmp(mangled, "_Z", 2) != 0)
        return mangled;
    for (const char *at = mangled; *at != '\0'; at++)
        mixed = mixed * UINT64_C(0x100000001b3) ^ (unsigned char)*at;
    readable **part = &parts[mixed * UINT64_C(0x9e3779b97f4a7c15) >> 55];
    for (const readable *one = *part; one != NULL; one = one->next)
        if (strcmp(one->mangled, mangled) == 0) {
            *kept = one->mangled;
            return one->texts;
        }
    symbol = dlsym_of_libc()(RTLD_DEFAULT, "__cxa_demangle");
    memcpy(&demangle, &symbol, sizeof(symbol));
    char *name = symbol == NULL ? NULL : demangle(mangled, NULL, NULL, NULL);
    size_t bytes = name == NULL ? 0 : strlen(name) + 1;
    readable *fresh = name == NULL ? NULL : malloc(sizeof(*fresh) + bytes + strlen(mangled) + 1);
    if (fresh != NULL) {
        memcpy(fresh->texts, name, bytes);
        fresh->mangled = strcpy(fresh->texts + bytes, mangled);
        fresh->next = *part;
        *part = fresh;
        *kept = fresh->mangled;
    }
    free(name);
    return fresh == NULL ? mangled : fresh->texts;
}

/* ---- frames --------------------------------------------------------------------------------- */

static int unloads_take(struct dl_phdr_info *info, size_t size, void *to)
{
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs))
        *(unsigned long long *)to = info->dlpi_subs;
    return 1;
}

static size_t slot_of(const void *address)
{
    return (size_t)((uintptr_t)address * UINT64_C(0x9e3779b97f4a7c15) >> 52);
}

/* 1 if the frame was asked for before. `unloads`: how many libraries are gone by now. */
static int known_get(check_frame *frame, const void *address, unsigned long long *unloads)
{
    (void)dl_iterate_phdr(unloads_take, unloads);
    pthread_mutex_lock(&lock);
    if (known_unloads != *unloads)
        memset(known, 0, sizeof(known));
    known_unloads = *unloads;
    int is_known = known[slot_of(address)].address == address;
    if (is_known)
        *frame = known[slot_of(address)].frame;
    pthread_mutex_unlock(&lock);
    return is_known;
}

check_frame check_frame_of(const void *address)
{
    Dl_info info;
    tnr_frame_info code;
    if (check_frame_describe(&code, address))
        return (check_frame){.path = code.file,
                             .name = name_in(code.file),
                             .function = code.function,
                             .is_interpreted = 1,
                             .line = code.line};
    check_frame frame = {.path = NULL};
    unsigned long long unloads = 0;
    if (known_get(&frame, address, &unloads))
        return frame;
    char self[4096];
    void *map = NULL;
    /* What is returned to may be the next function's: the call is what is looked for. */
    const char *call = (const char *)address - 1;
    if (dladdr1(call, &info, &map, RTLD_DL_LINKMAP) == 0 || info.dli_fname == NULL || map == NULL)
        return frame;
    const struct link_map *loaded = map;
    const char *path = loaded->l_name;
    if (path == NULL || path[0] == '\0') { /* the program itself, whose name may be relative */
        ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
        self[length < 0 ? 0 : length] = '\0';
        path = length > 0 ? self : info.dli_fname;
    }
    pthread_mutex_lock(&lock);
    const module *in = module_of(info.dli_fbase, path);
    if (in != NULL) {
        frame.path = in->path;
        frame.name = in->name;
        frame.build_id = in->build_id;
        frame.offset = (uint64_t)((uintptr_t)address - (uintptr_t)info.dli_fbase);
        frame.function = symbol_at(in, (uint64_t)((uintptr_t)call - (uintptr_t)loaded->l_addr));
        if (frame.function == NULL)
            frame.function = text_in_file(in, loaded, info.dli_sname);
        int stays = frame.function != NULL || info.dli_sname == NULL;
        if (!stays)
            frame.function = info.dli_sname;
        frame.is_between = between_is(frame.name, frame.function);
        frame.function = name_readable(frame.function, &frame.mangled);
        frame.is_outside = between_is_outside(frame.name, frame.function);
        if (stays && known_unloads == unloads) {
            known[slot_of(address)].address = address;
            known[slot_of(address)].frame = frame;
        }
    }
    pthread_mutex_unlock(&lock);
    return frame;
}
