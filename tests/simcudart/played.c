/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine code and fat binaries as nvcc 13.0 writes them, as far as a runtime reads them.
 */
#include "played.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In every build: a program that is wrong must not pass. */
static void must(int is_so)
{
    if (!is_so)
        abort();
}

enum { SECTIONS_MAX = 32, TEXT_MAX = 2048 };

typedef struct writer {
    unsigned char *out;
    size_t used;
    Elf64_Shdr sections[SECTIONS_MAX];
    size_t section_count;
    char names[TEXT_MAX], texts[TEXT_MAX]; /* of sections, of symbols */
    size_t names_used, texts_used;
    Elf64_Sym symbols[1 + 2 * PLAYED_MAX];
    size_t symbol_count;
} writer;

static uint32_t text_add(char *texts, size_t *used, const char *text)
{
    size_t at = *used, bytes = strlen(text) + 1;
    must(at + bytes <= TEXT_MAX);
    memcpy(texts + at, text, bytes);
    *used += bytes;
    return (uint32_t)at;
}

static size_t section_add(writer *to, const char *name, uint32_t type, const void *contents,
                          size_t bytes)
{
    size_t index = to->section_count++;
    must(index < SECTIONS_MAX && to->used + bytes + 8 <= PLAYED_BYTES);
    to->used = (to->used + 7) & ~(size_t)7;
    to->sections[index] = (Elf64_Shdr){.sh_name = text_add(to->names, &to->names_used, name),
                                       .sh_type = type,
                                       .sh_offset = to->used,
                                       .sh_size = bytes};
    if (contents != NULL) {
        memcpy(to->out + to->used, contents, bytes);
        to->used += bytes;
    }
    return index;
}

static uint32_t symbol_add(writer *to, const char *name, unsigned char type, unsigned char other,
                           size_t section, size_t bytes)
{
    uint32_t index = (uint32_t)to->symbol_count++;
    to->symbols[index] = (Elf64_Sym){.st_name = text_add(to->texts, &to->texts_used, name),
                                     .st_info = ELF64_ST_INFO(STB_GLOBAL, type),
                                     .st_other = other,
                                     .st_shndx = (Elf64_Half)section,
                                     .st_size = bytes};
    return index;
}

/* A record with a value of some words. */
static size_t record_add(uint32_t *to, uint32_t attribute, const uint32_t *words, size_t count)
{
    to[0] = 4 | attribute << 8 | (uint32_t)(count * 4) << 16;
    memcpy(to + 1, words, count * sizeof(*words));
    return 1 + count;
}

static void kernel_write(writer *to, const played_kernel *kernel, uint32_t *info, size_t *info_used)
{
    static const uint32_t instructions[4] = {1, 2, 3, 4};
    uint32_t own[(1 + 3) * (PLAYED_MAX + 1)];
    char name[256];
    size_t used = 0, offset = 0;
    snprintf(name, sizeof(name), ".text.%s", kernel->name);
    size_t text = section_add(to, name, SHT_PROGBITS, instructions, sizeof(instructions));
    uint32_t symbol = symbol_add(to, kernel->name, STT_FUNC, 0x10, text, sizeof(instructions));
    for (size_t i = 0; i < kernel->count; i++) {
        size_t alignment = kernel->bytes[i] % 8 == 0 ? 8 : 4;
        offset = (offset + alignment - 1) / alignment * alignment;
        const uint32_t words[3] = {0, (uint32_t)i | (uint32_t)offset << 16,
                                   (uint32_t)kernel->bytes[i] << 18 | 0x1f000};
        used += record_add(own + used, 0x17, words, 3);
        offset += kernel->bytes[i];
    }
    const uint32_t bounds[3] = {kernel->threads_max, 1, 1};
    if (kernel->threads_max != 0)
        used += record_add(own + used, 0x05, bounds, 3);
    snprintf(name, sizeof(name), ".nv.info.%s", kernel->name);
    section_add(to, name, 0x70000000, own, used * sizeof(*own));
    snprintf(name, sizeof(name), ".nv.shared.%s", kernel->name);
    if (kernel->shared_bytes != 0)
        section_add(to, name, SHT_NOBITS, NULL, kernel->shared_bytes);
    const uint32_t registers[2] = {symbol, kernel->registers};
    *info_used += record_add(info + *info_used, 0x2f, registers, 2);
}

