/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and their build ids: see modules.h. */
#include "see/snapshot/modules.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "base/host_memory.h"

/* ---- build ids ------------------------------------------------------------------------------ */

/* 1 if the range is in a part of the file that was loaded and can be read. Not every file's notes
 * are. */
static int range_is_loaded(const struct dl_phdr_info *info, const ElfW(Phdr) * range)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && (part->p_flags & PF_R) != 0 &&
            range->p_vaddr >= part->p_vaddr && range->p_filesz <= part->p_filesz &&
            range->p_vaddr - part->p_vaddr <= part->p_filesz - range->p_filesz)
            return 1;
    }
    return 0;
}

static size_t padded(size_t bytes, size_t to)
{
    return (bytes + to - 1) & ~(to - 1);
}

/* Looks for the build id among the notes from `at` on. A description, and the next note, begin at
 * the alignment, counted from where the note begins. */
static void notes_read(tnri_module *module, const unsigned char *at, size_t left, size_t alignment)
{
    ElfW(Nhdr) head;
    while (left >= sizeof(head)) {
        memcpy(&head, at, sizeof(head));
        size_t text = padded(sizeof(head) + head.n_namesz, alignment);
        if (text > left || head.n_descsz > left - text)
            return;
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 &&
            memcmp(at + sizeof(head), "GNU", 4) == 0 && head.n_descsz <= TNRI_BUILD_ID_BYTES) {
            memcpy(module->build_id, at + text, head.n_descsz);
            module->build_id_bytes = (uint8_t)head.n_descsz;
            return;
        }
        size_t bytes = text + padded(head.n_descsz, alignment);
        if (bytes > left) /* the last one is not padded */
            return;
        at += bytes;
        left -= bytes;
    }
}

static void build_id_find(tnri_module *module, const struct dl_phdr_info *info)
{
    for (size_t i = 0; i < info->dlpi_phnum && module->build_id_bytes == 0; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_NOTE && range_is_loaded(info, part))
            notes_read(module, (const unsigned char *)(info->dlpi_addr + part->p_vaddr),
                       part->p_filesz, part->p_align == 8 ? 8 : 4);
    }
}

/* ---- the list ------------------------------------------------------------------------------- */

/* Where the linker says that a file begins: the page of what is loaded first. */
static uintptr_t base_of(const struct dl_phdr_info *info)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD)
            return info->dlpi_addr + (info->dlpi_phdr[i].p_vaddr & ~(page - 1));
    }
    return 0;
}

static int module_count(struct dl_phdr_info *info, size_t bytes, void *context)
{
    (void)info;
    (void)bytes;
    ++*(size_t *)context;
    return 0;
}

static int module_add(struct dl_phdr_info *info, size_t bytes, void *context)
{
    tnri_modules *modules = context;
    (void)bytes;
    if (modules->count == modules->room)
        return 1;
    tnri_module *module = &modules->list[modules->count++];
    memset(module, 0, sizeof(*module));
    module->base = base_of(info);
    module->path = info->dlpi_name[0] == '\0' ? modules->program : info->dlpi_name;
    build_id_find(module, info);
    return 0;
}

int tnri_modules_make(tnri_modules *modules)
{
    size_t loaded = 0;
    memset(modules, 0, sizeof(*modules));
    (void)dl_iterate_phdr(module_count, &loaded);
    modules->room = loaded + 16; /* what another thread loads meanwhile */
    modules->list = tnri_host_reserve(modules->room * sizeof(modules->list[0]) + PATH_MAX);
    if (modules->list == NULL)
        return 0;
    /* The linker calls the program by the name that it was started by, which is found from its
     * folder of then only, or by its PATH. */
    modules->program = (char *)(modules->list + modules->room);
    ssize_t length = readlink("/proc/self/exe", modules->program, PATH_MAX - 1);
    modules->program[length > 0 ? length : 0] = '\0';
    (void)dl_iterate_phdr(module_add, modules);
    return 1;
}

void tnri_modules_free(tnri_modules *modules)
{
    tnri_host_unreserve(modules->list, modules->room * sizeof(modules->list[0]) + PATH_MAX);
    memset(modules, 0, sizeof(*modules));
}

tnri_module *tnri_modules_find(tnri_modules *modules, uintptr_t base)
{
    if (modules->latest < modules->count && modules->list[modules->latest].base == base)
        return &modules->list[modules->latest];
    for (size_t i = 0; i < modules->count; i++) {
        if (modules->list[i].base == base) {
            modules->latest = i;
            return &modules->list[i];
        }
    }
    return NULL;
}
