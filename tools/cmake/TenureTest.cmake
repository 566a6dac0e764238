# SPDX-License-Identifier: Apache-2.0
#
# tenure_test(NAME x SOURCES x.c ... [LABELS unit valgrind threads] [LIBS target ...]
#             [INCLUDES folder ...] [ENVIRONMENT A=b ...] [ARGS ...] [TIMEOUT seconds] [SERIAL]
#             [NO_LEAK_CHECK])
#   A CMocka program. It links the library's objects, so it may use internals, and includes them
#   by their path inside the layer ("gpu/backend.h"). The first source is its own; the others may
#   be those of other programs too, and are compiled once for all of them. NO_LEAK_CHECK is for
#   those that keep gigabytes of shared memory mapped: memcheck would look for pointers in it all.
#
# tenure_check(NAME x COMMAND ... [LABELS ...] [ENVIRONMENT ...] [TIMEOUT seconds] [SERIAL])
#   Any other command. Exit code 77 means skipped, for both; the reason is then printed.
#
# tenure_count(VARIABLE PLAIN short long [RELEASE short long] [SANITIZED short long]
#              [THREAD short long] [VALGRIND short long])
#   How often, or how much: what fits this build (PLAIN if its kind is not named), and the short run
#   of the tests or the long one (TNR_TEST_LONG), in which programs find TENURE_TEST_LONG=1 in their
#   environment.
#
# Both run on the simulated device unless ENVIRONMENT says otherwise. In a build with
# TNR_TEST_VALGRIND=ON those labelled `valgrind` run under memcheck and the others not at all.
#
# In a build for another processor programs run under its emulator (CMAKE_CROSSCOMPILING_EMULATOR),
# those of tenure_test; commands that run more than that are not for it.
#
# The target tests_LABEL (valgrind, threads, release) builds what the tests of that label need and
# nothing else: those rows of tools/test run nothing else.
#
# A deadline ends a test that hangs. It is no measure of speed: the longest takes less than a
# minute on a quiet core, in every row. TIMEOUT is for those few that are given longer work.
set(tnr_test_deadline 1200)
include(TenureTestOrder) # tnr_test_order()

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(TNR_CMOCKA QUIET IMPORTED_TARGET cmocka)
endif()
if(NOT TNR_CMOCKA_FOUND)
  message(FATAL_ERROR "The tests need CMocka and pkg-config (Debian and Ubuntu: libcmocka-dev, "
    "pkg-config; ./tools/setup installs them). To build without tests: -DTNR_BUILD_TESTS=OFF")
endif()

# Some 250 programs are linked, each with the whole library: lld takes half of bfd's processor time
# for it, and again half of that if it joins no strings and waits for no threads. What is shipped is
# linked as the system's compiler does.
include(CheckLinkerFlag)
check_linker_flag(C "-fuse-ld=lld" TNR_HAS_LLD)

option(TNR_TEST_LONG "The long run of the tests: full counts (tools/test --long)" OFF)
option(TNR_TEST_VALGRIND "Run the tests labelled valgrind under memcheck" OFF)
if(TNR_TEST_VALGRIND)
  find_program(TNR_VALGRIND valgrind)
  if(NOT TNR_VALGRIND)
    message(FATAL_ERROR "TNR_TEST_VALGRIND is on but valgrind is not installed.")
  endif()
  set(tnr_valgrind_command "${TNR_VALGRIND}" --quiet --error-exitcode=99 --leak-check=full
    --errors-for-leak-kinds=definite --show-leak-kinds=definite --num-callers=30)
endif()

# A failed check must end a sanitized program with an exit code of its own. A thread that was
# cancelled leaves what AddressSanitizer has put around its frames, and the sanitizer's own end of
# the thread's signal stack may fall over it: there is none. An overflow of the stack ends the
# program with SIGSEGV all the same. Faults of pages that were mapped elsewhere were a fifth of all
# processor time: hence the view, but for memcheck, to which such a mapping is expensive.
set(tnr_test_view beside)
if(TNR_TEST_VALGRIND)
  set(tnr_test_view 0)
endif()
set(tnr_test_environment
  "TENURE_DRIVER=sim"
  "TENURE_SIM_VIEW=${tnr_test_view}"
  "ASAN_OPTIONS=exitcode=98:detect_leaks=1:abort_on_error=0:use_sigaltstack=0"
  "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1"
  "TSAN_OPTIONS=exitcode=97:halt_on_error=1:second_deadlock_stack=1")
if(TNR_TEST_LONG)
  list(APPEND tnr_test_environment "TENURE_TEST_LONG=1")
elseif(TNR_TEST_VALGRIND OR TNR_SANITIZE)
  list(APPEND tnr_test_environment "TENURE_TEST_FEW=1")
endif()

set(tnr_labels_built valgrind threads release)
foreach(label IN LISTS tnr_labels_built)
  add_custom_target(tests_${label})
  if(TARGET tenure_simcuda) # which programs load
    add_dependencies(tests_${label} tenure_simcuda)
  endif()
endforeach()
include(TenureStatuses) # tenure_note_statuses()

