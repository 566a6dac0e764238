# SPDX-License-Identifier: Apache-2.0
#
# tenure: libtenure.so, all layers, with only tnr_* visible. It links libc and nothing of CUDA;
# the driver is loaded at run time.
# tenure_static: the same objects as an archive, for our own tests, which may use internals.

get_property(tnr_layers GLOBAL PROPERTY TNR_LAYERS)
get_property(tnr_layer_libs GLOBAL PROPERTY TNR_LAYER_LIBS)
list(REMOVE_DUPLICATES tnr_layer_libs)
set(tnr_objects)
foreach(layer IN LISTS tnr_layers)
  list(APPEND tnr_objects $<TARGET_OBJECTS:tenure_${layer}>)
endforeach()

add_library(tenure SHARED ${tnr_objects})
add_library(tenure_static STATIC ${tnr_objects})
set_target_properties(tenure PROPERTIES
  VERSION ${PROJECT_VERSION}
  SOVERSION 0
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
