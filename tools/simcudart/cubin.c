/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine code for a GPU, an ELF file: which kernels and variables are in it, and what it says of
 * each kernel's parameters. The instructions are not looked at.
 *
 * Kernels and variables are symbols. A kernel K has sections .nv.info.K, with its parameters, and
 * .nv.shared.K. The section .nv.info tells of all kernels, each by the number of its symbol. Both
 * kinds are lists of records: form, attribute, and 2 bytes that are a value or the size of one.
 */
#include "rt.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum { FORM_SIZED = 4 };

enum {
    ATTRIBUTE_MAX_THREADS = 0x05,
    ATTRIBUTE_FRAME_SIZE = 0x11,
    ATTRIBUTE_PARAMETER = 0x17,
    ATTRIBUTE_REGISTERS = 0x2f
};

enum { SYMBOL_IS_KERNEL = 0x10, PARAMETERS_MAX = 4096 };

typedef struct elf {
    const unsigned char *image;
    size_t bytes;
    Elf64_Ehdr header;
    const char *names; /* of sections */
    size_t names_bytes;
    Elf64_Shdr symbols, texts; /* the table of symbols, and their names */
    size_t symbol_count;
} elf;

/* ---- the file ------------------------------------------------------------------------------- */

static int section_get(const elf *file, size_t index, Elf64_Shdr *section)
{
    size_t at = file->header.e_shoff + index * sizeof(*section);
    if (index >= file->header.e_shnum || at > file->bytes || file->bytes - at < sizeof(*section))
        return 0;
    memcpy(section, file->image + at, sizeof(*section));
    return section->sh_type == SHT_NOBITS || (section->sh_offset <= file->bytes &&
                                              section->sh_size <= file->bytes - section->sh_offset);
}

/* One that has its contents in the file. */
static int contents_get(const elf *file, size_t index, Elf64_Shdr *section)
{
    return section_get(file, index, section) && section->sh_type != SHT_NOBITS;
}

/* A string of a table that ends in it; else an empty one. */
static const char *string_get(const char *table, size_t table_bytes, size_t at)
{
    return at < table_bytes && memchr(table + at, '\0', table_bytes - at) != NULL ? table + at : "";
}

static const char *section_name(const elf *file, const Elf64_Shdr *section)
{
    return string_get(file->names, file->names_bytes, section->sh_name);
}

static int cubin_open(elf *file, const void *image, size_t bytes)
{
    Elf64_Shdr section;
    *file = (elf){.image = image, .bytes = bytes};
    if (bytes < sizeof(file->header))
        return 0;
    memcpy(&file->header, image, sizeof(file->header));
    if (memcmp(file->header.e_ident, ELFMAG, SELFMAG) != 0 ||
        file->header.e_ident[EI_CLASS] != ELFCLASS64 ||
        file->header.e_shentsize != sizeof(section) ||
        !contents_get(file, file->header.e_shstrndx, &section))
        return 0;
    file->names = (const char *)file->image + section.sh_offset;
    file->names_bytes = section.sh_size;
    for (size_t i = 0; section_get(file, i, &section); i++)
        if (section.sh_type == SHT_SYMTAB && contents_get(file, section.sh_link, &file->texts)) {
            file->symbols = section;
            file->symbol_count = section.sh_size / sizeof(Elf64_Sym);
        }
    return 1;
}

static size_t farther(size_t end, size_t begin, size_t bytes)
{
    return begin + bytes > end ? begin + bytes : end;
}

/* Machine code by itself ends with the last of its headers and sections. */
size_t rt_cubin_bytes(const void *image, size_t most)
{
    Elf64_Ehdr header;
    Elf64_Shdr section;
    if (memcmp(image, ELFMAG, SELFMAG) != 0)
        return 0;
    memcpy(&header, image, sizeof(header));
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(section))
        return 0;
    size_t end = farther(sizeof(header), header.e_shoff, header.e_shnum * sizeof(section));
    end = farther(end, header.e_phoff, (size_t)header.e_phnum * header.e_phentsize);
    for (size_t i = 0; end <= most && i < header.e_shnum; i++) {
        memcpy(&section, (const char *)image + header.e_shoff + i * sizeof(section),
               sizeof(section));
        if (section.sh_type != SHT_NOBITS)
            end = farther(end, section.sh_offset, section.sh_size);
    }
    return end;
}

