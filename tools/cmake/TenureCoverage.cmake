# SPDX-License-Identifier: Apache-2.0
#
# TNR_COVERAGE=ON: gcc counts how often each branch of the layers is taken, for tools/coverage.
# tenure_coverage(target...) compiles the layers so, and links the targets that they are in. Nothing
# else is counted, so that tests and tools are as fast as they are.
#
# gcc's counts are written when a process ends by exit(). tests/coverage/counts.c has them written
# by those as well that end by _exit(), as the children of many tests and of the fuzzer do.

option(TNR_COVERAGE "Count the branches of the layers that are taken (tools/coverage)" OFF)
if(TNR_COVERAGE AND NOT CMAKE_C_COMPILER_ID STREQUAL "GNU")
  message(FATAL_ERROR "TNR_COVERAGE needs gcc; the compiler is ${CMAKE_C_COMPILER_ID}.")
endif()

if(TNR_COVERAGE)
  add_library(tenure_counts SHARED "${PROJECT_SOURCE_DIR}/tests/coverage/counts.c")
  add_library(tenure_counted OBJECT "${PROJECT_SOURCE_DIR}/tests/coverage/counted.c")
  foreach(target IN ITEMS tenure_counts tenure_counted)
    target_link_libraries(${target} PRIVATE tenure_build_flags)
  endforeach()
endif()

# A branch in the source is one in the code: -O0, and no copies of functions that are else always
# inlined. Counts that threads add to at once are added up.
function(tenure_coverage)
  if(NOT TNR_COVERAGE)
    return()
  endif()
  get_property(rooms GLOBAL PROPERTY TNR_ROOMS)
  foreach(room IN LISTS rooms)
    target_compile_options(tenure_${room} PRIVATE --coverage -O0 -fprofile-update=atomic)
    target_compile_definitions(tenure_${room} PRIVATE always_inline=unused)
  endforeach()
  foreach(target IN LISTS ARGN)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:tenure_counted>)
    target_link_libraries(${target} PRIVATE gcov $<BUILD_INTERFACE:tenure_counts>
      INTERFACE $<BUILD_INTERFACE:tenure_counts>)
  endforeach()
  # Of an archive only those members are taken that somebody asks for.
  target_link_options(tenure_static INTERFACE "LINKER:--undefined=tenure_counted_here")
endfunction()
