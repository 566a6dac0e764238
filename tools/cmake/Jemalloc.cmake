# SPDX-License-Identifier: Apache-2.0
#
# tenure_metadata: the INTERFACE target for the host memory that holds Tenure's own structures.
# It defines TNR_METADATA_JEMALLOC and brings jemalloc 5.3.0, or does neither.
#
# jemalloc must be built for this: a distribution's archive uses the initial-exec TLS model, with
# which libtenure.so could not be loaded by dlopen, and it would interpose on malloc. So the
# upstream release, pinned by checksum, is obtained while configuring, from the first of
#   TNR_JEMALLOC_TARBALL, the download folder, the upstream address, Debian's or Ubuntu's source
#   package (whose .orig file is the upstream release),
# and built while building, once for all build directories (about a minute).

if(TNR_METADATA STREQUAL "")
  if(TNR_SANITIZE)
    set(tnr_metadata malloc) # a sanitizer must see each allocation
  else()
    set(tnr_metadata jemalloc)
  endif()
elseif(TNR_METADATA MATCHES "^(jemalloc|malloc)$")
  set(tnr_metadata ${TNR_METADATA})
else()
  message(FATAL_ERROR "TNR_METADATA is '${TNR_METADATA}'; it must be jemalloc or malloc.")
endif()

set(TNR_JEMALLOC_TARBALL "" CACHE FILEPATH "jemalloc-5.3.0.tar.bz2; empty: obtain it")
set(tnr_jemalloc_version 5.3.0)
set(tnr_jemalloc_sha256 "2db82d1e7119df3e71b7640219b6dfe84789bc0537983c3b7ac4f7189aecfeaa")
set(tnr_jemalloc_name "jemalloc-${tnr_jemalloc_version}.tar.bz2")
string(CONCAT tnr_jemalloc_url "https://github.com/jemalloc/jemalloc/releases/download/"
  "${tnr_jemalloc_version}/${tnr_jemalloc_name}")
# The prefix and the private name space keep every symbol apart from an engine's own jemalloc.
# Without initial-exec TLS the library can be loaded by dlopen. Statistics stay on: Tenure reports
# its metadata bytes from them.
set(tnr_jemalloc_flags
  --with-jemalloc-prefix=je_ --with-private-namespace=tnri_ --disable-initial-exec-tls
  --disable-cxx --disable-libdl --disable-shared --enable-static)
# Kernels for AArch64 have pages of 4, 16 or 64 KiB, and jemalloc ends the process where they are
# larger than it was built for. What serves 64 serves all.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  list(APPEND tnr_jemalloc_flags --with-lg-page=16 --with-lg-hugepage=21)
endif()
if(CMAKE_CROSSCOMPILING)
  execute_process(COMMAND "${CMAKE_C_COMPILER}" -dumpmachine
    OUTPUT_VARIABLE tnr_jemalloc_host OUTPUT_STRIP_TRAILING_WHITESPACE)
  list(APPEND tnr_jemalloc_flags --host=${tnr_jemalloc_host})
endif()

# Asks apt for the source package. OUT is empty on success, otherwise a sentence.
function(tnr_jemalloc_from_distribution out path)
  find_program(TNR_APT_GET apt-get)
  mark_as_advanced(TNR_APT_GET)
  if(NOT TNR_APT_GET)
    set(${out} "there is no apt-get here to ask for the source package" PARENT_SCOPE)
    return()
  endif()
  message(STATUS "jemalloc: trying the distribution's source package")
  execute_process(
    COMMAND bash "${PROJECT_SOURCE_DIR}/tools/cmake/fetch_source_package.sh"
      jemalloc "jemalloc_${tnr_jemalloc_version}.orig.tar.bz2" "${tnr_jemalloc_sha256}" "${path}"
    RESULT_VARIABLE result ERROR_VARIABLE error OUTPUT_QUIET
    ERROR_STRIP_TRAILING_WHITESPACE)
  if(result EQUAL 0)
    set(error "")
  elseif(error STREQUAL "")
    set(error "fetch_source_package.sh ended with ${result}")
  endif()
  set(${out} "${error}" PARENT_SCOPE)
endfunction()

