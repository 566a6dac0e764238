# SPDX-License-Identifier: Apache-2.0
#
# Where downloads are kept, and tnr_download(), which checks what it fetches. The folder is shared
# by all build directories and all checkouts of a user, so that a thing is fetched once.

if(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(tnr_cache_root "$ENV{XDG_CACHE_HOME}")
elseif(DEFINED ENV{HOME} AND NOT "$ENV{HOME}" STREQUAL "")
  set(tnr_cache_root "$ENV{HOME}/.cache")
else()
  set(tnr_cache_root "${PROJECT_BINARY_DIR}/cache")
endif()
set(TNR_DOWNLOAD_DIR "${tnr_cache_root}/tenure" CACHE PATH
  "Where downloaded and prebuilt dependencies are kept, shared by all build directories")
file(MAKE_DIRECTORY "${TNR_DOWNLOAD_DIR}")

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