static Elf64_Sym symbol_get(const elf *file, size_t index)
{
    Elf64_Sym symbol;
    memcpy(&symbol, file->image + file->symbols.sh_offset + index * sizeof(symbol), sizeof(symbol));
    return symbol;
}

static const char *symbol_name(const elf *file, const Elf64_Sym *symbol)
{
    return string_get((const char *)file->image + file->texts.sh_offset, file->texts.sh_size,
                      symbol->st_name);
}

/* ---- records -------------------------------------------------------------------------------- */

typedef int (*record_visit)(unsigned attribute, const unsigned char *value, size_t bytes,
                            void *user);

static int records_walk(const elf *file, const Elf64_Shdr *section, record_visit visit, void *user)
{
    if (section->sh_type == SHT_NOBITS)
        return 1;
    const unsigned char *at = file->image + section->sh_offset, *end = at + section->sh_size;
    while (end - at >= 4) {
        uint16_t bytes = 0;
        memcpy(&bytes, at + 2, sizeof(bytes));
        size_t value_bytes = at[0] == FORM_SIZED ? bytes : 0;
        if (value_bytes > (size_t)(end - at) - 4)
            return 1;
        if (value_bytes != 0 && !visit(at[1], at + 4, value_bytes, user))
            return 0;
        at += 4 + value_bytes;
    }
    return 1;
}

static uint32_t word_get(const unsigned char *value, size_t index)
{
    uint32_t word = 0;
    memcpy(&word, value + index * sizeof(word), sizeof(word));
    return word;
}

/* A parameter: its number (16 bits) and offset (16), and its size in the top 14 bits of a word. */
static int kernel_record(unsigned attribute, const unsigned char *value, size_t bytes, void *user)
{
    rt_code_kernel *kernel = user;
    if (attribute == ATTRIBUTE_MAX_THREADS && bytes >= 12)
        kernel->threads_max = (int)(word_get(value, 0) * word_get(value, 1) * word_get(value, 2));
    if (attribute != ATTRIBUTE_PARAMETER || bytes < 12)
        return 1;
    size_t index = word_get(value, 1) & 0xffff;
    if (index >= PARAMETERS_MAX)
        return 1;
    if (index >= kernel->param_count) {
        size_t room = (index + 1) * sizeof(size_t);
        size_t *sizes = realloc(kernel->param_bytes, room);
        kernel->param_bytes = sizes != NULL ? sizes : kernel->param_bytes;
        size_t *offsets = realloc(kernel->param_offset, room);
        kernel->param_offset = offsets != NULL ? offsets : kernel->param_offset;
        if (sizes == NULL || offsets == NULL)
            return 0;
        for (size_t i = kernel->param_count; i <= index; i++)
            sizes[i] = offsets[i] = 0;
        kernel->param_count = index + 1;
    }
    kernel->param_offset[index] = word_get(value, 1) >> 16;
    kernel->param_bytes[index] = word_get(value, 2) >> 18;
    return 1;
}

typedef struct about_all {
    const elf *file;
    rt_code *code;
} about_all;

static rt_code_kernel *kernel_named(rt_code *code, const char *name)
{
    for (size_t i = 0; i < code->kernel_count; i++)
        if (strcmp(code->kernels[i].name, name) == 0)
            return &code->kernels[i];
    return NULL;
}

static int file_record(unsigned attribute, const unsigned char *value, size_t bytes, void *user)
{
    const about_all *all = user;
    if (bytes < 8 || word_get(value, 0) >= all->file->symbol_count)
        return 1;
    Elf64_Sym symbol = symbol_get(all->file, word_get(value, 0));
    rt_code_kernel *kernel = kernel_named(all->code, symbol_name(all->file, &symbol));
    if (kernel != NULL && attribute == ATTRIBUTE_REGISTERS)
        kernel->registers = (int)word_get(value, 1);
    if (kernel != NULL && attribute == ATTRIBUTE_FRAME_SIZE)
        kernel->local_bytes = word_get(value, 1);
    return 1;
}

/* ---- symbols -------------------------------------------------------------------------------- */

