#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every way in which programs reach the driver leads to Tenure, with the same results."""
import json
import os
import unittest

from preloaded import DRIVER, PROGRAMS, TENURE, WAYS, PreloadTest, engine

# Allocations of each scenario: the programs' own numbers.
ALLOCATIONS = {"basic": 120, "async": 200, "order": 201, "threads": 378}


class Ways(PreloadTest):
    def check_scenario(self, scenario, ways=WAYS):
        for way in ways:
            with self.subTest(way=way):
                result = self.check_same(engine(way, scenario))
                self.assertEqual(len(result.counts), 1, result.err)
                counts = result.counts[0]
                self.check_served(counts)
                self.assertEqual(counts["allocations_served"], ALLOCATIONS[scenario])
                self.assertEqual(result.messages, [])
                yield counts

    def test_memory(self):
        for _ in self.check_scenario("basic"):
            pass

    def test_memory_of_allocations(self):
        """Which lies outside of the addresses that Tenure reserves. Broken to see it fail:
        service_given's call left out of alloc_told (frees go to the driver)."""
        result = self.check_same(engine("lookup2", "basic"), ["--conf", "memory:allocated"])
        self.check_served(result.counts[0])

    def test_what_is_said_of_memory(self):
        """Each attribute has the driver's size: variables are not cleared before."""
        for way in WAYS:
            result = self.check_same(engine(way, "attributes"))
            self.check_served(result.counts[0])
            for attribute in [8, 10, 13, 15, 21]:
                self.assertIn(f"listed {attribute}: result 0, 4 bytes", result.out)

    def test_registered_memory_stays(self):
        """Broken to see it fail: registered in describe.c without its call."""
        result = self.check_same(engine("lookup2", "registered"),
                                 environment={"TENURE_SIM_MEMORY": "256M"})
        self.check_served(result.counts[0])
        self.assertEqual(result.counts[0]["registrations_seen"], 1)

    def test_stream_ordered_memory(self):
        for counts in self.check_scenario("async"):
            self.assertEqual(counts["streams_announced"], 2)

    def test_order(self):
        for counts in self.check_scenario("order"):
            self.assertEqual(counts["event_records_announced"], 204)
            self.assertEqual(counts["stream_waits_announced"], 200)
            # Four events, twice each, and the context: what the legacy stream did, which has no
            # memory, is not told.
            self.assertEqual(counts["synchronisations_announced"], 9)

    def test_what_need_not_be_told(self):
        """Broken to see it fail: event_forget does nothing (order.c), and the first run ends at a
        race; without the comparison of asked_changes nothing is announced of the stream that gets
        memory. With stream_is_silent always 0 the counts stay, and callgrind's rows run_* grow."""
        for schedule in ["lazy", "random"]:
            result = self.run_with(engine("lookup2", "silent"), environment={
                "TENURE_SIM_RACES": 1, "TENURE_SIM_STRICT": "abort",
                "TENURE_SIM_SCHEDULE": schedule})
            self.assertEqual(result.code, 0, result.err)
            # Two in each of 40 rounds, and two more in each of 20.
            self.assertEqual(result.counts[0]["event_records_announced"], 120)

    def test_threads(self):
        """In the short run by two ways: other scenarios make the same calls by all of them."""
        ways = WAYS if "TENURE_TEST_LONG" in os.environ else ["dlsym-thread", "lookup2"]
        for _ in self.check_scenario("threads", ways):
            pass

    def test_races_are_found_by_the_simulation(self):
        """Memory that is handed out too soon would be written by two streams without order."""
        for scenario in ["order", "pressure", "strangers", "capture", "capture_plain", "update",
                         "update_inside"]:
            for schedule in ["lazy", "random"]:
                result = self.run_with(engine("lookup2", scenario), environment={
                    "TENURE_SIM_RACES": 1, "TENURE_SIM_STRICT": "abort",
                    "TENURE_SIM_SCHEDULE": schedule})
                self.assertEqual(result.code, 0, result.err)

    def test_everything_at_once(self):
        for seed, environment in enumerate([{"TENURE_SIM_SCHEDULE": "threads"},
                                            {"TENURE_SIM_SCHEDULE": "lazy"},
                                            {"TENURE_SIM_RACES": 1}]):
            result = self.run_with(engine("lookup2", "storm"), environment={
                "TENURE_SIM_STRICT": "abort", "ENGINE_SEED": seed, **environment})
            self.assertEqual(result.code, 0, result.err)
            self.check_served(result.counts[0])
            self.assertGreater(result.counts[0]["captures_followed"], 5)

    def test_captures(self):
        for way in WAYS:
            with self.subTest(way=way):
                result = self.run_with(engine(way, "capture"))
                self.assertEqual(result.code, 0, result.err)
                counts = result.counts[0]
                self.check_served(counts)
                streams = 2 if way.endswith("thread") else 1
                self.assertEqual(counts["captures_followed"], 3 * streams)
                self.assertEqual(counts["captures_passed_on"], 0)
                self.assertEqual(counts["graph_launches_announced"], 15 * streams)

    def test_ends_of_launches(self):
        """Broken to see it fail: launch_made left out of replace_cuGraphLaunch."""
        for way in ["lookup2", "dlsym-thread"]:
            path = self.folder / f"{way}.json"
            result = self.run_with(engine(way, "capture"),
                                   ["--history", "light", "--snapshot", path])
            self.assertEqual(result.code, 0, result.err)
            document = json.loads(path.read_text())
            kinds = [document["kinds"][row[1]] for row in document["history"]["rows"]]
            launches = result.counts[0]["graph_launches_announced"]
            self.assertGreaterEqual(launches, 15)
            self.assertEqual(kinds.count("launch"), launches)
            self.assertEqual(kinds.count("launch_over"), launches)

    def test_updated_executables(self):
        result = self.check_same(engine("lookup2", "update"))
        self.check_served(result.counts[0])
        self.assertEqual(result.counts[0]["graph_launches_announced"], 18)
        result = self.run_with(engine("lookup2", "update_inside"))
        self.assertEqual(result.code, 0, result.err)
        self.check_served(result.counts[0])
        self.assertEqual(result.counts[0]["graph_launches_announced"], 18)

    def test_captures_that_allocate_nothing(self):
        for way in ["lookup2", "dlsym-thread", "linked"]:
            result = self.check_same(engine(way, "capture_plain"))
            self.check_served(result.counts[0])
            self.assertEqual(result.counts[0]["captures_followed"], 3)

    def test_streams_that_end_in_a_capture(self):
        """Broken to see it fail: the late event in stream_last_event
        (alloc/memory/stream/stream.c)."""
        for way in ["lookup2", "dlsym-thread", "linked"]:
            result = self.check_same(engine(way, "capture_brief"))
            self.check_served(result.counts[0])
            self.assertEqual(result.counts[0]["captures_followed"], 2)

    def test_captures_into_graphs_that_are_there(self):
        """Broken to see it fail: nothing told of the end where no graph is asked for."""
        for way in ["lookup2", "dlsym-thread", "linked"]:
            result = self.check_same(engine(way, "capture_given"),
                                     environment={"TENURE_SIM_MEMORY": "256M"})
            self.check_served(result.counts[0])
            self.assertEqual(result.counts[0]["captures_followed"], 3)
            self.assertEqual(result.counts[0]["graph_launches_announced"], 3)

    def test_captures_that_end_in_every_way(self):
        """Broken to see it fail: replace_cuStreamEndCapture (graphs.c) without the look after a
        failure, stream_ends (order.c) without tnr_capture_abort, together with attached captures
        alone in tnri_captures_check; TNR_ERR_CAPTURE for every fence beside a capture (batch.c)."""
        for devices, captures in [(1, 120), (2, 240)]:
            for more in [{}, {"TENURE_SIM_RACES": 1, "TENURE_SIM_STRICT": "abort",
                              "TENURE_SIM_SCHEDULE": "random"}]:
                result = self.run_with(engine("lookup2", "capture_ends"), environment={
                    "TENURE_SIM_DEVICES": devices, "TENURE_SIM_MEMORY": "1G", **more})
                self.assertEqual(result.code, 0, result.err)
                self.assertEqual(result.messages, [])
                self.check_served(result.counts[0])
                self.assertEqual(result.counts[0]["captures_followed"], captures)
                self.assertEqual(result.counts[0]["captures_passed_on"], 0)

    def test_captures_that_begin_unseen(self):
        """Broken to see it fail: capture_over without strange_keep; freed_take that takes nothing;
        graphs_is_strange that does not attach (graphs.c)."""
        result = self.run_with(engine("lookup2", "capture_unseen"))
        self.assertEqual(result.code, 0, result.err)
        self.assertEqual(result.messages, [])
        self.check_served(result.counts[0])
        self.assertEqual(result.counts[0]["captures_passed_on"], 1)
        self.assertEqual(result.counts[0]["captures_followed"], 3)

    def test_a_newer_driver(self):
        """Functions of CUDA 12.8 to 13.3, played by a driver that says it is of CUDA 99: there a
        capture that begins unseen is followed, the first one too. Broken to see it fail:
        batch_crosses that looks at no copy, cuMemcpyWithAttributesAsync passed on (copy.c);
        boxes_told that tells nothing, or of one side alone (calls.c);
        ENTRIES_NEWEST of 99 (entries.h), and with it a recapture that is passed on (graphs.c)."""
        newer = os.environ["PRELOAD_NEWER"]
        for options in [[], ["--check"]]:
            result = self.run_with(engine("lookup2", "newer"), options, driver=newer,
                                   environment={"TENURE_SIM_DEVICES": 2})
            self.assertEqual(result.code, 0, result.err)
            self.check_served(result.counts[0])
            self.assertEqual(result.counts[0]["captures_followed"], 1)
            self.assertEqual(result.counts[0]["captures_passed_on"], 1)
        result = self.run_with(engine("lookup2", "batches"), ["--check"], driver=newer)
        self.assertEqual(result.code, 0, result.err)
        result = self.run_with(engine("lookup2", "batches_late"), ["--check"], driver=newer)
        self.assertEqual(result.code, 99, result.err)
        self.assertIn("used by cuMemcpyBatchAsync on", result.err)
        self.assertIn("finding 1: 4 times, at 4 pairs of places", result.err)
        result = self.run_with(engine("lookup2", "capture_unseen"), driver=newer)
        self.assertEqual(result.code, 0, result.err)
        self.check_served(result.counts[0])
        self.assertEqual(result.counts[0]["captures_passed_on"], 0)
        self.assertEqual(result.counts[0]["captures_followed"], 4)

    def test_captures_with_an_older_driver(self):
        """CUDA 12.2 does not tell enough of a capture: it is the driver's business."""
        result = self.check_same(engine("dlsym", "capture_plain"),
                                 environment={"TENURE_SIM_VERSION": 12020})
        self.check_served(result.counts[0])
        self.assertEqual(result.counts[0]["captures_followed"], 0)
        self.assertEqual(result.counts[0]["captures_passed_on"], 3)
        # What is recorded in such a capture says nothing of time.
        result = self.run_with(engine("dlsym", "capture_plain"), environment={
            "TENURE_SIM_VERSION": 12020, "TENURE_SIM_RACES": 1, "TENURE_SIM_STRICT": "abort",
            "TENURE_SIM_SCHEDULE": "lazy"})
        self.assertEqual(result.code, 0, result.err)