function(tenure_count out)
  cmake_parse_arguments(arg "" "" "PLAIN;RELEASE;SANITIZED;THREAD;VALGRIND" ${ARGN})
  set(counts ${arg_PLAIN})
  if(TNR_TEST_VALGRIND AND arg_VALGRIND)
    set(counts ${arg_VALGRIND})
  elseif(TNR_SANITIZE STREQUAL "thread" AND arg_THREAD)
    set(counts ${arg_THREAD})
  elseif(TNR_SANITIZE AND arg_SANITIZED)
    set(counts ${arg_SANITIZED})
  elseif(CMAKE_BUILD_TYPE STREQUAL "Release" AND arg_RELEASE)
    set(counts ${arg_RELEASE})
  endif()
  list(LENGTH counts length)
  if(NOT length EQUAL 2 OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenure_count(${out}): each kind has two numbers, short and long.")
  endif()
  set(which 0)
  if(TNR_TEST_LONG)
    set(which 1)
  endif()
  list(GET counts ${which} count)
  set(${out} ${count} PARENT_SCOPE)
endfunction()

# What both functions do once the command is known.
function(tnr_register_test name timeout serial labels environment)
  if(NOT timeout OR timeout LESS tnr_test_deadline)
    set(timeout ${tnr_test_deadline})
  endif()
  set(statuses)
  if(TNR_NOTES_STATUSES)
    set(statuses "TENURE_STATUSES=${tnr_statuses_folder}/${name}.txt")
  endif()
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${timeout} SKIP_RETURN_CODE 77 LABELS "${labels}"
    ENVIRONMENT "${tnr_test_environment};${statuses};${environment}")
  tnr_test_order(${name})
  if(serial)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()

# Adds to tests_LABEL what a test's command and environment name: programs and $<TARGET_FILE:...>.
function(tnr_label_builds labels)
  foreach(label IN LISTS tnr_labels_built)
    if(NOT label IN_LIST labels)
      continue()
    endif()
    foreach(word IN LISTS ARGN)
      if(word MATCHES "TARGET_FILE:([A-Za-z0-9_]+)>")
        add_dependencies(tests_${label} ${CMAKE_MATCH_1})
      elseif(TARGET "${word}")
        add_dependencies(tests_${label} "${word}")
      endif()
    endforeach()
  endforeach()
endfunction()

# What an object of a test may include, and what it is compiled with.
function(tnr_test_flags target)
  get_property(layers GLOBAL PROPERTY TNR_LAYERS)
  foreach(layer IN LISTS layers)
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/${layer}")
  endforeach()
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests"
    "${CMAKE_CURRENT_SOURCE_DIR}" ${arg_INCLUDES})
  target_link_libraries(${target} PRIVATE tenure_static PkgConfig::TNR_CMOCKA tenure_commit
    ${arg_LIBS})
endfunction()

function(tenure_test)
  cmake_parse_arguments(arg "SERIAL;NO_LEAK_CHECK" "NAME;TIMEOUT"
    "SOURCES;LABELS;LIBS;INCLUDES;ENVIRONMENT;ARGS" ${ARGN})
  if(NOT arg_NAME OR NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenure_test: NAME or SOURCES missing, or unknown argument "
      "'${arg_UNPARSED_ARGUMENTS}'.")
  endif()
  set(target test_${arg_NAME})
  list(POP_FRONT arg_SOURCES own)
  set(parts)
  foreach(source IN LISTS arg_SOURCES)
    if(source MATCHES "^\\$<")
      list(APPEND parts "${source}")
      continue()
    endif()
    get_filename_component(path "${source}" ABSOLUTE)
    file(RELATIVE_PATH part "${PROJECT_SOURCE_DIR}" "${path}")
    string(MAKE_C_IDENTIFIER "part_${part}" part)
    if(NOT TARGET ${part})
      add_library(${part} OBJECT "${path}")
      tnr_test_flags(${part})
    endif()
    list(APPEND parts $<TARGET_OBJECTS:${part}>)
  endforeach()
  add_executable(${target} ${own} ${parts})
  tnr_test_flags(${target})
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  if(TNR_HAS_LLD)
    target_link_options(${target} PRIVATE -fuse-ld=lld LINKER:-O0,--threads=1)
  endif()
  tenure_note_statuses(${target})
  if(TARGET tenure_simcuda)
    add_dependencies(${target} tenure_simcuda)
  endif()

  set(command ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:${target}> ${arg_ARGS})
  if(TNR_TEST_VALGRIND)
    if(NOT "valgrind" IN_LIST arg_LABELS)
      return()
    endif()
    set(memcheck ${tnr_valgrind_command})
    if(arg_NO_LEAK_CHECK)
      list(APPEND memcheck --leak-check=no)
    endif()
    set(command ${memcheck} ${command})
  endif()
  add_test(NAME ${arg_NAME} COMMAND ${command})
  tnr_label_builds("${arg_LABELS}" ${target} ${arg_ENVIRONMENT})
  tnr_register_test(${arg_NAME} "${arg_TIMEOUT}" "${arg_SERIAL}" "${arg_LABELS}"
    "${arg_ENVIRONMENT}")
endfunction()

function(tenure_check)
  cmake_parse_arguments(arg "SERIAL" "NAME;TIMEOUT" "COMMAND;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT arg_NAME OR NOT arg_COMMAND OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenure_check: NAME or COMMAND missing, or unknown argument "
      "'${arg_UNPARSED_ARGUMENTS}'.")
  endif()
  if(TNR_TEST_VALGRIND OR CMAKE_CROSSCOMPILING)
    return()
  endif()
  add_test(NAME ${arg_NAME} COMMAND ${arg_COMMAND})
  tnr_label_builds("${arg_LABELS}" ${arg_COMMAND} ${arg_ENVIRONMENT})
  tnr_register_test(${arg_NAME} "${arg_TIMEOUT}" "${arg_SERIAL}" "${arg_LABELS}"
    "${arg_ENVIRONMENT}")
endfunction()
