# SPDX-License-Identifier: Apache-2.0
#
# tnr_test_order(name): which tests ctest begins with. What takes long and begins late runs alone at
# a row's end, while other cores have nothing to do. A build folder that has run its tests once
# knows how long each takes; a fresh one does not, hence this list, for all rows: those that take
# longest by the clock, longest first. It changes no test: a name too much or too few costs seconds.
set(tnr_tests_long
  fuzz_gates python_wheel check_programs report_views preload_ways cccl_real bench_instructions
  snapshot_torch control fault_driver preload_hostile control_faults_host conformance_hang
  fuzz_tool lock_model report_blocks bench_report segments_pools fault_host snapshot_traces
  sleep_contents sleep_pools cli_replay snapshot_large snapshot_read fuzz_replay park_layers
  capture_handles install_deb python_under sleep_faults_driver soak)

function(tnr_test_order name)
  list(FIND tnr_tests_long "${name}" place)
  if(place EQUAL -1)
    return()
  endif()
  list(LENGTH tnr_tests_long length)
  math(EXPR cost "${length} - ${place}")
  # More than the seconds that ctest itself measured of any other.
  set_tests_properties(${name} PROPERTIES COST "${cost}000")
endfunction()
