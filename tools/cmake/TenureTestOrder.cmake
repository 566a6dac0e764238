# SPDX-License-Identifier: Apache-2.0
#
# tnr_test_order(name): which tests ctest begins with. What takes long and begins late runs alone at
# a row's end, while other cores have nothing to do. A build folder that has run its tests once
# knows how long each takes; a fresh one does not, hence this list, for all rows: those that take
# longest by the clock, longest first. Some of them wait more than they work, for what hangs or for
# what comes late: with them, too, a core has something else to do only if they begin early. It
# changes no test: a name too much or too few costs seconds.
set(tnr_tests_long
  python_wheel fuzz_gates check_programs bench_instructions report_views control_faults_host
  conformance_hang snapshot_traces preload_ways fuzz_tool fault_driver products fault_missing
  cccl_real lock_model report_blocks cli_replay preload_missing preload_hostile
  sleep_faults_driver install_deb snapshot_torch fault_host snapshot_large threads_last python_under
  fuzz_snapshot fuzz_trace fuzz_conf snapshot_command cli_ctl cli_input snapshot_files bench_report
  cli_bench model misuse python_zoo python_check sleep_contents sleep_compact sleep_pools
  lifetime_offload_threads lifetime_offload_lazy lifetime_offload_random capture_experiments_1000
  publish group snapshot_read fuzz_replay soak)

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
