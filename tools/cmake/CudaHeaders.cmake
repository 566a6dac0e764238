# SPDX-License-Identifier: Apache-2.0
#
# tenure_cuda_headers: the INTERFACE target with the folder of cuda.h and cudaTypedefs.h. These
# two headers are all that is needed of CUDA, and only to build: no library is linked.
#
# Looked for, in this order: TNR_CUDA_INCLUDE, CUDA_HOME or CUDA_PATH, the toolkit of the nvcc on
# PATH, /usr/local/cuda*, /usr/include. If none has CUDA 12.8 or newer, NVIDIA's redistributable
# archive is fetched (about 1 MB, pinned by checksum) and its headers are used.

set(TNR_CUDA_INCLUDE "" CACHE PATH "Folder with cuda.h and cudaTypedefs.h; empty: search")
option(TNR_CUDA_DOWNLOAD "Fetch NVIDIA's headers if no toolkit is installed" ON)

set(tnr_cuda_minimum 12080)
set(tnr_cuda_archive "cuda_cudart-linux-x86_64-13.0.96-archive")
set(tnr_cuda_sha256 "25b8071951baba827be1580b841d363464f6ee6c39f48d33a81646f90cc95ed1")
string(CONCAT tnr_cuda_url "https://developer.download.nvidia.com/compute/cuda/redist/"
  "cuda_cudart/linux-x86_64/${tnr_cuda_archive}.tar.xz")

include(CudaCandidates) # tnr_cuda_version_of(), tnr_cuda_candidates()

# Fetches and unpacks the headers into the download folder. OUT is their folder, or empty, with
# the reason in OUT_error.
function(tnr_cuda_fetch out)
  set(${out} "" PARENT_SCOPE)
  set(target "${TNR_DOWNLOAD_DIR}/${tnr_cuda_archive}")
  set(tarball "${target}.tar.xz")
  # The two headers ask nothing of the processor: AArch64's archive has the same.
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64|aarch64|arm64)$")
    set(${out}_error "there is no pinned archive for ${CMAKE_SYSTEM_PROCESSOR}" PARENT_SCOPE)
    return()
  endif()
  tnr_file_matches(have "${tarball}" "${tnr_cuda_sha256}")
  if(NOT have)
    message(STATUS "CUDA headers: no toolkit found; fetching ${tnr_cuda_url}")
    tnr_download(error "${tnr_cuda_url}" "${tarball}" "${tnr_cuda_sha256}")
    if(error)
      set(${out}_error "${error}" PARENT_SCOPE)
      return()
    endif()
  endif()
  # A folder of its own, renamed when it is whole: another build may be doing the same.
  string(RANDOM LENGTH 8 suffix)
  set(partial "${target}.${suffix}.partial")
  file(ARCHIVE_EXTRACT INPUT "${tarball}" DESTINATION "${partial}"
    PATTERNS "${tnr_cuda_archive}/include/*" "${tnr_cuda_archive}/LICENSE")
  if(NOT EXISTS "${target}/include/cuda.h")
    file(REMOVE_RECURSE "${target}")
    file(RENAME "${partial}/${tnr_cuda_archive}" "${target}" RESULT ignored)
  endif()
  file(REMOVE_RECURSE "${partial}")
  tnr_cuda_version_of(version "${target}/include")
  if(version EQUAL 0)
    set(${out}_error "${tarball} holds no cuda.h with cudaTypedefs.h" PARENT_SCOPE)
    return()
  endif()
  set(${out} "${target}/include" PARENT_SCOPE)
endfunction()

# Sets OUT to the folder to use, or ends the configuration with what to do.
function(tnr_cuda_find out)
  set(seen)
  if(TNR_CUDA_INCLUDE)
    set(dirs "${TNR_CUDA_INCLUDE}")
  else()
    tnr_cuda_candidates(dirs)
    list(APPEND dirs "${TNR_DOWNLOAD_DIR}/${tnr_cuda_archive}/include")
  endif()
  foreach(dir IN LISTS dirs)
    tnr_cuda_version_of(version "${dir}")
    if(NOT version LESS tnr_cuda_minimum)
      set(${out} "${dir}" PARENT_SCOPE)
      return()
    elseif(version GREATER 0)
      string(APPEND seen "  ${dir} has CUDA_VERSION ${version}: too old.\n")
    elseif(TNR_CUDA_INCLUDE)
      string(APPEND seen "  ${dir} (TNR_CUDA_INCLUDE) lacks cuda.h or cudaTypedefs.h.\n")
    endif()
  endforeach()
  set(found)
  if(TNR_CUDA_DOWNLOAD AND NOT TNR_CUDA_INCLUDE)
    tnr_cuda_fetch(found)
    if(found)
      set(${out} "${found}" PARENT_SCOPE)
      return()
    endif()
    string(APPEND seen "  Fetching them failed: ${found_error}.\n")
  endif()
  message(FATAL_ERROR "Tenure needs the headers cuda.h and cudaTypedefs.h of CUDA 12.8 or newer "
    "to build (no GPU and no driver).\n${seen}"
    "Do one of these:\n"
    "  * install a CUDA toolkit, or only its package cuda-cudart-dev / nvidia-cuda-dev;\n"
    "  * give the folder of the two headers: cmake -DTNR_CUDA_INCLUDE=/path/to/include;\n"
    "  * put ${tnr_cuda_url}\n    into ${TNR_DOWNLOAD_DIR} and configure again.\n")
endfunction()

# tnr_cuda_is_fetched: the headers are those of the archive.
tnr_cuda_find(tnr_cuda_dir)
string(FIND "${tnr_cuda_dir}" "${TNR_DOWNLOAD_DIR}/" tnr_cuda_is_fetched)
if(tnr_cuda_is_fetched EQUAL 0)
  set(tnr_cuda_is_fetched ON)
else()
  set(tnr_cuda_is_fetched OFF)
endif()
tnr_cuda_version_of(tnr_cuda_version "${tnr_cuda_dir}")
math(EXPR tnr_cuda_major "${tnr_cuda_version} / 1000")
math(EXPR tnr_cuda_minor "${tnr_cuda_version} % 1000 / 10")
message(STATUS "CUDA headers: ${tnr_cuda_major}.${tnr_cuda_minor} in ${tnr_cuda_dir}")

add_library(tenure_cuda_headers INTERFACE)
# SYSTEM, so that our warnings are about our code.
if(NOT tnr_cuda_dir STREQUAL "/usr/include")
  target_include_directories(tenure_cuda_headers SYSTEM INTERFACE "${tnr_cuda_dir}")
endif()
