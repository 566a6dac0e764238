# SPDX-License-Identifier: Apache-2.0
#
# tenure_test(NAME x SOURCES x.c ... [LABELS unit valgrind threads] [LIBS target ...]
#             [ENVIRONMENT A=b ...] [ARGS ...] [TIMEOUT seconds] [SERIAL])
#   A CMocka program. It links the library's objects, so it may use internals, and includes them
#   by their path inside the layer ("driver/driver.h").
#
# tenure_check(NAME x COMMAND ... [LABELS ...] [ENVIRONMENT ...] [TIMEOUT seconds] [SERIAL])
#   Any other command. Exit code 77 means skipped, for both; the reason is then printed.
#
# Both run on the simulated device unless ENVIRONMENT says otherwise. In a build with
# TNR_TEST_VALGRIND=ON those labelled `valgrind` run under memcheck and the others not at all.

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(TNR_CMOCKA QUIET IMPORTED_TARGET cmocka)
endif()
if(NOT TNR_CMOCKA_FOUND)
  message(FATAL_ERROR "The tests need CMocka and pkg-config (Debian and Ubuntu: libcmocka-dev, "
    "pkg-config; ./tools/setup installs them). To build without tests: -DTNR_BUILD_TESTS=OFF")
endif()

option(TNR_TEST_VALGRIND "Run the tests labelled valgrind under memcheck" OFF)
if(TNR_TEST_VALGRIND)
  find_program(TNR_VALGRIND valgrind)
  if(NOT TNR_VALGRIND)
    message(FATAL_ERROR "TNR_TEST_VALGRIND is on but valgrind is not installed.")
  endif()
  set(tnr_valgrind_command "${TNR_VALGRIND}" --quiet --error-exitcode=99 --leak-check=full
    --errors-for-leak-kinds=definite --show-leak-kinds=definite --num-callers=30)
endif()

# A failed check must end a sanitized program with an exit code of its own.
set(tnr_test_environment
  "TENURE_DRIVER=sim"
  "ASAN_OPTIONS=exitcode=98:detect_leaks=1:abort_on_error=0"
  "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1"
  "TSAN_OPTIONS=exitcode=97:halt_on_error=1:second_deadlock_stack=1")

# What both functions do once the command is known.
function(tnr_register_test name timeout serial labels environment)
  set(timeout_default 60)
  if(NOT timeout)
    set(timeout ${timeout_default})
  endif()
  if(TNR_TEST_VALGRIND)
    math(EXPR timeout "${timeout} * 10")
  elseif(TNR_SANITIZE)
    math(EXPR timeout "${timeout} * 4")
  endif()
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${timeout} SKIP_RETURN_CODE 77 LABELS "${labels}"
    ENVIRONMENT "${tnr_test_environment};${environment}")
  if(serial)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()

function(tenure_test)
  cmake_parse_arguments(arg "SERIAL" "NAME;TIMEOUT"
    "SOURCES;LABELS;LIBS;ENVIRONMENT;ARGS" ${ARGN})
  if(NOT arg_NAME OR NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenure_test: NAME or SOURCES missing, or unknown argument "
      "'${arg_UNPARSED_ARGUMENTS}'.")
  endif()
  set(target test_${arg_NAME})
  add_executable(${target} ${arg_SOURCES})
  get_property(layers GLOBAL PROPERTY TNR_LAYERS)
  foreach(layer IN LISTS layers)
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/${layer}")
  endforeach()
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests"
    "${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_libraries(${target} PRIVATE tenure_static PkgConfig::TNR_CMOCKA ${arg_LIBS})
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  if(TARGET tenure_simcuda)
    add_dependencies(${target} tenure_simcuda)
  endif()

  set(command $<TARGET_FILE:${target}> ${arg_ARGS})
  if(TNR_TEST_VALGRIND)
    if(NOT "valgrind" IN_LIST arg_LABELS)
      return()
    endif()
    set(command ${tnr_valgrind_command} ${command})
  endif()
  add_test(NAME ${arg_NAME} COMMAND ${command})
  tnr_register_test(${arg_NAME} "${arg_TIMEOUT}" "${arg_SERIAL}" "${arg_LABELS}"
    "${arg_ENVIRONMENT}")
endfunction()

function(tenure_check)
  cmake_parse_arguments(arg "SERIAL" "NAME;TIMEOUT" "COMMAND;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT arg_NAME OR NOT arg_COMMAND OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenure_check: NAME or COMMAND missing, or unknown argument "
      "'${arg_UNPARSED_ARGUMENTS}'.")
  endif()
  if(TNR_TEST_VALGRIND)
    return()
  endif()
  add_test(NAME ${arg_NAME} COMMAND ${arg_COMMAND})
  tnr_register_test(${arg_NAME} "${arg_TIMEOUT}" "${arg_SERIAL}" "${arg_LABELS}"
    "${arg_ENVIRONMENT}")
endfunction()
