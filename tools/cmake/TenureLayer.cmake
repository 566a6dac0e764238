# SPDX-License-Identifier: Apache-2.0
#
# tenure_layer(NAME alloc SOURCES a.c b.c ... [DEPENDS lower ...] [LIBS target ...])
#
# Makes the OBJECT library tenure_<name> of one layer's folder and adds it to the list of objects
# that TenureLibrary.cmake links. A layer sees its own public and internal headers and those of
# the layers that it DEPENDS on, and nothing else: an include of a higher layer's header does not
# compile, and tests/layers proves it. An internal header is included by its path inside its
# layer's folder ("driver/driver.h"), so folder names must differ between layers.
function(tenure_layer)
  cmake_parse_arguments(arg "" "NAME" "SOURCES;DEPENDS;LIBS" ${ARGN})
  if(NOT arg_NAME OR NOT arg_SOURCES)
    message(FATAL_ERROR "tenure_layer needs NAME and SOURCES.")
  endif()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenure_layer(NAME ${arg_NAME}): do not know ${arg_UNPARSED_ARGUMENTS}.")
  endif()

  set(target tenure_${arg_NAME})
  add_library(${target} OBJECT ${arg_SOURCES})
  # Allows a layer that consists of headers only.
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
  target_include_directories(${target}
    PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}/include"
    PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  target_compile_definitions(${target} PRIVATE TNR_BUILDING_LIBRARY=1)
  target_link_libraries(${target} PRIVATE tenure_build_flags ${arg_LIBS})

  foreach(lower IN LISTS arg_DEPENDS)
    if(NOT TARGET tenure_${lower})
      message(FATAL_ERROR "Layer ${arg_NAME} depends on ${lower}, which is not there (yet): "
        "a layer depends only on layers below it.")
    endif()
    target_include_directories(${target}
      PUBLIC "${PROJECT_SOURCE_DIR}/${lower}/include"
      PRIVATE "${PROJECT_SOURCE_DIR}/${lower}")
  endforeach()

  set_property(GLOBAL APPEND PROPERTY TNR_LAYERS ${arg_NAME})
  set_property(GLOBAL APPEND PROPERTY TNR_LAYER_LIBS ${arg_LIBS})
endfunction()
