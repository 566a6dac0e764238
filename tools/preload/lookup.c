/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where programs look functions up: dlsym, and the driver's cuGetProcAddress.
 *
 * The CUDA runtime, linked statically or not, finds the driver with dlopen, a few of its functions
 * with dlsym, and all others with cuGetProcAddress. So do most programs that use the driver. If the
 * driver has a function, they get our replacement of it; if not, they get nothing. Whole names are
 * compared: cuBLAS and cuDNN also have symbols that begin with cu.
 *
 * dlsym's answer depends on its caller (RTLD_NEXT means what comes after the caller). So our dlsym
 * is a few instructions of assembler. For every name that is not ours it jumps to the next dlsym,
 * and leaves the caller's return address where it was.
 *
 * A look-up never starts the driver, and never Tenure.
 */
#include "lookup.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include <tenure/alloc.h>

#include "check/check.h"
#include "check/engine.h"
#include "driver.h"
#include "watch/account.h"

const entry entries[] = {
#define PRELOAD_ENTRY(name, symbol, type, since, form, group)                                      \
    {#name, #symbol, since, FORM_##form, GROUP_##group, (entry_function)replace_##symbol},
#define PRELOAD_CALL(name, type, since)
#include "entries.def"
#undef PRELOAD_ENTRY
#undef PRELOAD_CALL
};
const size_t entries_count = sizeof(entries) / sizeof(entries[0]);

const entry *entry_by_symbol(const char *symbol)
{
    for (size_t i = 0; i < entries_count; i++)
        if (strcmp(entries[i].symbol, symbol) == 0)
            return &entries[i];
    return NULL;
}

/* 1 if the program gets it: what is there for the checker or the account alone it has only where
 * they are on. */
static int entry_is_wanted(const entry *row)
{
    switch (row->group) {
    case GROUP_CHECK:
        return check_is_on();
    case GROUP_ACCOUNT:
        return account_is_on();
    case GROUP_CODE:
        return check_is_on() || account_is_on();
    default:
        return 1;
    }
}

static void *entry_address(const entry *found)
{
    void *address;
    memcpy(&address, &found->replacement, sizeof(address));
    return address;
}

/* ---- dlsym ---------------------------------------------------------------------------------- */

typedef void *(*dlsym_function)(void *, const char *);

/* The dlsym that comes after ours: another interposer's, or the C library's. */
static dlsym_function dlsym_next(const void *caller)
{
    static _Atomic(dlsym_function) known;
    dlsym_function next = atomic_load_explicit(&known, memory_order_acquire);
    dlsym_function last = dlsym_of_libc();
    if (next == NULL) {
        void *symbol = last(RTLD_NEXT, "dlsym");
        memcpy(&next, &symbol, sizeof(next));
        if (next == NULL)
            next = last;
        atomic_store_explicit(&known, next, memory_order_release);
    }
    if (next == last)
        return last;
    void *address;
    memcpy(&address, &next, sizeof(address));
    /* What the next one asks itself must not come back to it. */
    return object_of(address) == object_of(caller) ? last : next;
}

/* Fails, and leaves dlerror saying that there is no such symbol. */
static void *dlsym_fails(void *handle, const char *name)
{
    (void)handle;
    static _Atomic(void *) library;
    if (atomic_load(&library) == NULL)
        atomic_store(&library, dlopen("libc.so.6", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD));
    return dlsym_of_libc()(atomic_load(&library), name);
}

/* 1 if the caller must get the driver itself: we, libtenure, and the driver. */
static int caller_is_inside(const void *caller)
{
    static _Atomic(const void *) own, library;
    if (atomic_load(&library) == NULL) {
        void *address;
        unsigned (*version)(void) = tnr_version;
        memcpy(&address, &version, sizeof(address));
        atomic_store(&own, object_of((const void *)entries));
        atomic_store(&library, object_of(address));
    }
    const void *object = object_of(caller);
    return object == atomic_load(&own) || object == atomic_load(&library) || driver_has(caller);
}

/* One of ours. */
static lookup_answer lookup_ours(void *handle, const char *name, const entry *ours,
                                 dlsym_function next)
{
    if (handle == RTLD_NEXT)
        return (lookup_answer){NULL, next};
    if (handle == RTLD_DEFAULT) /* finds us, who are there even if the driver is not */
        return (lookup_answer){NULL, driver_find() ? next : dlsym_fails};
    const void *found = dlsym_of_libc()(handle, name);
    if (found == NULL)
        return (lookup_answer){NULL, next};
    if (object_of(found) == object_of((const void *)entries)) /* the program's own handle */
        return (lookup_answer){NULL, driver_find() ? next : dlsym_fails};
    driver_consider(handle, found);
    return driver_has(found) && entry_is_wanted(ours) ? (lookup_answer){entry_address(ours), NULL}
                                                      : (lookup_answer){NULL, next};
}

/* A function of libtenure's, which the checker follows: see check/engine.c. */
static lookup_answer lookup_engine(void *handle, const char *name, const void *caller,
                                   dlsym_function next)
{
    void *ours = caller_is_inside(caller) || handle == RTLD_NEXT || handle == RTLD_DEFAULT
                     ? NULL
                     : check_engine_function(name);
    const void *found = ours == NULL ? NULL : dlsym_of_libc()(handle, name);
    return found != NULL && caller_is_inside(found) ? (lookup_answer){ours, NULL}
                                                    : (lookup_answer){NULL, next};
}

lookup_answer preload_lookup(void *handle, const char *name, const void *caller)
{
    dlsym_function next = dlsym_next(caller);
    const entry *ours = NULL;
    if (name != NULL && strncmp(name, "tnr_", 4) == 0 && check_is_on())
        return lookup_engine(handle, name, caller, next);
    if (name != NULL && name[0] == 'c' && name[1] == 'u')
        ours = entry_by_symbol(name);
    if (ours == NULL)
        return (lookup_answer){NULL, next};
    if (caller_is_inside(caller))
        return (lookup_answer){NULL, dlsym_of_libc()};
    return lookup_ours(handle, name, ours, next);
}

/* dlsym(handle, name): asks preload_lookup with the return address, and returns what it found or
 * jumps to where it says, with everything as at the entry. */
#if defined(__x86_64__)
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        ".cfi_startproc\n"
        "    endbr64\n"
        "    pushq %rdi\n"
        ".cfi_adjust_cfa_offset 8\n"
        "    pushq %rsi\n"
        ".cfi_adjust_cfa_offset 8\n"
        "    subq $8, %rsp\n"
        ".cfi_adjust_cfa_offset 8\n"
        "    movq 24(%rsp), %rdx\n"
        "    call preload_lookup\n"
        "    addq $8, %rsp\n"
        ".cfi_adjust_cfa_offset -8\n"
        "    popq %rsi\n"
        ".cfi_adjust_cfa_offset -8\n"
        "    popq %rdi\n"
        ".cfi_adjust_cfa_offset -8\n"
        "    testq %rax, %rax\n"
        "    jnz 1f\n"
        "    jmp *%rdx\n"
        "1:  ret\n"
        ".cfi_endproc\n"
        ".size dlsym, . - dlsym\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, %function\n"
        "dlsym:\n"
        ".cfi_startproc\n"
        "    hint #34\n"
        "    stp x29, x30, [sp, #-32]!\n"
        ".cfi_adjust_cfa_offset 32\n"
        ".cfi_rel_offset x29, 0\n"
        ".cfi_rel_offset x30, 8\n"
        "    mov x29, sp\n"
        "    stp x0, x1, [sp, #16]\n"
        "    mov x2, x30\n"
        "    bl preload_lookup\n"
        "    mov x16, x1\n"
        "    mov x17, x0\n"
        "    ldp x0, x1, [sp, #16]\n"
        "    ldp x29, x30, [sp], #32\n"
        ".cfi_restore x29\n"
        ".cfi_restore x30\n"
        ".cfi_adjust_cfa_offset -32\n"
        "    cbnz x17, 1f\n"
        "    br x16\n"
        "1:  mov x0, x17\n"
        "    ret\n"
        ".cfi_endproc\n"
        ".size dlsym, . - dlsym\n");
