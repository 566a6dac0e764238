# SPDX-License-Identifier: Apache-2.0
#
# What `cmake --install` puts where: the library, the layers' public headers, the command with its
# manual pages and completions, the simulated device, the adapters for engines, documentation and
# examples, and what find_package(tenure) and pkg-config need to find them. Everything finds what it
# needs from its own place, so that an installed tree can be moved.

include(CMakePackageConfigHelpers)
set(tnr_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tenure")

# ---- libraries ----------------------------------------------------------------------------------

install(TARGETS tenure EXPORT tenureTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(TARGET tenure_archive)
  install(TARGETS tenure_archive EXPORT tenureTargets
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
get_property(tnr_layers GLOBAL PROPERTY TNR_LAYERS)
foreach(layer IN LISTS tnr_layers)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/${layer}/include/tenure"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
endforeach()
# It finds libtenure.so beside itself.
if(TARGET tenure_preload)
  install(TARGETS tenure_preload LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
if(TARGET tenure_simcuda)
  install(TARGETS tenure_simcuda EXPORT tenureTargets
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/tenure")
  if(TARGET tenure_simcudart)
    install(TARGETS tenure_simcudart12
      LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/tenure/runtime/12" NAMELINK_SKIP)
    install(TARGETS tenure_simcudart
      LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/tenure/runtime/13" NAMELINK_SKIP)
  endif()
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/tools/simcuda/include/tenure"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
endif()
# cuda.h, where the build had to fetch it because there is no toolkit: programs on this machine need
# it as well. It is NVIDIA's, and in no package of ours.
set(tnr_pc_cuda "${tnr_cuda_dir}")
if(tnr_cuda_is_fetched)
  get_filename_component(tnr_cuda_archive_dir "${tnr_cuda_dir}" DIRECTORY)
  install(FILES "${tnr_cuda_dir}/cuda.h" "${tnr_cuda_archive_dir}/LICENSE"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/tenure/cuda" COMPONENT cuda_header)
  set(tnr_pc_cuda "\${includedir}/tenure/cuda")
endif()

# ---- the command --------------------------------------------------------------------------------

if(TARGET tenure_cli)
  file(RELATIVE_PATH tnr_bin_to_lib "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}")
  set_target_properties(tenure_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${tnr_bin_to_lib}")
  install(TARGETS tenure_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
# Manual pages and completions (tools/tenure): where man and the shells look.
if(TARGET tenure_manual)
  get_target_property(tnr_manual_dir tenure_manual TNR_MANUAL_DIR)
  set(tnr_share "${CMAKE_INSTALL_DATADIR}")
  install(DIRECTORY "${tnr_manual_dir}/man1" DESTINATION "${CMAKE_INSTALL_MANDIR}")
  install(FILES "${tnr_manual_dir}/bash/tenure"
    DESTINATION "${tnr_share}/bash-completion/completions")
  install(FILES "${tnr_manual_dir}/zsh/_tenure" DESTINATION "${tnr_share}/zsh/site-functions")
  install(FILES "${tnr_manual_dir}/fish/tenure.fish"
    DESTINATION "${tnr_share}/fish/vendor_completions.d")
endif()

# ---- engines ------------------------------------------------------------------------------------

# The headers for programs of the CUDA runtime and of CCCL, PyTorch's and CuPy's functions beside
# the library, and the Python module, which looks for the library in the folders above its own.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/tools/dropin/include/tenure"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
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

# ---- documentation ------------------------------------------------------------------------------

# README.md and docs/ lie to each other as in the sources, so that links between them hold. Those to
# what is not installed are taken out.
include(TenureLicenses) # TNR_COPYRIGHT
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/README.md" "${TNR_COPYRIGHT}"
  DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION "${CMAKE_INSTALL_DOCDIR}"
  FILES_MATCHING PATTERN "*.md" PATTERN "*.c" PATTERN "*.cu" PATTERN "*.h" PATTERN "*.png"
  PATTERN "*.svg" PATTERN "*.schema.json" PATTERN "CMakeLists.txt"
  REGEX "/licenses/[^/]*[.]txt$")
# A prefix may be given at installation; folders that the user made absolute are.
foreach(kind IN ITEMS DOCDIR INCLUDEDIR)
  set(tnr_installed_${kind} "${CMAKE_INSTALL_${kind}}")
  if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_${kind}}")
    set(tnr_installed_${kind} "\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_${kind}}")
  endif()
endforeach()
install(CODE "set(TENURE_DOCS \"\$ENV{DESTDIR}${tnr_installed_DOCDIR}\")
set(TENURE_HEADERS \"\$ENV{DESTDIR}${tnr_installed_INCLUDEDIR}/tenure\")")
install(SCRIPT "${CMAKE_CURRENT_LIST_DIR}/InstalledLinks.cmake")

# ---- how others find it -----------------------------------------------------------------------

install(EXPORT tenureTargets NAMESPACE tenure:: DESTINATION "${tnr_package_dir}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/tools/cmake/tenureConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/package/tenureConfig.cmake" INSTALL_DESTINATION "${tnr_package_dir}"
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/tenureConfigVersion.cmake"
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMajorVersion)
install(FILES
  "${PROJECT_SOURCE_DIR}/tools/cmake/CudaCandidates.cmake"
  "${PROJECT_BINARY_DIR}/package/tenureConfig.cmake"
  "${PROJECT_BINARY_DIR}/package/tenureConfigVersion.cmake"
  DESTINATION "${tnr_package_dir}")

# The .pc files find their prefix from their own place; absolute folders that the user asked for
# stay absolute.
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
foreach(name IN ITEMS tenure tenure-simcuda)
  if(name STREQUAL "tenure-simcuda" AND NOT TARGET tenure_simcuda)
    continue()
  endif()
  configure_file("${PROJECT_SOURCE_DIR}/tools/cmake/${name}.pc.in"
    "${PROJECT_BINARY_DIR}/package/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/package/${name}.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()
