/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Build ids, read from what the dynamic linker says of files. Notes of every alignment are found,
 * and invalid notes are not read beyond their end. The linker is this program's.
 *
 * before_it failed, at an alignment of eight, where a name was padded by itself and not with the
 * head before it, and at_the_end where the last description had to have its padding.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "unit/unit.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/host_memory.h"
#include "see/snapshot/modules.h"

/* ---- a linker ------------------------------------------------------------------------------- */

enum { PARTS_MAX = 4, PAGE = 4096, FILES_MAX = 24 };

static ElfW(Phdr) parts[PARTS_MAX];
static size_t parts_count;
static unsigned char *page; /* the file, whose next page cannot be read */
static int files;           /* that are loaded, the same again and again; 0: the real ones */
static int files_later;     /* that another thread loads between two looks */

static int real_iterate(int (*call)(struct dl_phdr_info *, size_t, void *), void *data)
{
    return ((__typeof__(&dl_iterate_phdr))(uintptr_t)dlsym(RTLD_NEXT, "dl_iterate_phdr"))(call,
                                                                                          data);
}

int dl_iterate_phdr(int (*call)(struct dl_phdr_info *, size_t, void *), void *data)
{
    if (files == 0)
        return real_iterate(call, data);
    struct dl_phdr_info info = {.dlpi_addr = (ElfW(Addr))(uintptr_t)page,
                                .dlpi_name = "libodd.so",
                                .dlpi_phdr = parts,
                                .dlpi_phnum = (ElfW(Half))parts_count};
    int result = 0;
    for (int i = 0; i < files && result == 0; i++)
        result = call(&info, sizeof(info), data);
    files += files_later;
    return result;
}

/* ---- files ---------------------------------------------------------------------------------- */

static size_t used; /* bytes of the page, from its end on */

static void part_add(unsigned type, unsigned flags, size_t at, size_t bytes, size_t alignment)
{
    parts[parts_count++] = (ElfW(Phdr)){.p_type = type,
                                        .p_flags = flags,
                                        .p_vaddr = at,
                                        .p_filesz = bytes,
                                        .p_memsz = bytes,
                                        .p_align = alignment};
}

static int file_start(void **state)
{
    (void)state;
    page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || mprotect(page + PAGE, PAGE, PROT_NONE) != 0)
        return -1;
    parts_count = 0;
    used = 0;
    files = 1;
    files_later = 0;
    part_add(PT_LOAD, PF_R, 0, PAGE, PAGE);
    return 0;
}

static int file_stop(void **state)
{
    (void)state;
    files = 0;
    return munmap(page, 2 * PAGE);
}

static unsigned char notes[1024];

/* Appends a note as the ELF format has it: its description begins, and the next note, at the
 * alignment, counted from where the notes begin. */
static void note_add(const char *name, unsigned type, const void *text, size_t bytes, size_t align)
{
    ElfW(Nhdr) head = {
        .n_namesz = (ElfW(Word))strlen(name) + 1, .n_descsz = (ElfW(Word))bytes, .n_type = type};
    used = (used + align - 1) & ~(align - 1);
    memcpy(notes + used, &head, sizeof(head));
    memcpy(notes + used + sizeof(head), name, head.n_namesz);
    used += (sizeof(head) + head.n_namesz + align - 1) & ~(align - 1);
    memcpy(notes + used, text, bytes);
    used += bytes;
}

/* What is read as the build id of a file with these notes right before the unreadable page. */
static const tnri_module *module_read(tnri_modules *modules, size_t align)
{
    size_t at = (PAGE - used) & ~(size_t)7;
    memmove(page + at, notes, used);
    part_add(PT_NOTE, PF_R, at, used, align);
    assert_int_equal(tnri_modules_make(modules), 1);
    const tnri_module *module = tnri_modules_find(modules, (uintptr_t)page);
    assert_non_null(module);
    assert_string_equal(module->path, "libodd.so");
    return module;
}

static void check_id(size_t align, const void *id, size_t bytes)
{
    tnri_modules modules;
    const tnri_module *module = module_read(&modules, align);
    assert_int_equal(module->build_id_bytes, bytes);
    assert_memory_equal(module->build_id, id, bytes);
    tnri_modules_free(&modules);
}

static const unsigned char id[40] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};

/* ---- the tests ------------------------------------------------------------------------------ */

