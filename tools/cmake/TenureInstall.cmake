# SPDX-License-Identifier: Apache-2.0
#
# What `cmake --install` puts where: the library, the layers' public headers, the command, the
# simulated device, the adapters for engines, and what find_package(tenure) and pkg-config need to
# find them.

include(CMakePackageConfigHelpers)
set(tnr_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tenure")

install(TARGETS tenure EXPORT tenureTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
get_property(tnr_layers GLOBAL PROPERTY TNR_LAYERS)
foreach(layer IN LISTS tnr_layers)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/${layer}/include/tenure"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
endforeach()

# The command finds libtenure.so and the simulated device relative to itself, so that an
# installed tree can be moved.
if(TARGET tenure_cli)
  file(RELATIVE_PATH tnr_bin_to_lib "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}")
  set_target_properties(tenure_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${tnr_bin_to_lib}")
  install(TARGETS tenure_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
# It finds libtenure.so beside itself.
if(TARGET tenure_preload)
  install(TARGETS tenure_preload LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
if(TARGET tenure_simcuda)
  install(TARGETS tenure_simcuda LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/tenure"
    NAMELINK_SKIP)
endif()
# Engines: the header for programs of the CUDA runtime, PyTorch's and CuPy's functions beside the
# library, and
# the Python module, which looks for the library in the folders above its own.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/tools/dropin/include/tenure"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
if(TARGET tenure_torch)
  install(TARGETS tenure_torch tenure_cupy tenure_python_frames
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/tenure")
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/tools/python/tenure"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/tenure/python"
    FILES_MATCHING PATTERN "*.py" PATTERN "py.typed" PATTERN "*.cpp" PATTERN "*.hpp" PATTERN "*.h"
    PATTERN "__pycache__" EXCLUDE)
  install(FILES "${PROJECT_BINARY_DIR}/python/tenure/_version.py"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/tenure/python/tenure")
endif()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

install(EXPORT tenureTargets NAMESPACE tenure:: DESTINATION "${tnr_package_dir}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/tools/cmake/tenureConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/package/tenureConfig.cmake" INSTALL_DESTINATION "${tnr_package_dir}")
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/tenureConfigVersion.cmake"
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/package/tenureConfig.cmake"
  "${PROJECT_BINARY_DIR}/package/tenureConfigVersion.cmake"
  DESTINATION "${tnr_package_dir}")

# tenure.pc finds its prefix from its own place, so that an installed tree can be moved; absolute
# folders that the user asked for stay absolute.
set(tnr_pc_prefix "${CMAKE_INSTALL_PREFIX}")
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  file(RELATIVE_PATH tnr_pc_prefix "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
  string(REGEX REPLACE "/$" "" tnr_pc_prefix "\${pcfiledir}/${tnr_pc_prefix}")
endif()
foreach(kind IN ITEMS LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${kind}}")
    set(tnr_pc_${kind} "${CMAKE_INSTALL_${kind}}")
  else()
    set(tnr_pc_${kind} "\${prefix}/${CMAKE_INSTALL_${kind}}")
  endif()
endforeach()
configure_file("${PROJECT_SOURCE_DIR}/tools/cmake/tenure.pc.in"
  "${PROJECT_BINARY_DIR}/package/tenure.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/package/tenure.pc"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
