# SPDX-License-Identifier: Apache-2.0
#
# Where cuda.h may be on this machine. Used by the build (CudaHeaders.cmake), and installed for
# find_package(tenure), whose target for the simulated device needs the header too.

# Sets OUT to the CUDA_VERSION number of the headers in DIR, or to 0 if one of the two is missing.
function(tnr_cuda_version_of out dir)
  set(${out} 0 PARENT_SCOPE)
  if(EXISTS "${dir}/cuda.h" AND EXISTS "${dir}/cudaTypedefs.h")
    file(STRINGS "${dir}/cuda.h" line REGEX "^#define CUDA_VERSION +[0-9]+" LIMIT_COUNT 1)
    if(line MATCHES "CUDA_VERSION +([0-9]+)")
      set(${out} ${CMAKE_MATCH_1} PARENT_SCOPE)
    endif()
  endif()
endfunction()

# Sets OUT to the folders to look into, most specific first.
function(tnr_cuda_candidates out)
  set(dirs)
  foreach(variable IN ITEMS CUDA_HOME CUDA_PATH)
    if(NOT "$ENV{${variable}}" STREQUAL "")
      list(APPEND dirs "$ENV{${variable}}/include")
    endif()
  endforeach()
  find_program(TNR_NVCC nvcc)
  mark_as_advanced(TNR_NVCC)
  if(TNR_NVCC)
    get_filename_component(nvcc "${TNR_NVCC}" REALPATH)
    get_filename_component(nvcc_bin "${nvcc}" DIRECTORY)
    get_filename_component(nvcc_root "${nvcc_bin}" DIRECTORY)
    list(APPEND dirs "${nvcc_root}/include")
  endif()
  list(APPEND dirs /usr/local/cuda/include)
  file(GLOB versioned LIST_DIRECTORIES true "/usr/local/cuda-*/include" "/opt/cuda*/include")
  list(SORT versioned COMPARE NATURAL ORDER DESCENDING)
  list(APPEND dirs ${versioned} /usr/include)
  set(${out} ${dirs} PARENT_SCOPE)
endfunction()