static int is_variable(const elf *file, const Elf64_Sym *symbol, Elf64_Shdr *section)
{
    if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || symbol->st_size == 0 ||
        !section_get(file, symbol->st_shndx, section))
        return 0;
    const char *name = section_name(file, section);
    return strncmp(name, ".nv.global", 10) == 0 || strcmp(name, ".nv.constant3") == 0;
}

static void variable_read(const elf *file, const Elf64_Sym *symbol, const Elf64_Shdr *section,
                          rt_code_variable *variable)
{
    *variable = (rt_code_variable){.name = symbol_name(file, symbol), .bytes = symbol->st_size};
    variable->is_constant = strcmp(section_name(file, section), ".nv.constant3") == 0;
    if (section->sh_type != SHT_NOBITS && symbol->st_value <= section->sh_size &&
        symbol->st_size <= section->sh_size - symbol->st_value)
        variable->contents = file->image + section->sh_offset + symbol->st_value;
}

static int is_kernel(const Elf64_Sym *symbol)
{
    return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && (symbol->st_other & SYMBOL_IS_KERNEL) != 0;
}

/* 1 if something in the file launches kernels from the device. */
static int has_launches(const elf *file)
{
    for (size_t i = 0; i < file->symbol_count; i++) {
        Elf64_Sym symbol = symbol_get(file, i);
        const char *name = symbol_name(file, &symbol);
        if (strstr(name, "cudaCDP") != NULL || strncmp(name, "cudaLaunchDevice", 16) == 0)
            return 1;
    }
    return 0;
}

/* 0 when memory is short. */
static int symbols_read(const elf *file, rt_code *code)
{
    code->kernels = calloc(file->symbol_count + 1, sizeof(*code->kernels));
    code->variables = calloc(file->symbol_count + 1, sizeof(*code->variables));
    if (code->kernels == NULL || code->variables == NULL)
        return 0;
    int launches = has_launches(file);
    for (size_t i = 0; i < file->symbol_count; i++) {
        Elf64_Sym symbol = symbol_get(file, i);
        Elf64_Shdr section;
        if (is_variable(file, &symbol, &section)) {
            variable_read(file, &symbol, &section, &code->variables[code->variable_count++]);
        } else if (is_kernel(&symbol)) {
            rt_code_kernel *kernel = &code->kernels[code->kernel_count++];
            kernel->name = symbol_name(file, &symbol);
            kernel->launches = launches;
        }
    }
    return 1;
}

/* CUDA 13 has it in another byte than those before. */
static int architecture_of(const Elf64_Ehdr *header)
{
    enum { ABI_OF_13 = 8 };
    int shift = header->e_ident[EI_ABIVERSION] >= ABI_OF_13 ? 8 : 0;
    return (int)(header->e_flags >> shift & 0xff);
}

int rt_cubin_read(const void *image, size_t bytes, rt_code *code)
{
    static const char info[] = ".nv.info", shared[] = ".nv.shared.";
    elf file;
    Elf64_Shdr section;
    if (!cubin_open(&file, image, bytes))
        return 1;
    if (!symbols_read(&file, code))
        return 0;
    if (code->architecture == 0)
        code->architecture = architecture_of(&file.header);
    for (size_t i = 0; i < code->kernel_count; i++)
        code->kernels[i].architecture = code->architecture;
    about_all all = {&file, code};
    for (size_t i = 0; i < file.header.e_shnum; i++) {
        if (!section_get(&file, i, &section))
            continue;
        const char *name = section_name(&file, &section);
        if (strcmp(name, info) == 0)
            (void)records_walk(&file, &section, file_record, &all);
        rt_code_kernel *kernel = NULL;
        if (strncmp(name, shared, sizeof(shared) - 1) == 0 &&
            (kernel = kernel_named(code, name + sizeof(shared) - 1)) != NULL)
            kernel->shared_bytes = section.sh_size;
        if (strncmp(name, info, sizeof(info) - 1) == 0 && name[sizeof(info) - 1] == '.' &&
            (kernel = kernel_named(code, name + sizeof(info))) != NULL &&
            !records_walk(&file, &section, kernel_record, kernel))
            return 0;
    }
    return 1;
}