/* Other notes come first, with names and descriptions of any length. */
static void before_it(void **state)
{
    for (size_t align = 4; align <= 8; align += 4)
        for (size_t bytes = 0; bytes < 20; bytes++) {
            note_add("GNU", NT_GNU_PROPERTY_TYPE_0, id, bytes, align);
            note_add("Longer", NT_GNU_BUILD_ID, id, bytes, align); /* of somebody else */
            note_add("XYZ", NT_GNU_BUILD_ID, id, bytes, align);
            note_add("GNU", NT_GNU_BUILD_ID, id, 20, align);
            note_add("GNU", NT_GNU_ABI_TAG, id, 16, align);
            check_id(align, id, 20);
            assert_int_equal(file_stop(state), 0);
            assert_int_equal(file_start(state), 0);
        }
}

static void at_the_end(void **state)
{
    for (size_t align = 4; align <= 8; align += 4)
        for (size_t bytes = 1; bytes <= TNRI_BUILD_ID_BYTES; bytes++) {
            note_add("GNU", NT_GNU_BUILD_ID, id, bytes, align);
            check_id(align, id, bytes);
            assert_int_equal(file_stop(state), 0);
            assert_int_equal(file_start(state), 0);
        }
}

/* Cut off at every byte, too long, or with sizes that lead beyond the file. */
static void notes_that_are_none(void **state)
{
    note_add("GNU", NT_GNU_BUILD_ID, id, TNRI_BUILD_ID_BYTES + 1, 4);
    check_id(4, id, 0);
    for (size_t cut = 0; cut < 32; cut++) {
        assert_int_equal(file_stop(state), 0);
        assert_int_equal(file_start(state), 0);
        note_add("GNU", NT_GNU_BUILD_ID, id, 20, 4);
        used = cut;
        check_id(4, id, 0);
    }
    static const unsigned sizes[] = {21, 1000, 0x7fffffff, 0xfffffff0, 0xffffffff};
    for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        assert_int_equal(file_stop(state), 0);
        assert_int_equal(file_start(state), 0);
        note_add("GNU", NT_GNU_BUILD_ID, id, 20, 4);
        memcpy(notes + 4 * (i % 2), &sizes[i / 2], 4);
        check_id(i % 3 == 0 ? 8 : 4, id, 0);
    }
}

/* Notes are read only where the file was loaded, and can be. */
static void notes_that_are_not_loaded(void **state)
{
    (void)state;
    tnri_modules modules;
    static const struct {
        unsigned type, flags;
        size_t at, bytes;
    } cases[] = {{PT_LOAD, PF_X, 0, PAGE},
                 {PT_DYNAMIC, PF_R, 0, PAGE},
                 {PT_LOAD, PF_R, 0, 16},
                 {PT_LOAD, PF_R, 0, PAGE - 8},
                 {PT_LOAD, PF_R, PAGE - 8, PAGE}};
    note_add("GNU", NT_GNU_BUILD_ID, id, 20, 4);
    size_t at = (PAGE - used) & ~(size_t)7;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        parts_count = 0;
        part_add(cases[i].type, cases[i].flags, cases[i].at, cases[i].bytes, PAGE);
        part_add(PT_NOTE, PF_R, at, used, 4);
        assert_int_equal(tnri_modules_make(&modules), 1);
        assert_int_equal(modules.count, 1);
        assert_int_equal(modules.list[0].build_id_bytes, 0);
        tnri_modules_free(&modules);
    }
}

/* What is loaded between counting and listing has room, up to a point. */
static void files_that_come_meanwhile(void **state)
{
    (void)state;
    tnri_modules modules;
    files_later = FILES_MAX;
    assert_int_equal(tnri_modules_make(&modules), 1);
    assert_int_equal(modules.count, modules.room);
    assert_true(modules.count < 1 + FILES_MAX);
    assert_null(tnri_modules_find(&modules, (uintptr_t)page + PAGE));
    tnri_modules_free(&modules);
    (void)tnri_host_fail_at(1, 0);
    assert_int_equal(tnri_modules_make(&modules), 0);
    (void)tnri_host_fail_at(0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(before_it, file_start, file_stop),
        cmocka_unit_test_setup_teardown(at_the_end, file_start, file_stop),
        cmocka_unit_test_setup_teardown(notes_that_are_none, file_start, file_stop),
        cmocka_unit_test_setup_teardown(notes_that_are_not_loaded, file_start, file_stop),
        cmocka_unit_test_setup_teardown(files_that_come_meanwhile, file_start, file_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
