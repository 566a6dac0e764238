# SPDX-License-Identifier: Apache-2.0
#
# A toolchain file: builds for AArch64 with the distribution's cross compiler, and runs the tests
# under qemu. TNR_SYSROOT is a folder with the libraries that the tools and tests need, which
# tools/aarch64-sysroot fills:
#
#   tools/aarch64-sysroot build-aarch64/sysroot
#   cmake -S . -B build-aarch64 --toolchain tools/cmake/aarch64.cmake \
#     -DTNR_SYSROOT=$PWD/build-aarch64/sysroot
#
# `tools/test --row aarch64` does both.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(tnr_triplet aarch64-linux-gnu)
set(CMAKE_C_COMPILER ${tnr_triplet}-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE ${tnr_triplet})
# What CMake tries while configuring gets the folder, too.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TNR_SYSROOT)

set(CMAKE_FIND_ROOT_PATH "${TNR_SYSROOT}")
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} "${TNR_SYSROOT}/usr/lib/${tnr_triplet}/pkgconfig")
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${TNR_SYSROOT}")
set(CMAKE_BUILD_RPATH "${TNR_SYSROOT}/usr/lib/${tnr_triplet}"
  "${TNR_SYSROOT}/lib/${tnr_triplet}")

find_program(TNR_QEMU_AARCH64 NAMES qemu-aarch64 qemu-aarch64-static
  HINTS "${TNR_SYSROOT}/qemu/usr/bin" NO_CMAKE_FIND_ROOT_PATH)
if(TNR_QEMU_AARCH64)
  set(CMAKE_CROSSCOMPILING_EMULATOR "${TNR_QEMU_AARCH64}" -L /usr/${tnr_triplet})
endif()
