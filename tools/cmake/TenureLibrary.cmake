# SPDX-License-Identifier: Apache-2.0
#
# tenure: libtenure.so, all layers, with only tnr_* visible. It links libc and nothing of CUDA;
# the driver is loaded at run time.
# tenure_static: the same objects as an archive, for our own tests, which may use internals.
# tenure_archive: libtenure.a, for others: one object, in which only tnr_* is visible, so that an
# engine's own jemalloc, and its own names, never meet ours.

get_property(tnr_layers GLOBAL PROPERTY TNR_LAYERS)
get_property(tnr_rooms GLOBAL PROPERTY TNR_ROOMS)
get_property(tnr_layer_libs GLOBAL PROPERTY TNR_LAYER_LIBS)
list(REMOVE_DUPLICATES tnr_layer_libs)
set(tnr_objects)
foreach(room IN LISTS tnr_rooms)
  list(APPEND tnr_objects $<TARGET_OBJECTS:tenure_${room}>)
endforeach()

add_library(tenure SHARED ${tnr_objects})
add_library(tenure_static STATIC ${tnr_objects})
set_target_properties(tenure PROPERTIES
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}
  LINK_DEPENDS "${PROJECT_SOURCE_DIR}/tools/cmake/tenure.map")
set_target_properties(tenure_static PROPERTIES OUTPUT_NAME tenure_static)
set_target_properties(tenure tenure_static PROPERTIES LINKER_LANGUAGE C)

foreach(target IN ITEMS tenure tenure_static)
  foreach(layer IN LISTS tnr_layers)
    target_include_directories(${target} PUBLIC
      "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/${layer}/include>")
  endforeach()
endforeach()
target_include_directories(tenure PUBLIC "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_link_libraries(tenure PRIVATE tenure_build_flags ${tnr_layer_libs})
target_link_libraries(tenure_static PUBLIC tenure_build_flags ${tnr_layer_libs})
tenure_coverage(tenure tenure_static)
add_library(tenure::tenure ALIAS tenure)

target_link_options(tenure PRIVATE
  "LINKER:--version-script=${PROJECT_SOURCE_DIR}/tools/cmake/tenure.map"
  "LINKER:--exclude-libs,ALL"
  # A dlclose must not unload us: threads keep thread-local data whose destructors are our code.
  "LINKER:-z,nodelete")
# A sanitizer's run-time functions are found in the executable, not at link time.
if(NOT TNR_SANITIZE)
  target_link_options(tenure PRIVATE "LINKER:-z,defs")
endif()

# Under a sanitizer or with counted branches nobody installs it.
if(NOT TNR_SANITIZE AND NOT TNR_COVERAGE)
  set(tnr_whole_object "${PROJECT_BINARY_DIR}/archive/tenure.o")
  set(tnr_metadata_archive)
  if(TARGET tenure_jemalloc)
    set(tnr_metadata_archive $<TARGET_FILE:tenure_jemalloc>)
  endif()
  add_custom_command(OUTPUT "${tnr_whole_object}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${PROJECT_BINARY_DIR}/archive"
    COMMAND "${CMAKE_C_COMPILER}" -r -nostdlib -o "${tnr_whole_object}" ${tnr_objects}
      ${tnr_metadata_archive}
    COMMAND "${CMAKE_OBJCOPY}" --wildcard "--keep-global-symbol=tnr_*" "${tnr_whole_object}"
    # Not the objects: makefiles know those of other folders only by their targets.
    DEPENDS tenure_static ${tnr_metadata_archive}
    COMMENT "Joining libtenure.a" COMMAND_EXPAND_LISTS VERBATIM)
  add_library(tenure_archive STATIC "${tnr_whole_object}")
  set_source_files_properties("${tnr_whole_object}" PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  set_target_properties(tenure_archive PROPERTIES
    OUTPUT_NAME tenure LINKER_LANGUAGE C EXPORT_NAME tenure_static)
  target_include_directories(tenure_archive INTERFACE
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_link_libraries(tenure_archive INTERFACE -pthread ${CMAKE_DL_LIBS} m)
  if(TARGET tenure_jemalloc_build)
    add_dependencies(tenure_archive tenure_jemalloc_build)
  endif()
endif()
