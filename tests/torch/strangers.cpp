/* SPDX-License-Identifier: Apache-2.0 */
/* See strangers.hpp. Functions with the names of the C++ library's; what is not the class's call is
 * passed on. */
#include "strangers.hpp"

#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <string>

#include <dlfcn.h>

namespace
{

const void *watched = nullptr; /* where the class begins */

void look(const char *name, void *caller)
{
    Dl_info info;
    if (watched == nullptr || dladdr(caller, &info) == 0 || info.dli_fbase != watched)
        return;
    std::printf("native_program: the class calls %s of another library\n", name);
    std::exit(1);
}

template <typename Function> Function next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found == nullptr)
        std::abort();
    return reinterpret_cast<Function>(found);
}

} // namespace

namespace strangers
{

void watch(const void *inside)
{
    Dl_info info;
    if (dladdr(inside, &info) != 0)
        watched = info.dli_fbase;
}

} // namespace strangers

#define STRANGER(function, type, name)                                                             \
    std::ostream &function(std::ostream *to, type value) __asm__(name);                            \
    __attribute__((visibility("default"), noinline)) std::ostream &function(std::ostream *to,      \
                                                                            type value)            \
    {                                                                                              \
        look(name, __builtin_return_address(0));                                                   \
        return next<std::ostream &(*)(std::ostream *, type)>(name)(to, value);                     \
    }

/* Numbers that are written by streams: int, long, unsigned long, addresses. */
STRANGER(stranger_int, int, "_ZNSolsEi")
STRANGER(stranger_long, long, "_ZNSo9_M_insertIlEERSoT_")
STRANGER(stranger_unsigned, unsigned long, "_ZNSo9_M_insertImEERSoT_")
STRANGER(stranger_address, const void *, "_ZNSo9_M_insertIPKvEERSoT_")

/* A function of a header, which every library that uses it brings along. Only the class may. */
std::string stranger_text(int value) __asm__("_ZNSt7__cxx119to_stringEi");
__attribute__((visibility("default"), noinline)) std::string stranger_text(int value)
{
    look("std::to_string", __builtin_return_address(0));
    char text[16];
    std::snprintf(text, sizeof(text), "%d", value);
    return text;
}