# Sets OUT to a verified tarball, or ends the configuration with what to do.
function(tnr_jemalloc_obtain out)
  if(TNR_JEMALLOC_TARBALL)
    tnr_file_matches(good "${TNR_JEMALLOC_TARBALL}" "${tnr_jemalloc_sha256}")
    if(NOT good)
      message(FATAL_ERROR "TNR_JEMALLOC_TARBALL=${TNR_JEMALLOC_TARBALL} is not there, or is not "
        "the release ${tnr_jemalloc_name} with SHA-256 ${tnr_jemalloc_sha256}.")
    endif()
    set(${out} "${TNR_JEMALLOC_TARBALL}" PARENT_SCOPE)
    return()
  endif()
  set(path "${TNR_DOWNLOAD_DIR}/${tnr_jemalloc_name}")
  set(${out} "${path}" PARENT_SCOPE)
  tnr_file_matches(good "${path}" "${tnr_jemalloc_sha256}")
  if(good)
    return()
  endif()
  message(STATUS "jemalloc: fetching ${tnr_jemalloc_url}")
  tnr_download(url_error "${tnr_jemalloc_url}" "${path}" "${tnr_jemalloc_sha256}")
  if(NOT url_error)
    return()
  endif()
  message(STATUS "jemalloc: ${url_error}")
  tnr_jemalloc_from_distribution(package_error "${path}")
  if(NOT package_error)
    return()
  endif()
  message(FATAL_ERROR "Tenure keeps its metadata in jemalloc ${tnr_jemalloc_version}, and its "
    "source could not be obtained:\n"
    "  upstream: ${url_error}\n"
    "  source package: ${package_error}\n"
    "Do one of these:\n"
    "  * fetch ${tnr_jemalloc_url}\n    elsewhere and give it: "
    "cmake -DTNR_JEMALLOC_TARBALL=/path/to/${tnr_jemalloc_name};\n"
    "  * build without it: cmake -DTNR_METADATA=malloc (metadata then shares the program's heap "
    "and its size is counted less exactly).\n")
endfunction()

# The archive and its header, built by this build directory's first build.
function(tnr_jemalloc_target tarball)
  string(SHA256 key "${tnr_jemalloc_sha256};${tnr_jemalloc_flags};${CMAKE_C_COMPILER_ID};\
${CMAKE_C_COMPILER_VERSION};${CMAKE_SYSTEM_PROCESSOR}")
  string(SUBSTRING "${key}" 0 12 key)
  set(cache "${TNR_DOWNLOAD_DIR}/jemalloc-${tnr_jemalloc_version}-${key}")
  set(prefix "${PROJECT_BINARY_DIR}/jemalloc")
  set(archive "${prefix}/lib/libjemalloc_pic.a")
  add_custom_command(
    OUTPUT "${archive}" "${prefix}/include/jemalloc/jemalloc.h"
    COMMAND bash "${PROJECT_SOURCE_DIR}/tools/cmake/build_jemalloc.sh"
      "${tarball}" "${cache}" "${prefix}" "${CMAKE_C_COMPILER}" ${tnr_jemalloc_flags}
    COMMENT "jemalloc ${tnr_jemalloc_version} (a minute the first time, then kept in ${cache})"
    VERBATIM)
  add_custom_target(tenure_jemalloc_build DEPENDS "${archive}")
  # An imported target's folder must exist while configuring.
  file(MAKE_DIRECTORY "${prefix}/include")
  add_library(tenure_jemalloc STATIC IMPORTED GLOBAL)
  set_target_properties(tenure_jemalloc PROPERTIES
    IMPORTED_LOCATION "${archive}"
    INTERFACE_INCLUDE_DIRECTORIES "${prefix}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;m")
  add_dependencies(tenure_jemalloc tenure_jemalloc_build)
endfunction()

add_library(tenure_metadata INTERFACE)
if(tnr_metadata STREQUAL "jemalloc")
  tnr_jemalloc_obtain(tnr_jemalloc_tarball)
  message(STATUS "jemalloc: ${tnr_jemalloc_tarball}")
  tnr_jemalloc_target("${tnr_jemalloc_tarball}")
  target_link_libraries(tenure_metadata INTERFACE tenure_jemalloc)
  add_dependencies(tenure_metadata tenure_jemalloc_build)
  target_compile_definitions(tenure_metadata INTERFACE TNR_METADATA_JEMALLOC=1)
endif()