class Runtimes(PreloadTest):
    def check_runtime(self, program, kind):
        result = self.check_same([PROGRAMS / program], environment={"MOCK_RUNTIME": kind})
        self.assertEqual(result.out.count(": type 2, device 0, the address asked, not the host's"),
                         10, result.out)
        self.assertEqual(result.counts[0]["allocations_served"], 101)
        self.assertEqual(result.counts[0]["allocations_failed"], 1)
        self.assertEqual(result.counts[0]["frees_served"], 101)
        self.assertEqual(result.counts[0]["allocations_passed_on"], 0)

    def test_shared(self):
        self.check_runtime("preload_runtime_shared", "new")

    def test_shared_and_old(self):
        self.check_runtime("preload_runtime_shared", "old")

    def test_static(self):
        self.check_runtime("preload_runtime_static", "new")

    def test_static_and_old(self):
        self.check_runtime("preload_runtime_static", "old")


class Symbols(PreloadTest):
    def test_without_a_driver(self):
        result = self.check_same([PROGRAMS / "preload_symbols"])
        self.assertNotIn("WRONG", result.out)
        self.assertEqual(result.counts, [], "a process without a driver says nothing")

    def test_with_a_driver(self):
        result = self.check_same([PROGRAMS / "preload_symbols_linked", "driver"])
        self.assertNotIn("WRONG", result.out)

    def test_versions_that_are_newer_than_the_library(self):
        """What takes arguments that are not known yet is never taken for what does not."""
        command, driver = [PROGRAMS / "preload_versions"], os.environ["PRELOAD_NEWER"]
        result = self.run_with(command, driver=driver)
        self.assertEqual(result.out, "3020: libtenure_preload.so\n13000: libtenure_preload.so\n"
                                     "99000: libcuda.so.1\nfreed\n")
        # It is named, once; frees go by the pointer, whichever version has handed it out.
        counts = result.counts[0]
        self.assertEqual(counts["newer_entry_points"], ["cuMemAlloc 99.0"])
        self.assertEqual((counts["allocations_served"], counts["frees_served"],
                          counts["frees_passed_on"], counts["live_blocks"]), (1, 1, 1, 0))
        said = self.run_program([TENURE, "run", "--stats", "--", *command], driver=driver).err
        self.assertIn("newer than this Tenure, and passed on to the driver: cuMemAlloc (CUDA 99.0)",
                      said)
        for driver, named in ((driver, ["cuMemAlloc"]), (DRIVER, [])):
            told = self.run_program([TENURE, "doctor", "--json"], driver=driver)
            self.assertEqual(json.loads(told.out)["newer_entry_points"], named)
            said = self.run_program([TENURE, "doctor"], driver=driver).out
            self.assertEqual("newer functions" in said, bool(named), said)
            self.assertEqual("    cuMemAlloc\n" in said, bool(named), said)


if __name__ == "__main__":
    unittest.main()
