/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names by libelf and libdw: see debug_info.h.
 *
 * A hundred thousand places may be looked up in one file, so no look-up may search a file from
 * front to back. Three tables, sorted by address, are made when they are first needed:
 *
 *   symbols     the functions of the symbol table;
 *   spans       which compilation unit has which code;
 *   unit.scopes the functions of a unit, and the calls that were inlined into them. Each knows the
 *               one around it, so the innermost is found by halving and the rest by going outwards.
 *
 * libdw's part that can ask a server for debug information (libdwfl) is not used at all.
 */
#include "debug_info.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "debug_file.h"
#include "elfutils.h"
#include "model.h"

#define SCOPE_NONE UINT32_MAX

/* In a file that means harm, the tree of a unit can be a ring. */
enum { DEPTH_MAX = 512, STEPS_MAX = 1 << 26 };

typedef struct symbol {
    uint64_t low, high;
    const char *name;
} symbol;

typedef struct scope {
    uint64_t low, high;
    uint32_t around; /* the scope that it lies in, or SCOPE_NONE */
    uint32_t depth;  /* in the tree, so that of equal ranges the outer comes first */
    Dwarf_Die die;
} scope;

typedef struct unit {
    Dwarf_Die lines; /* whose line table it is */
    Dwarf_Die tree;  /* the same, or what the unit refers to in a file apart */
    array scopes;    /* scope */
    int is_scanned;
} unit;

typedef struct span {
    uint64_t low, high;
    uint32_t unit;
} span;

struct debug_info {
    budget *limits;
    debug_file code, apart;
    Dwarf *dwarf; /* null: there is no debug information */
    uint64_t first_page;
    array symbols; /* symbol */
    array units;   /* unit */
    array spans;   /* span */
    uint64_t steps;
};

/* ---- symbols -------------------------------------------------------------------------------- */

