# SPDX-License-Identifier: Apache-2.0
#
# tenure_layer(NAME alloc [DEPENDS lower ...] [LIBS target ...])
# tenure_room(LAYER alloc NAME memory SOURCES memory/a.c ...)
#
# A layer is a folder of rooms, declared from the bottom to the top. Each room is an OBJECT library,
# tenure_<layer>_<room>, and TenureLibrary.cmake links them all. A room sees its own headers, those
# of the rooms of its layer that were declared before, and those of the layers that its layer
# DEPENDS on. It includes an internal header by its path inside the layer ("gpu/backend.h"), so
# names of rooms must differ between layers.
#
# An include that points upward does not compile, and tests/layers proves it. A higher layer is not
# on the include path at all. The rooms of one layer have one folder on it; so before that folder
# stands one, made here, that has each header of a room above under the header's name, with an
# #error in it.
function(tenure_layer)
  cmake_parse_arguments(arg "" "NAME" "DEPENDS;LIBS" ${ARGN})
  if(NOT arg_NAME OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenure_layer(NAME ${arg_NAME}): NAME missing, or do not know "
      "'${arg_UNPARSED_ARGUMENTS}'.")
  endif()
  get_property(layers GLOBAL PROPERTY TNR_LAYERS)
  foreach(lower IN LISTS arg_DEPENDS)
    if(NOT lower IN_LIST layers)
      message(FATAL_ERROR "Layer ${arg_NAME} depends on ${lower}, which is not there (yet): "
        "a layer depends only on layers below it.")
    endif()
  endforeach()
  set_property(GLOBAL PROPERTY TNR_LAYER_${arg_NAME}_DEPENDS ${arg_DEPENDS})
  set_property(GLOBAL PROPERTY TNR_LAYER_${arg_NAME}_LIBS ${arg_LIBS})
  set_property(GLOBAL APPEND PROPERTY TNR_LAYERS ${arg_NAME})
  set_property(GLOBAL APPEND PROPERTY TNR_LAYER_LIBS ${arg_LIBS})
endfunction()

function(tenure_room)
  cmake_parse_arguments(arg "" "LAYER;NAME" "SOURCES" ${ARGN})
  if(NOT arg_LAYER OR NOT arg_NAME OR NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenure_room(NAME ${arg_NAME}): LAYER, NAME or SOURCES missing, or do not "
      "know '${arg_UNPARSED_ARGUMENTS}'.")
  endif()
  foreach(source IN LISTS arg_SOURCES)
    if(NOT source MATCHES "^${arg_NAME}/")
      message(FATAL_ERROR "tenure_room(NAME ${arg_NAME}): ${source} is not in its folder.")
    endif()
  endforeach()
  get_property(depends GLOBAL PROPERTY TNR_LAYER_${arg_LAYER}_DEPENDS)
  get_property(libs GLOBAL PROPERTY TNR_LAYER_${arg_LAYER}_LIBS)
  set_property(GLOBAL APPEND PROPERTY TNR_LAYER_${arg_LAYER}_ROOMS ${arg_NAME})
  get_property(rooms GLOBAL PROPERTY TNR_LAYER_${arg_LAYER}_ROOMS)
  set(target tenure_${arg_LAYER}_${arg_NAME})
  add_library(${target} OBJECT ${arg_SOURCES})
  set(refused "${CMAKE_CURRENT_BINARY_DIR}/refused/${arg_NAME}")
  tnr_refuse_headers("${refused}" "${arg_LAYER}/${arg_NAME}" "${rooms}")
  target_include_directories(${target}
    PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}/include"
    PRIVATE "${refused}" "${CMAKE_CURRENT_SOURCE_DIR}")
  foreach(lower IN LISTS depends)
    target_include_directories(${target}
      PUBLIC "${PROJECT_SOURCE_DIR}/${lower}/include"
      PRIVATE "${PROJECT_SOURCE_DIR}/${lower}")
  endforeach()
  target_compile_definitions(${target} PRIVATE TNR_BUILDING_LIBRARY=1)
  target_link_libraries(${target} PRIVATE tenure_build_flags ${libs})
  set_property(GLOBAL APPEND PROPERTY TNR_ROOMS ${arg_LAYER}_${arg_NAME})
endfunction()

# Fills `folder` with the headers of this layer that `room` must not include.
function(tnr_refuse_headers folder room seen)
  file(REMOVE_RECURSE "${folder}")
  file(MAKE_DIRECTORY "${folder}")
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}"
    "${CMAKE_CURRENT_SOURCE_DIR}/*.h")
  foreach(header IN LISTS headers)
    string(REGEX REPLACE "/.*" "" owner "${header}")
    if(NOT owner STREQUAL "include" AND NOT owner IN_LIST seen)
      file(WRITE "${folder}/${header}" "#error \"${room} lies below ${header}\"\n")
    endif()
  endforeach()
endfunction()
