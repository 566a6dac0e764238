# SPDX-License-Identifier: Apache-2.0
#
# Packages: `cpack` in a build directory makes a .deb, and a .tar.gz for other systems. Build them
# on the oldest system that they are for: the command links archives of the system's libraries.

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME tenure)
set(CPACK_PACKAGE_VENDOR "Tenure")
# Who builds a package answers for it. As Debian's own tools have it: DEBFULLNAME and DEBEMAIL.
set(tnr_contact "Local build <root@localhost>")
if(NOT "$ENV{DEBEMAIL}" STREQUAL "")
  set(tnr_contact "$ENV{DEBEMAIL}")
  if(NOT "$ENV{DEBFULLNAME}" STREQUAL "" AND NOT tnr_contact MATCHES "<")
    set(tnr_contact "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
  endif()
endif()
set(CPACK_PACKAGE_CONTACT "${tnr_contact}" CACHE STRING "Who answers for the package: Name <mail>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION "Memory of NVIDIA's GPUs, allocated from mapped chunks that move to \
where they are needed, freed in the order of streams, and accounted for. The library, headers, the \
command `tenure`, a simulated device, and the adapters for PyTorch, CuPy and programs that know \
nothing of it. Neither a GPU nor a driver is needed to install it.")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_STRIP_FILES OFF) # of archives: an allocator's stack traces are read in the field
# One package, without what is NVIDIA's.
set(CPACK_COMPONENTS_ALL Unspecified)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
# What debuggers and `tenure snapshot` need for lines is in tenure-dbgsym, by build id.
set(CPACK_DEBIAN_DEBUGINFO_PACKAGE ON)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS
  "${PROJECT_BINARY_DIR}/lib" "${PROJECT_BINARY_DIR}/lib/tenure")
# The command looks up names and lines with it, and does everything else without it.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libdw1")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3, pkgconf, nvidia-cuda-dev")
# The loader's cache learns of the new library.
file(WRITE "${PROJECT_BINARY_DIR}/package/triggers" "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${PROJECT_BINARY_DIR}/package/triggers")
if(CMAKE_CROSSCOMPILING AND CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
endif()

include(CPack)
