# SPDX-License-Identifier: Apache-2.0
#
# cmake -D CONFORMANCE=... -D LIBRARY=... -P hang.cmake: the runner's own scenarios. One hangs with
# all signals blocked, one dies, one takes over two seconds; all must be reported, the last one as
# well, and the exit code must be that of a hang. On a busy machine each takes longer.

execute_process(COMMAND ${CONFORMANCE} --self-test --limit 20 ${LIBRARY}
  OUTPUT_VARIABLE out ERROR_VARIABLE err RESULT_VARIABLE code TIMEOUT 600)
message("${out}${err}")
if(NOT code STREQUAL "3")
  message(FATAL_ERROR "exit code ${code}, not 3")
endif()
foreach(line IN ITEMS
    "hangs +HUNG: killed after [0-9]+ s; until then: before\\?=SUCCESS\n"
    "dies +DIED of signal 9; until then: before\\?=SUCCESS\n"
    "slow +ok query=SUCCESS\n")
  if(NOT out MATCHES "${line}")
    message(FATAL_ERROR "no line like '${line}'")
  endif()
endforeach()
foreach(line IN ITEMS "hangs: running for [0-9]+ s\n" "slow: took [0-9.]+ s\n"
    "3 scenarios, 0 skipped, 1 differ, 1 hung, [0-9.]+ s\n")
  if(NOT err MATCHES "${line}")
    message(FATAL_ERROR "nothing like '${line}' on stderr")
  endif()
endforeach()