static void variable_write(writer *to, const played_variable *variable)
{
    const char *name = variable->is_constant        ? ".nv.constant3"
                       : variable->contents != NULL ? ".nv.global.init"
                                                    : ".nv.global";
    size_t section = section_add(to, name, variable->contents != NULL ? SHT_PROGBITS : SHT_NOBITS,
                                 variable->contents, variable->bytes);
    symbol_add(to, variable->name, STT_OBJECT, 0, section, variable->bytes);
}

size_t played_cubin(unsigned char out[PLAYED_BYTES], const played_kernel *kernels, size_t count,
                    const played_variable *variables, size_t variable_count)
{
    static writer to; /* large */
    uint32_t info[3 * PLAYED_MAX];
    size_t info_used = 0;
    memset(&to, 0, sizeof(to));
    memset(out, 0, PLAYED_BYTES);
    to.out = out;
    to.used = sizeof(Elf64_Ehdr);
    section_add(&to, "", SHT_NULL, NULL, 0);
    symbol_add(&to, "", STT_NOTYPE, 0, 0, 0);
    for (size_t i = 0; i < count; i++)
        kernel_write(&to, &kernels[i], info, &info_used);
    for (size_t i = 0; i < variable_count; i++)
        variable_write(&to, &variables[i]);
    section_add(&to, ".nv.info", 0x70000000, info, info_used * sizeof(*info));
    size_t texts = section_add(&to, ".strtab", SHT_STRTAB, to.texts, to.texts_used);
    size_t symbols = section_add(&to, ".symtab", SHT_SYMTAB, to.symbols,
                                 to.symbol_count * sizeof(to.symbols[0]));
    to.sections[symbols].sh_link = (uint32_t)texts;
    size_t names_at = to.names_used;
    size_t names = section_add(&to, ".shstrtab", SHT_STRTAB, to.names, names_at + 10);
    size_t table = (to.used + 7) & ~(size_t)7;
    must(table + sizeof(to.sections) <= PLAYED_BYTES);
    memcpy(out + table, to.sections, to.section_count * sizeof(to.sections[0]));
    Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                         .e_type = ET_EXEC,
                         .e_machine = 190,
                         .e_shoff = table,
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shnum = (Elf64_Half)to.section_count,
                         .e_shstrndx = (Elf64_Half)names};
    memcpy(out, &header, sizeof(header));
    return table + to.section_count * sizeof(to.sections[0]);
}

size_t played_pack(unsigned char *out, const unsigned char *from, size_t bytes)
{
    size_t used = 0, rest = bytes - 15;
    out[used++] = 0xff;
    for (; rest >= 255; rest -= 255)
        out[used++] = 255;
    out[used++] = (unsigned char)rest;
    memcpy(out + used, from, bytes);
    used += bytes;
    /* From 1 before, 15 + 255 + 0 + 4 long; then a token without literals. */
    const unsigned char match[] = {1, 0, 255, 0, 0};
    memcpy(out + used, match, sizeof(match));
    return used + sizeof(match);
}

size_t played_fatbin(unsigned char *out, size_t room, const played_entry *entries, size_t count)
{
    enum { ENTRY_HEADER = 64, HEADER = 16 };
    size_t used = HEADER;
    for (size_t i = 0; i < count; i++) {
        uint64_t padded = (entries[i].bytes + 7) & ~(uint64_t)7;
        uint32_t header[ENTRY_HEADER / 4] = {(uint32_t)entries[i].kind | 0x101U << 16,
                                             ENTRY_HEADER};
        memcpy(&header[2], &padded, sizeof(padded));
        header[4] = (entries[i].flags & 0xa000) != 0 ? (uint32_t)entries[i].bytes : 0;
        header[7] = (uint32_t)entries[i].architecture;
        memcpy(&header[10], &entries[i].flags, sizeof(entries[i].flags));
        const uint64_t unpacked = entries[i].unpacked;
        memcpy(&header[14], &unpacked, sizeof(unpacked));
        must(used + ENTRY_HEADER + padded <= room);
        memcpy(out + used, header, ENTRY_HEADER);
        memset(out + used + ENTRY_HEADER, 0, padded);
        memcpy(out + used + ENTRY_HEADER, entries[i].payload, entries[i].bytes);
        used += ENTRY_HEADER + padded;
    }
    const uint32_t magic = 0xba55ed50, form = 1 | HEADER << 16;
    const uint64_t bytes = used - HEADER;
    memcpy(out, &magic, 4);
    memcpy(out + 4, &form, 4);
    memcpy(out + 8, &bytes, 8);
    return used;
}
