# SPDX-License-Identifier: Apache-2.0
#
# tenure_commit: the INTERFACE target with <tenure_commit.h>, which defines TNR_COMMIT as what
# `git describe` says of the source, or "unknown" outside a checkout. It is looked at again in
# each build, and the header is touched only when the text has changed.

find_package(Git QUIET)
set(tnr_commit_dir "${PROJECT_BINARY_DIR}/generated")
add_custom_target(tenure_commit_header
  BYPRODUCTS "${tnr_commit_dir}/tenure_commit.h"
  COMMAND "${CMAKE_COMMAND}" "-DGIT=${GIT_EXECUTABLE}" "-DSOURCE=${PROJECT_SOURCE_DIR}"
    "-DOUTPUT=${tnr_commit_dir}/tenure_commit.h"
    -P "${PROJECT_SOURCE_DIR}/tools/cmake/write_commit_header.cmake"
  VERBATIM)
add_library(tenure_commit INTERFACE)
add_dependencies(tenure_commit tenure_commit_header)
target_include_directories(tenure_commit INTERFACE "${tnr_commit_dir}")
