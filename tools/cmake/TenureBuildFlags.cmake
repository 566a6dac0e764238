# SPDX-License-Identifier: Apache-2.0
#
# tenure_build_flags: the INTERFACE target that everything we compile links to. It carries the
# language level, the warnings, the sanitizer and the assert level, so that each is said once.

get_property(tnr_is_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT CMAKE_BUILD_TYPE AND NOT tnr_is_multi_config)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# Everything ends up in three folders of the build directory, so that scripts can find it and
# the command finds the simulated device beside it, as it does once installed.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")

set(TNR_WARNINGS
  -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wconversion
  -Wno-sign-conversion)

add_library(tenure_build_flags INTERFACE)
target_compile_definitions(tenure_build_flags INTERFACE "_GNU_SOURCE=")
# What is built with a new C library is to be loaded with an older one, too.
set(tnr_older_glibc "${PROJECT_SOURCE_DIR}/tools/cmake/older_glibc.h")
target_compile_options(tenure_build_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:C>:SHELL:-include \"${tnr_older_glibc}\">")
# Release means -O2 with line tables: an allocator's stack traces must be readable in the field.
target_compile_options(tenure_build_flags INTERFACE
  ${TNR_WARNINGS} -g -fno-omit-frame-pointer $<$<CONFIG:Release>:-O2>)
# Two counters side by side would be loaded as one vector, right after they were stored one by one,
# and the processor cannot forward two stores to one load.
target_compile_options(tenure_build_flags INTERFACE $<$<CONFIG:Release>:-fno-tree-slp-vectorize>)
target_link_libraries(tenure_build_flags INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
if(TNR_WERROR)
  target_compile_options(tenure_build_flags INTERFACE -Werror)
endif()

# The assert level: 0 none, 1 cheap ones against misuse, 2 internal, 3 whole structures.
if(TNR_CHECK STREQUAL "")
  target_compile_definitions(tenure_build_flags INTERFACE
    TNR_CHECK=$<IF:$<CONFIG:Debug>,3,1>)
elseif(TNR_CHECK MATCHES "^[0-3]$")
  target_compile_definitions(tenure_build_flags INTERFACE TNR_CHECK=${TNR_CHECK})
else()
  message(FATAL_ERROR "TNR_CHECK is '${TNR_CHECK}'; it must be 0, 1, 2 or 3, or empty for the "
    "build type's default.")
endif()

if(TNR_SANITIZE STREQUAL "address")
  set(tnr_sanitize_flags -fsanitize=address,undefined -fno-sanitize-recover=undefined)
elseif(TNR_SANITIZE STREQUAL "undefined")
  set(tnr_sanitize_flags -fsanitize=undefined -fno-sanitize-recover=undefined)
elseif(TNR_SANITIZE STREQUAL "thread")
  set(tnr_sanitize_flags -fsanitize=thread)
elseif(NOT TNR_SANITIZE STREQUAL "")
  message(FATAL_ERROR "TNR_SANITIZE is '${TNR_SANITIZE}'; it must be address, undefined or "
    "thread, or empty for none.")
endif()
if(TNR_SANITIZE)
  target_compile_options(tenure_build_flags INTERFACE ${tnr_sanitize_flags})
  target_link_options(tenure_build_flags INTERFACE ${tnr_sanitize_flags})
  target_compile_definitions(tenure_build_flags INTERFACE TNR_SANITIZED=1)
endif()

# tenure_whole_program(target): a tool whose speed is what it is for (the simulated device, the
# fuzzer) is optimised across its files, in optimised builds. The library itself never is: what is
# tested is compiled as what is shipped.
include(CheckIPOSupported)
function(tenure_whole_program target)
  if(TNR_SANITIZE)
    return()
  endif()
  if(NOT DEFINED TNR_HAS_IPO)
    check_ipo_supported(RESULT has_ipo LANGUAGES C)
    set(TNR_HAS_IPO ${has_ipo} CACHE INTERNAL "the compiler optimises across files")
  endif()
  if(TNR_HAS_IPO)
    set_target_properties(${target} PROPERTIES
      INTERPROCEDURAL_OPTIMIZATION_RELEASE ON
      INTERPROCEDURAL_OPTIMIZATION_RELWITHDEBINFO ON)
  endif()
endfunction()