#else
#error "tools/preload needs a dlsym in assembler for this processor: see lookup.c"
#endif

/* ---- cuGetProcAddress ----------------------------------------------------------------------- */

/* Our replacement of a function that the driver has given for a name, a version and flags; null if
 * it is none of ours. The driver gives equal functions for equal versions of one: so a version that
 * is newer than this library, with arguments that it does not know, is never taken for an old one.
 */
static void *replacement_of(const char *name, const void *function, int version)
{
    for (size_t i = 0; i < entries_count; i++) {
        const entry *row = &entries[i];
        if (strcmp(row->name, name) != 0 || row->since > version || !entry_is_wanted(row))
            continue;
        cuuint64_t flags = row->form == FORM_THREAD ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                                    : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
        if (driver_resolve(name, row->since, flags) == function)
            return entry_address(row);
    }
    return NULL;
}

/* What programs asked for and did not get from us, though we have an older version of it: by the
 * first row of its name the newest version; 0: nothing. */
static _Atomic int asked_newer[sizeof(entries) / sizeof(entries[0])];

static void newer_note(const char *name, int version)
{
    for (size_t i = 0; i < entries_count; i++) {
        if (strcmp(entries[i].name, name) != 0)
            continue;
        int known = atomic_load(&asked_newer[i]);
        if (entries[i].since > version || !entry_is_wanted(&entries[i]))
            return; /* from before our time, or not for this program */
        while (known < version && !atomic_compare_exchange_weak(&asked_newer[i], &known, version))
            ;
        return;
    }
}

const char *lookup_newer(size_t *index, int *version)
{
    for (; *index < entries_count; ++*index) {
        *version = atomic_load(&asked_newer[*index]);
        if (*version != 0)
            return entries[(*index)++].name;
    }
    return NULL;
}

static void function_replace(const char *name, void **function, int version)
{
    if (name == NULL || function == NULL || *function == NULL || name[0] != 'c' || name[1] != 'u')
        return;
    void *ours = replacement_of(name, *function, version);
    if (ours != NULL)
        *function = ours;
    else
        newer_note(name, version);
}

CUresult CUDAAPI replace_cuGetProcAddress(const char *symbol, void **pfn, int version,
                                          cuuint64_t flags)
{
    CUresult result = REAL(cuGetProcAddress, (symbol, pfn, version, flags));
    if (result == CUDA_SUCCESS)
        function_replace(symbol, pfn, version);
    return result;
}

CUresult CUDAAPI replace_cuGetProcAddress_v2(const char *symbol, void **pfn, int version,
                                             cuuint64_t flags,
                                             CUdriverProcAddressQueryResult *status)
{
    CUresult result = REAL(cuGetProcAddress_v2, (symbol, pfn, version, flags, status));
    if (result == CUDA_SUCCESS)
        function_replace(symbol, pfn, version);
    return result;
}
