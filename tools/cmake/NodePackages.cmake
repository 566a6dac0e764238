# SPDX-License-Identifier: Apache-2.0
#
# tnr_node_packages(NAME x FOLDER dir RESULT variable)
#   Installs the packages that dir/package-lock.json names, with npm, into the build directory, and
#   sets the variable to the node_modules there. The lock file has the checksum of every package.
#   Does nothing while the lock file is the one that is installed. Where node or npm is missing or
#   too old, or npm fails (no network), the variable is empty and <variable>_WHY says why.
#
# Configuring does this, not building: without the packages there are no targets that need them, and
# the rest is built all the same.

set(tnr_node_oldest 18)

function(tnr_find_node why)
  find_program(TNR_NODE NAMES node nodejs)
  find_program(TNR_NPM npm)
  mark_as_advanced(TNR_NODE TNR_NPM)
  set(reason "")
  set(hint " (Debian, Ubuntu: apt-get install nodejs npm, as ./tools/setup does; configure again)")
  if(NOT TNR_NODE)
    set(reason "node is not installed${hint}")
  elseif(NOT TNR_NPM)
    set(reason "npm is not installed${hint}")
  else()
    execute_process(COMMAND "${TNR_NODE}" --version OUTPUT_VARIABLE version
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    string(REGEX REPLACE "^v" "" version "${version}")
    if(NOT version MATCHES "^[0-9]")
      set(reason "${TNR_NODE} does not run")
    elseif(version VERSION_LESS tnr_node_oldest)
      set(reason "node is ${version}, older than ${tnr_node_oldest}${hint}")
    endif()
  endif()
  set(${why} "${reason}" PARENT_SCOPE)
endfunction()

function(tnr_node_packages)
  cmake_parse_arguments(arg "" "NAME;FOLDER;RESULT" "" ${ARGN})
  set(${arg_RESULT} "" PARENT_SCOPE)
  tnr_find_node(why)
  set(${arg_RESULT}_WHY "${why}" PARENT_SCOPE)
  if(why)
    return()
  endif()
  set(place "${PROJECT_BINARY_DIR}/npm/${arg_NAME}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    "${arg_FOLDER}/package.json" "${arg_FOLDER}/package-lock.json")
  file(SHA256 "${arg_FOLDER}/package-lock.json" wanted)
  set(installed "")
  if(EXISTS "${place}/installed")
    file(READ "${place}/installed" installed)
  endif()
  if(NOT installed STREQUAL wanted)
    message(STATUS "Installing the packages of ${arg_NAME} with npm (without a network it gives up "
      "after a minute)")
    file(REMOVE_RECURSE "${place}")
    file(COPY "${arg_FOLDER}/package.json" "${arg_FOLDER}/package-lock.json"
      "${arg_FOLDER}/.npmrc" DESTINATION "${place}")
    execute_process(COMMAND "${TNR_NPM}" ci WORKING_DIRECTORY "${place}"
      RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output TIMEOUT 300)
    if(NOT result EQUAL 0)
      file(WRITE "${place}/npm.log" "${output}")
      # The line that tells a network, a gateway's certificate and a full disk apart.
      string(REGEX MATCH "reason: [^\n]*|E[A-Z_]+[^\n]*" reason "${output}")
      string(STRIP "${reason}" reason)
      set(${arg_RESULT}_WHY "npm could not install its packages: ${reason} (${place}/npm.log has \
all of it; configure again when that is mended)" PARENT_SCOPE)
      return()
    endif()
    file(WRITE "${place}/installed" "${wanted}")
  endif()
  set(${arg_RESULT} "${place}/node_modules" PARENT_SCOPE)
endfunction()