static int symbol_compare(const void *left, const void *right)
{
    const symbol *a = left, *b = right;
    if (a->low != b->low)
        return a->low < b->low ? -1 : 1;
    if (a->high != b->high)
        return a->high > b->high ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Adds the functions of one table. What says no size could end anywhere and is left out. */
static int symbols_add(debug_info *to, Elf *elf, Elf_Scn *section, const Elf64_Shdr *head)
{
    Elf_Data *data = elfutils.elf_getdata(section, NULL);
    size_t count = data && head->sh_entsize > 0 ? data->d_size / head->sh_entsize : 0;
    for (size_t i = 0; i < count && i <= INT32_MAX; i++) {
        Elf64_Sym one;
        if (!elfutils.gelf_getsym(data, (int)i, &one) || one.st_shndx == SHN_UNDEF ||
            one.st_size == 0 || one.st_value + one.st_size < one.st_value)
            continue;
        unsigned char kind = ELF64_ST_TYPE(one.st_info);
        const char *name = elfutils.elf_strptr(elf, head->sh_link, one.st_name);
        if ((kind != STT_FUNC && kind != STT_GNU_IFUNC) || !name || !*name)
            continue;
        if (array_reserve(&to->symbols, to->limits, sizeof(symbol), to->symbols.count + 1) != 0)
            return -1;
        *MODEL_AT(to->symbols, symbol, to->symbols.count++) =
            (symbol){one.st_value, one.st_value + one.st_size, name};
    }
    return 0;
}

static int symbols_read(debug_info *to, Elf *elf)
{
    for (Elf_Scn *section = elfutils.elf_nextscn(elf, NULL); section;
         section = elfutils.elf_nextscn(elf, section)) {
        Elf64_Shdr head;
        if (elfutils.gelf_getshdr(section, &head) && head.sh_type == SHT_SYMTAB &&
            symbols_add(to, elf, section, &head) != 0)
            return -1;
    }
    if (to->symbols.count > 0)
        qsort(to->symbols.items, to->symbols.count, sizeof(symbol), symbol_compare);
    return 0;
}

/* How many of the entries, which begin with their lowest address and are sorted by it, begin at or
 * before this one. */
static size_t begun_before(const array *sorted, size_t entry_bytes, uint64_t address)
{
    size_t low = 0, high = sorted->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t begin;
        memcpy(&begin, (const char *)sorted->items + middle * entry_bytes, sizeof(begin));
        if (begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const char *symbol_find(const debug_info *from, uint64_t address)
{
    size_t at = begun_before(&from->symbols, sizeof(symbol), address);
    /* A few steps back: one that begins earlier may be the longer one. */
    for (size_t steps = 0; at > 0 && steps < 8; steps++) {
        const symbol *one = MODEL_AT(from->symbols, symbol, --at);
        if (address < one->high)
            return one->name;
    }
    return NULL;
}

/* ---- units ---------------------------------------------------------------------------------- */

static int span_compare(const void *left, const void *right)
{
    const span *a = left, *b = right;
    if (a->low != b->low)
        return a->low < b->low ? -1 : 1;
    return a->unit < b->unit ? -1 : a->unit > b->unit;
}

static int units_read(debug_info *to)
{
    Dwarf_CU *cu = NULL;
    Dwarf_Die die, apart;
    uint8_t kind;
    while (elfutils.dwarf_get_units(to->dwarf, cu, &cu, NULL, &kind, &die, &apart) == 0) {
        Dwarf_Addr base, low, high;
        ptrdiff_t at = 0;
        if (kind != DW_UT_compile && kind != DW_UT_skeleton)
            continue;
        if (array_reserve(&to->units, to->limits, sizeof(unit), to->units.count + 1) != 0)
            return -1;
        unit *made = MODEL_AT(to->units, unit, to->units.count++);
        memset(made, 0, sizeof(*made));
        made->lines = die;
        made->tree = kind == DW_UT_skeleton && apart.addr ? apart : die;
        while ((at = elfutils.dwarf_ranges(&die, at, &base, &low, &high)) > 0) {
            if (array_reserve(&to->spans, to->limits, sizeof(span), to->spans.count + 1) != 0)
                return -1;
            *MODEL_AT(to->spans, span, to->spans.count++) =
                (span){low, high, (uint32_t)to->units.count - 1};
        }
    }
    if (to->spans.count > 0)
        qsort(to->spans.items, to->spans.count, sizeof(span), span_compare);
    return 0;
}

static unit *unit_find(const debug_info *from, uint64_t address)
{
    size_t at = begun_before(&from->spans, sizeof(span), address);
    /* Code that the linker dropped may be said to be at address 0, over that of others. */
    for (size_t steps = 0; at > 0 && steps < 8; steps++) {
        const span *one = MODEL_AT(from->spans, span, --at);
        if (address < one->high)
            return MODEL_AT(from->units, unit, one->unit);
    }
    return NULL;
}

/* ---- scopes --------------------------------------------------------------------------------- */

static int scope_compare(const void *left, const void *right)
{
    const scope *a = left, *b = right;
    if (a->low != b->low)
        return a->low < b->low ? -1 : 1;
    if (a->high != b->high)
        return a->high > b->high ? -1 : 1;
    return a->depth < b->depth ? -1 : a->depth > b->depth;
}

/* Adds the ranges of a function or of an inlined call. 1: it has code; 0: it has none; -1: no
 * memory. */
static int scope_add(debug_info *to, unit *of, Dwarf_Die *die, uint32_t depth)
{
    Dwarf_Addr base, low, high;
    ptrdiff_t at = 0;
    int has_code = 0;
    while ((at = elfutils.dwarf_ranges(die, at, &base, &low, &high)) > 0) {
        if (high <= low)
            continue;
        if (array_reserve(&of->scopes, to->limits, sizeof(scope), of->scopes.count + 1) != 0)
            return -1;
        *MODEL_AT(of->scopes, scope, of->scopes.count++) =
            (scope){low, high, SCOPE_NONE, depth, *die};
        has_code = 1;
    }
    return has_code;
}

/* What may have functions in it that have code. -1: no memory. */
static int die_enters(debug_info *to, unit *of, Dwarf_Die *die, uint32_t depth)
{
    switch (elfutils.dwarf_tag(die)) {
    case DW_TAG_subprogram:
    case DW_TAG_inlined_subroutine:
        return scope_add(to, of, die, depth);
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
    case DW_TAG_namespace:
    case DW_TAG_module:
        return 1;
    default:
        return 0;
    }
}

/* Walks over the unit's tree, without recursion. */
static int scopes_collect(debug_info *to, unit *of)
{
    Dwarf_Die path[DEPTH_MAX];
    uint32_t depth = 0;
    if (elfutils.dwarf_child(&of->tree, &path[0]) != 0)
        return 0;
    while (to->steps++ < STEPS_MAX) {
        int enters = die_enters(to, of, &path[depth], depth);
        if (enters < 0)
            return -1;
        if (enters && depth + 1 < DEPTH_MAX &&
            elfutils.dwarf_child(&path[depth], &path[depth + 1]) == 0) {
            depth++;
            continue;
        }
        Dwarf_Die next;
        while (elfutils.dwarf_siblingof(&path[depth], &next) != 0)
            if (depth-- == 0)
                return 0;
        path[depth] = next;
    }
    return 0;
}

/* Reads the unit's functions when it is first asked for. */
static int scopes_read(debug_info *to, unit *of)
{
    if (of->is_scanned)
        return 0;
    of->is_scanned = 1;
    if (scopes_collect(to, of) != 0)
        return -1;
    if (of->scopes.count > 0)
        qsort(of->scopes.items, of->scopes.count, sizeof(scope), scope_compare);
    uint32_t around = SCOPE_NONE;
    for (uint32_t i = 0; i < of->scopes.count; i++) {
        scope *one = MODEL_AT(of->scopes, scope, i);
        while (around != SCOPE_NONE && MODEL_AT(of->scopes, scope, around)->high <= one->low)
            around = MODEL_AT(of->scopes, scope, around)->around;
        one->around = around;
        around = i;
    }
    return 0;
}

/* The innermost scope around the address. */
static uint32_t scope_find(const unit *of, uint64_t address)
{
    size_t begun = begun_before(&of->scopes, sizeof(scope), address);
    uint32_t at = begun == 0 ? SCOPE_NONE : (uint32_t)begun - 1;
    while (at != SCOPE_NONE && MODEL_AT(of->scopes, scope, at)->high <= address)
        at = MODEL_AT(of->scopes, scope, at)->around;
    return at;
}

/* ---- names ---------------------------------------------------------------------------------- */

/* As the linker has it, which of C++ tells overloaded functions and classes apart; else the
 * source's. */
static const char *die_name(Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    if (elfutils.dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
        elfutils.dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
        return elfutils.dwarf_formstring(&attribute);
    return elfutils.dwarf_diename(die);
}

/* Where the inlined call is written. */
static void call_find(unit *of, Dwarf_Die *die, debug_place *place)
{
    Dwarf_Attribute attribute;
    Dwarf_Files *files;
    Dwarf_Word number;
    size_t count;
    place->file = NULL;
    place->line = 0;
    if (elfutils.dwarf_attr(die, DW_AT_call_line, &attribute) &&
        elfutils.dwarf_formudata(&attribute, &number) == 0 && number <= UINT32_MAX)
        place->line = (uint32_t)number;
    if (place->line > 0 && elfutils.dwarf_attr(die, DW_AT_call_file, &attribute) &&
        elfutils.dwarf_formudata(&attribute, &number) == 0 &&
        elfutils.dwarf_getsrcfiles(&of->lines, &files, &count) == 0 && number < count)
        place->file = elfutils.dwarf_filesrc(files, (size_t)number, NULL, NULL);
}

/* Lines that the compiler does not know are 0. */
static void line_find(unit *of, uint64_t address, debug_place *place)
{
    int line;
    Dwarf_Line *found = elfutils.dwarf_getsrc_die(&of->lines, address);
    if (!found || elfutils.dwarf_lineno(found, &line) != 0 || line <= 0)
        return;
    place->file = elfutils.dwarf_linesrc(found, NULL, NULL);
    place->line = place->file ? (uint32_t)line : 0;
}

static size_t info_find(debug_info *from, uint64_t offset, debug_place *places)
{
    uint64_t address = from->first_page + offset;
    size_t count = 0;
    debug_place place = {NULL, NULL, 0};
    unit *of = unit_find(from, address);
    uint32_t at = SCOPE_NONE;
    if (of) {
        line_find(of, address, &place);
        at = scopes_read(from, of) == 0 ? scope_find(of, address) : SCOPE_NONE;
    }
    while (at != SCOPE_NONE && count + 1 < DEBUG_PLACES_MAX) {
        scope *one = MODEL_AT(of->scopes, scope, at);
        if (elfutils.dwarf_tag(&one->die) != DW_TAG_inlined_subroutine) {
            place.function = die_name(&one->die);
            break;
        }
        place.function = die_name(&one->die);
        places[count++] = place;
        call_find(of, &one->die, &place);
        place.function = NULL;
        at = one->around;
    }
    if (!place.function)
        place.function = symbol_find(from, address);
    if (place.function || place.file)
        places[count++] = place;
    return count;
}

/* ---- opening -------------------------------------------------------------------------------- */

/* The address that the file gives to its first page; offsets count from there. */
static uint64_t first_page(Elf *elf)
{
    size_t count;
    if (elfutils.elf_getphdrnum(elf, &count) != 0)
        return 0;
    for (size_t i = 0; i < count && i < INT32_MAX; i++) {
        Elf64_Phdr part;
        if (elfutils.gelf_getphdr(elf, (int)i, &part) && part.p_type == PT_LOAD)
            return part.p_vaddr & ~((uint64_t)sysconf(_SC_PAGESIZE) - 1);
    }
    return 0;
}

/* Each program's stacks end in the C library, whose lines help nobody. They lie compressed in a
 * file apart: to inflate them takes longer than all else that a report of a small program does. */
static int has_lines_of_use(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    return strncmp(name, "libc.so.", 8) != 0 && strncmp(name, "ld-linux", 8) != 0;
}

/* Debug information may be in the file, in one apart, or nowhere; and so may be the symbols. */
static int tables_read(debug_info *to, const char *path, const char *build_id)
{
    int with_lines = has_lines_of_use(path);
    if (with_lines)
        to->dwarf = elfutils.dwarf_begin_elf(to->code.elf, DWARF_C_READ, NULL);
    if (to->dwarf && units_read(to) != 0)
        return -1;
    if (symbols_read(to, to->code.elf) != 0)
        return -1;
    if (to->units.count > 0 || debug_file_open_apart(&to->apart, &to->code, path, build_id) != 0)
        return 0;
    if (to->dwarf)
        elfutils.dwarf_end(to->dwarf);
    to->dwarf = with_lines ? elfutils.dwarf_begin_elf(to->apart.elf, DWARF_C_READ, NULL) : NULL;
    if (to->dwarf && units_read(to) != 0)
        return -1;
    return to->symbols.count > 0 ? 0 : symbols_read(to, to->apart.elf);
}

static void info_close(debug_info *from)
{
    for (size_t i = 0; i < from->units.count; i++)
        array_release(&MODEL_AT(from->units, unit, i)->scopes, from->limits, sizeof(scope));
    array_release(&from->units, from->limits, sizeof(unit));
    array_release(&from->spans, from->limits, sizeof(span));
    array_release(&from->symbols, from->limits, sizeof(symbol));
    if (from->dwarf)
        elfutils.dwarf_end(from->dwarf);
    debug_file_close(&from->apart);
    debug_file_close(&from->code);
    free(from);
}

static debug_info *info_open(const char *path, const char *build_id, budget *limits, char *why)
{
    why[0] = '\0';
    if (elfutils_missing()) {
        snprintf(why, DEBUG_WHY_BYTES, "cannot be looked into without elfutils");
        return NULL;
    }
    debug_info *made = calloc(1, sizeof(*made));
    if (!made) {
        limits->refused = 2;
        return NULL;
    }
    made->limits = limits;
    made->apart.fd = -1;
    if (debug_file_open(&made->code, path, build_id, why, DEBUG_WHY_BYTES) != 0) {
        free(made);
        return NULL;
    }
    made->first_page = first_page(made->code.elf);
    if (tables_read(made, path, build_id) != 0) {
        info_close(made);
        return NULL;
    }
    return made;
}

/* ---- one at a time -------------------------------------------------------------------------- */

/* elfutils is not for several threads: `tenure run --check` with traps has two that ask. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

debug_info *debug_info_open(const char *path, const char *build_id, budget *limits, char *why)
{
    pthread_mutex_lock(&one_at_a_time);
    debug_info *made = info_open(path, build_id, limits, why);
    pthread_mutex_unlock(&one_at_a_time);
    return made;
}

size_t debug_info_find(debug_info *from, uint64_t offset, debug_place *places)
{
    pthread_mutex_lock(&one_at_a_time);
    size_t count = info_find(from, offset, places);
    pthread_mutex_unlock(&one_at_a_time);
    return count;
}

void debug_info_close(debug_info *from)
{
    pthread_mutex_lock(&one_at_a_time);
    info_close(from);
    pthread_mutex_unlock(&one_at_a_time);
}
