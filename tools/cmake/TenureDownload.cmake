# SPDX-License-Identifier: Apache-2.0
#
# Where downloads are kept, and tnr_download(), which checks what it fetches. The folder is shared
# by all build directories and all checkouts of a user, so that a thing is fetched once. Where that
# folder cannot be written to (a read-only home), it is one in the build directory.

# tnr_folder_takes(OUT FOLDER): sets OUT to TRUE if files can be made in the folder, which is made.
function(tnr_folder_takes out folder)
  string(RANDOM LENGTH 8 suffix)
  set(file "${folder}/${suffix}.partial")
  execute_process(COMMAND "${CMAKE_COMMAND}" -E make_directory "${folder}"
    OUTPUT_QUIET ERROR_QUIET)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E touch "${file}"
    RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(failed)
    set(${out} FALSE PARENT_SCOPE)
  else()
    file(REMOVE "${file}")
    set(${out} TRUE PARENT_SCOPE)
  endif()
endfunction()

if(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(tnr_cache_root "$ENV{XDG_CACHE_HOME}")
elseif(DEFINED ENV{HOME} AND NOT "$ENV{HOME}" STREQUAL "")
  set(tnr_cache_root "$ENV{HOME}/.cache")
else()
  set(tnr_cache_root "${PROJECT_BINARY_DIR}/cache")
endif()
set(TNR_DOWNLOAD_DIR "${tnr_cache_root}/tenure" CACHE PATH
  "Where downloaded and prebuilt dependencies are kept, shared by all build directories")
tnr_folder_takes(tnr_takes "${TNR_DOWNLOAD_DIR}")
if(NOT tnr_takes)
  message(STATUS "${TNR_DOWNLOAD_DIR} cannot be written to: what is fetched is kept in "
    "${PROJECT_BINARY_DIR}/cache, for this build alone")
  set(TNR_DOWNLOAD_DIR "${PROJECT_BINARY_DIR}/cache")
  file(MAKE_DIRECTORY "${TNR_DOWNLOAD_DIR}")
endif()

# tnr_file_matches(OUT PATH SHA256): sets OUT to TRUE if the file is there with this checksum.
function(tnr_file_matches out path sha256)
  set(${out} FALSE PARENT_SCOPE)
  if(EXISTS "${path}" AND NOT IS_DIRECTORY "${path}")
    file(SHA256 "${path}" found)
    if(found STREQUAL sha256)
      set(${out} TRUE PARENT_SCOPE)
    endif()
  endif()
endfunction()

# tnr_download(OUT URL PATH SHA256): fetches URL into PATH. OUT is empty on success, otherwise a
# sentence on what went wrong; PATH then does not exist. Two builds may do this at once: each
# writes a file of its own and renames it.
function(tnr_download out url path sha256)
  string(RANDOM LENGTH 8 suffix)
  set(partial "${path}.${suffix}.partial")
  file(DOWNLOAD "${url}" "${partial}" STATUS status INACTIVITY_TIMEOUT 30 TLS_VERIFY ON)
  list(GET status 0 code)
  list(GET status 1 text)
  if(NOT code EQUAL 0)
    file(REMOVE "${partial}")
    set(${out} "${url} could not be fetched: ${text}" PARENT_SCOPE)
    return()
  endif()
  tnr_file_matches(good "${partial}" "${sha256}")
  if(NOT good)
    file(REMOVE "${partial}")
    set(${out} "${url} was fetched but its SHA-256 is not ${sha256}" PARENT_SCOPE)
    return()
  endif()
  file(RENAME "${partial}" "${path}")
  set(${out} "" PARENT_SCOPE)
endfunction()
