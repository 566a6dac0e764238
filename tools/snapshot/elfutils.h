/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elfutils' libdw and libelf, loaded by name when a name is first looked up. No code of theirs,
 * which is under the LGPL, is in the command, nor is that of liblzma, libbz2 and libzstd, which
 * they use. A machine without them can do everything else.
 *
 * Their interface (libdw.so.1, libelf.so.1) has kept its layouts for all versions of elfutils. So
 * what is used of it is declared here and in elfutils.def, and no header of theirs is needed to
 * build. tests/snapshot_tool/elfutils_headers.c compares with the headers.
 *
 * Not for several threads: the commands look names up in one.
 */
#ifndef TENURE_TOOLS_ELFUTILS_H
#define TENURE_TOOLS_ELFUTILS_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct Elf Elf;
typedef struct Elf_Scn Elf_Scn;
typedef struct Dwarf Dwarf;
typedef struct Dwarf_CU Dwarf_CU;
typedef struct Dwarf_Files_s Dwarf_Files;
typedef struct Dwarf_Line_s Dwarf_Line;
typedef Elf64_Addr Dwarf_Addr;
typedef Elf64_Xword Dwarf_Word;
typedef uint16_t Dwarf_Half;

typedef struct Elf_Data {
    void *d_buf;
    int d_type;
    unsigned d_version;
    size_t d_size;
    int64_t d_off;
    size_t d_align;
} Elf_Data;

typedef struct Dwarf_Die {
    void *addr;
    struct Dwarf_CU *cu;
    void *abbrev;
    long padding;
} Dwarf_Die;

typedef struct Dwarf_Attribute {
    unsigned code, form;
    unsigned char *valp;
    struct Dwarf_CU *cu;
} Dwarf_Attribute;

typedef enum Elf_Cmd { ELF_C_READ_MMAP = 8 } Elf_Cmd;
typedef enum Elf_Kind { ELF_K_ELF = 3 } Elf_Kind;
typedef enum Dwarf_Cmd { DWARF_C_READ = 0 } Dwarf_Cmd;

/* DWARF's numbers. */
enum {
    DW_UT_compile = 0x01,
    DW_UT_skeleton = 0x04,
    DW_TAG_lexical_block = 0x0b,
    DW_TAG_inlined_subroutine = 0x1d,
    DW_TAG_module = 0x1e,
    DW_TAG_catch_block = 0x25,
    DW_TAG_subprogram = 0x2e,
    DW_TAG_try_block = 0x32,
    DW_TAG_namespace = 0x39,
    DW_AT_call_file = 0x58,
    DW_AT_call_line = 0x59,
    DW_AT_linkage_name = 0x6e,
    DW_AT_MIPS_linkage_name = 0x2007,
};

typedef struct elfutils_table {
#define ELFUTILS(result, name, arguments) result(*name) arguments;
#include "elfutils.def"
#undef ELFUTILS
} elfutils_table;

/* To be called once elfutils_missing() has returned null. */
extern elfutils_table elfutils;

/* Loads it, at the first call. Null: it is there. Else the rest of a sentence that begins with what
 * is not done: why, and what to install. */
const char *elfutils_missing(void);

#endif
