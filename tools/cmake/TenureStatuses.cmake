# SPDX-License-Identifier: Apache-2.0
#
# tenure_note_statuses(target): in the debug build, a program's calls of public functions note their
# status, and end the program if the manual does not name it: tests/statuses/note.h. It needs a
# linker that takes wrapped functions out of an archive whatever its place: lld.
set(TNR_NOTES_STATUSES OFF)
if(CMAKE_BUILD_TYPE STREQUAL "Debug" AND TNR_HAS_LLD AND NOT TNR_SANITIZE AND
   NOT TNR_TEST_VALGRIND AND NOT CMAKE_CROSSCOMPILING)
  set(TNR_NOTES_STATUSES ON)
  set(tnr_statuses_folder "${PROJECT_BINARY_DIR}/statuses")
  file(GLOB tnr_statuses_headers "${PROJECT_SOURCE_DIR}/*/include/tenure/*.h")
  set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${tnr_statuses_headers} "${PROJECT_SOURCE_DIR}/tests/statuses/manual.py")
  execute_process(COMMAND python3 -B "${PROJECT_SOURCE_DIR}/tests/statuses/manual.py"
      --root "${PROJECT_SOURCE_DIR}" wrap "${tnr_statuses_folder}/wrap"
    OUTPUT_VARIABLE tnr_statuses_names OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
  list(TRANSFORM tnr_statuses_names APPEND ".c")
  list(TRANSFORM tnr_statuses_names PREPEND "${tnr_statuses_folder}/wrap/")
  # An object for each function: a program that calls none of the others links none of them.
  add_library(tenure_statuses STATIC "${PROJECT_SOURCE_DIR}/tests/statuses/note.c"
    ${tnr_statuses_names})
  target_include_directories(tenure_statuses PRIVATE "${PROJECT_SOURCE_DIR}/tests/statuses")
  target_link_libraries(tenure_statuses PRIVATE tenure_static)
endif()

function(tenure_note_statuses target)
  if(TNR_NOTES_STATUSES)
    target_link_libraries(${target} PRIVATE tenure_statuses)
    target_link_options(${target} PRIVATE "LINKER:@${tnr_statuses_folder}/wrap/options.rsp")
  endif()
endfunction()
