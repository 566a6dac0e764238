# SPDX-License-Identifier: Apache-2.0
#
# Writes what Debian calls the copyright file, in its machine-readable form: Tenure's licence, and
# those of docs/licenses for the installed files that contain code of others. TNR_COPYRIGHT is the
# file.
set(TNR_COPYRIGHT "${PROJECT_BINARY_DIR}/package/copyright")

# tnr_copyright(out FILES f... FROM name LICENSE short COMMENT text): the paragraph of files that
# contain code of docs/licenses/NAME.txt, and the paragraph of its licence.
function(tnr_copyright out)
  cmake_parse_arguments(arg "" "FROM;LICENSE;COMMENT" "FILES" ${ARGN})
  set(path "${PROJECT_SOURCE_DIR}/docs/licenses/${arg_FROM}.txt")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
  file(READ "${path}" text)
  string(REGEX MATCHALL "Copyright [^\n]*" owners "${text}")
  list(JOIN owners "\n " owners)
  # Each line begins with a blank, and an empty one is a full stop.
  string(STRIP "${text}" text)
  string(REPLACE "\n" "\n " text " ${text}")
  string(REGEX REPLACE "\n +\n" "\n .\n" text "${text}")
  string(REGEX REPLACE "\n +\n" "\n .\n" text "${text}")
  list(JOIN arg_FILES "\n " files)
  set(${out} "${${out}}
Files: ${files}
Copyright: The authors of Tenure
 ${owners}
License: Apache-2.0 and ${arg_LICENSE}
Comment: ${arg_COMMENT}

License: ${arg_LICENSE}
${text}
" PARENT_SCOPE)
endfunction()

set(copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: tenure
Comment: Paths are those of installed files, below the prefix.

Files: *
Copyright: The authors of Tenure
License: Apache-2.0

License: Apache-2.0
 Licensed under the Apache License, Version 2.0 (the \"License\"); you may not use these files
 except in compliance with the License. You may obtain a copy of the License at
 http://www.apache.org/licenses/LICENSE-2.0
 .
 Unless required by applicable law or agreed to in writing, software distributed under the License
 is distributed on an \"AS IS\" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express
 or implied. See the License for the specific language governing permissions and limitations under
 the License.
 .
 The whole text is in the file LICENSE beside this one; Debian systems also have it in
 /usr/share/common-licenses/Apache-2.0.
")
if(tnr_metadata STREQUAL "jemalloc")
  tnr_copyright(copyright FROM jemalloc LICENSE BSD-2-Clause
    FILES "${CMAKE_INSTALL_LIBDIR}/libtenure.so*" "${CMAKE_INSTALL_LIBDIR}/libtenure.a"
    COMMENT "They contain jemalloc.")
endif()
if(TARGET tenure_cli)
  tnr_copyright(copyright FROM yajl LICENSE ISC FILES "${CMAKE_INSTALL_BINDIR}/tenure"
    COMMENT "It contains yajl, where the build found its archive.")
endif()
if(TARGET tenure_report)
  tnr_copyright(copyright FROM uplot LICENSE Expat
    FILES "${CMAKE_INSTALL_DATADIR}/tenure/report.html" COMMENT "It contains uPlot.")
endif()
file(WRITE "${TNR_COPYRIGHT}" "${copyright}")
