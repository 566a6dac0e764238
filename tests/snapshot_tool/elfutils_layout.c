/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tools/snapshot/elfutils.h and elfutils.def declare of elfutils, beside elfutils' headers.
 * Compiled with THEIRS, this is the headers' layouts and numbers, and each function's type is
 * asserted; compiled without, it is ours, and a program that compares.
 *
 * Seen to fail: with ELF_C_READ_MMAP 9. With d_off of Elf_Data left out, or with an `unsigned` for
 * the index of gelf_getphdr, it does not compile.
 */
#ifdef THEIRS
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <gelf.h>

#define ELFUTILS(result, name, arguments)                                                          \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), result arguments),               \
                   "the type of " #name);
#include "elfutils.def"
#undef ELFUTILS
#define NUMBERS theirs
#else
#include "elfutils.h"
#define NUMBERS ours
#endif

#include <stddef.h>
#include <stdio.h>

enum { COUNT = 29 };
extern const long ours[COUNT], theirs[COUNT];

#define MEMBER(type, name) (long)offsetof(type, name)

const long NUMBERS[COUNT] = {
    sizeof(Elf_Data),
    MEMBER(Elf_Data, d_buf),
    MEMBER(Elf_Data, d_type),
    MEMBER(Elf_Data, d_version),
    MEMBER(Elf_Data, d_size),
    MEMBER(Elf_Data, d_off),
    MEMBER(Elf_Data, d_align),
    sizeof(Dwarf_Die),
    MEMBER(Dwarf_Die, addr),
    sizeof(Dwarf_Attribute),
    sizeof(Dwarf_Addr),
    sizeof(Dwarf_Word),
    sizeof(Dwarf_Half),
    ELF_C_READ_MMAP,
    ELF_K_ELF,
    DWARF_C_READ,
    DW_UT_compile,
    DW_UT_skeleton,
    DW_TAG_lexical_block,
    DW_TAG_inlined_subroutine,
    DW_TAG_module,
    DW_TAG_catch_block,
    DW_TAG_subprogram,
    DW_TAG_try_block,
    DW_TAG_namespace,
    DW_AT_call_file,
    DW_AT_call_line,
    DW_AT_linkage_name,
    DW_AT_MIPS_linkage_name,
};

#ifndef THEIRS
int main(void)
{
    int code = 0;
    for (int i = 0; i < COUNT; i++)
        if (ours[i] != theirs[i]) {
            printf("the number at index %d is %ld here and %ld in elfutils' headers\n", i, ours[i],
                   theirs[i]);
            code = 1;
        }
    return code;
}
#endif
