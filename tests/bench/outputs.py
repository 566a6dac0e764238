#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""outputs.py [--update]: the numbers of pages that come from what one script printed.

The output of a run is kept as it came, under docs/benchmarks, behind a comment that says how it
was got; long lines are folded, with six blanks. Between its marks the page shows the numbers:

    docs/host.md      host.txt     tests/gpu/host.sh, on a GPU
    docs/host.md      pinned.txt   tests/gpu/host.sh pinned, on a GPU
    docs/serving.md   serving.txt  tests/gpu/serving.sh, on a GPU
    docs/serving.md   memory_saver.txt, vllm.txt   tests/gpu/memory_saver.sh, vllm.sh, on a GPU
    docs/elastic.md   cgroup.txt   test_unit_cgroup measure N, on the simulated device
    docs/elastic.md   soft_limit.txt   tests/gpu/soft_limit.sh, on a GPU
    docs/found.md     offloaded_cache.txt   tests/gpu/check_python/offloaded_cache.py, on a GPU

--update writes the pages. Exit codes: 0 they agree; 1 they do not.

Seen to fail with 26.3 changed to 20.3 in elastic.md and with 57 changed to 58 in serving.txt.
"""
import argparse
import pathlib
import re
import sys
import textwrap

from page import table

ROOT = pathlib.Path(__file__).resolve().parents[2]


def unfolded(text):
    return re.sub(r"\n(# {5}| {6})(?=\S)", " ", text)


def found(pattern, text):
    """The numbers of the first match."""
    match = re.search(pattern, text)
    if match is None:
        raise ValueError(f"there is no \"{pattern}\" in the output")
    return match.groups()


def host_part(text, source):
    head, *parts = text.split("== host:")
    mapped, slabs = (dict([part.split("\n", 1)]) for part in parts)
    kinds = [*mapped.values(), *slabs.values()]
    if [*mapped, *slabs] != ["mapped", "allocated"]:
        raise ValueError("the output is not of both kinds of memory, mapped and allocated")

    def row(what, pattern, form, driver=lambda values: ""):
        values = [found(pattern, kind) for kind in kinds]
        return [what, *(form.format(*value) for value in values), driver(values)]

    def between(index):
        return lambda values: " to ".join(f"{float(one):,.1f}" for one in
                                          sorted({value[index] for value in values}, key=float))
    rows = [
        row("pinning a GiB, then touching it, seconds",
            r"first: ([\d.]+) s for each GiB, and ([\d.]+) to touch it", "{}, {}"),
        row("a cached malloc and free, ns", r"pair: ([\d.]+) ns", "{}"),
        row("3 MiB and its free, us",
            r"block: 3 MiB and its free ([\d.]+) us; .* ([\d.]+) us", "{}", between(1)),
        row("copies in, GB/s", r"copy: in ([\d.]+) GB/s beside ([\d.]+)", "{}", between(1)),
        row("copies out, GB/s", r"out ([\d.]+) GB/s beside ([\d.]+)", "{}", between(1)),
        row("reserved, of what is live at the peak: blocks of 4 KiB to 8 MiB that come and go",
            r"offload: ([\d.]+) times", "{}"),
        row("reserved, of what eight threads ask for", r"layers: 8 threads reserve ([\d.]+) times",
            "{}"),
    ]
    return table(["", "mapped", "allocated", "cuMemHostAlloc"], rows) + "\n" + origin(head, source)


def pinned_part(text, source):
    """The table as it was printed: a line for each row, and a column of numbers for each make."""
    names = ["PyTorch's own", "the driver's pool", "mapped", "allocated"]
    head, lines = found(r"\n( +torch +pool +mapped +slabs)\n((?:.+\n)+)", text)
    ends = [match.end() for match in re.finditer(r"\S+", head)]
    begin = 2 * ends[0] - ends[1]  # of the first column: all are as wide
    rows = [[line[:begin].strip(), *(line[a:b].strip() for a, b in zip([begin, *ends], ends))]
            for line in lines.splitlines() if not line.startswith("its result")]
    return table(["", *names], rows) + "\n" + origin(text, source)


def serving_part(text, source):
    rows, slept = [], []
    together = found(r"tokens/s, tenure .* batch (\d+)", text)[0]
    for name, shown in (("native", "PyTorch's own"), ("expandable", "expandable segments"),
                        ("tenure", "Tenure")):
        batch, reserved, live = found(rf"largest batch, {name} +(\d+) +peaks: "
                                      r"reserved ([\d.]+) GB, live ([\d.]+) GB", text)
        rows.append([shown, batch, *(f"{float(one) * 1e9 / (1 << 30):.2f}"
                                     for one in (reserved, live)),
                     *found(rf"tokens/s, {name} +(\d+)", text)])
    for what, shown in (("first", "the first time"), ("again", "once more"),
                        ("cache dropped", "the cache's contents dropped")):
        held = float(found(rf"{what}: Tenure asleep +([\d.]+) GB", text)[0]) * 1e9 / (1 << 20)
        slept.append([shown, f"{held:.0f}", *(found(rf"{what}: {verb}, s for each GB +[\d.]+ +"
                                                    r"([\d.]+) s", text)[0]
                                              for verb in ("sleep", "wake"))])
    return (table(["allocator", "largest batch", "reserved then, GiB", "live, GiB",
                   f"tokens/s, {together} at once"], rows) + "\n" +
            table(["Tenure asleep in the middle of requests", "it holds, MiB", "sleep, s",
                   "wake, s"], slept) + "\n" + origin(text, source))


def tests_part(text, source):
    """What pytest -rA says in the end."""
    counts = {verdict: int(count) for count, verdict in
              re.findall(r"\b(\d+) (passed|failed|skipped)\b", text.rsplit("\n", 2)[-2])}
    named = re.findall(r"^FAILED \S*::(\S+)", text, re.MULTILINE)
    skipped = {}
    for count, why in re.findall(r"^SKIPPED \[(\d+)\] \S+ (.*)$", text, re.MULTILINE):
        skipped[why] = skipped.get(why, 0) + int(count)
    if ("passed" not in counts or len(named) != counts.get("failed", 0) or
            sum(skipped.values()) != counts.get("skipped", 0)):
        raise ValueError("the summary is not there, or names other tests than it counts")
    rows = [["passed", str(counts["passed"]), ""],
            ["failed", str(len(named)), ", ".join(f"`{name}`" for name in named)],
            ["skipped", str(sum(skipped.values())),
             ", ".join(f"{count}: {why}" for why, count in skipped.items())]]
    return table(["tests", "number", "which"], rows) + "\n" + origin(text, source)


def falls_said(mib, count, median, most95, most):
    return textwrap.fill(
        f"A soft limit fell by {mib} MiB {count} times. The group was under it after {median} ms "
        f"in the median, {most95} ms in 95 of 100, and {most} ms at most.", 100) + "\n\n"


def soft_limit_part(text, source):
    count, mib, *times = found(
        r"(\d+) falls by (\d+) MiB: under the limit after ([\d.]+) ms in the median, "
        r"([\d.]+) in 95 of 100, ([\d.]+) at most", text)
    return falls_said(mib, count, *times) + origin(text, source)


def offloaded_part(text, source):
    """A row for each way, in the order of the output: runs, and how many results differ."""
    ways = {}
    for way, wrong, count in re.findall(r"^([^#\n:]+): transformers .*: (\d+) of (\d+) results",
                                        text, re.MULTILINE):
        ways.setdefault((way, count), []).append(int(wrong))
    if not ways:
        raise ValueError("there is no result in the output")
    rows = [[way, str(len(wrong)), str(min(wrong)), str(max(wrong)), count]
            for (way, count), wrong in ways.items()]
    return (table(["way", "runs", "results that differ, least", "most", "of"], rows) + "\n" +
            origin(text, source))


def cgroup_part(text, source):
    count, mib, median, most95, most = found(
        r"(\d+) falls of a soft limit by (\d+) MiB: under it after ([\d.]+) ms in the median, "
        r"([\d.]+) in 95 of 100, ([\d.]+) at most", text)
    return falls_said(mib, count, median, most95, most) + origin(text, source)


def origin(text, source):
    comment = text.splitlines()[0]
    if not comment.startswith("# "):
        raise ValueError("the first line does not say how the output was got")
    return textwrap.fill(f"{comment[2:]} ([output](benchmarks/{source})).", 100) + "\n"


PARTS = {"host": ("docs/host.md", "host.txt", host_part),
         "pinned": ("docs/host.md", "pinned.txt", pinned_part),
         "serving": ("docs/serving.md", "serving.txt", serving_part),
         "memory_saver": ("docs/serving.md", "memory_saver.txt", tests_part),
         "vllm": ("docs/serving.md", "vllm.txt", tests_part),
         "cgroup": ("docs/elastic.md", "cgroup.txt", cgroup_part),
         "soft_limit": ("docs/elastic.md", "soft_limit.txt", soft_limit_part),
         "offloaded": ("docs/found.md", "offloaded_cache.txt", offloaded_part)}


def page_check(name, text, output, update):
    """(what is wrong, the page as it should be)."""
    page, source, part = PARTS[name]
    begin, end = f"<!-- begin: {name} -->\n", f"<!-- end: {name} -->\n"
    if text.count(begin) != 1 or text.count(end) != 1:
        return [f"{page}: has not one part between the marks of \"{name}\""], text
    try:
        inside = part(output, source)
    except ValueError as error:
        return [f"docs/benchmarks/{source}: {error}"], text
    head, rest = text.split(begin)
    right = head + begin + inside + end + rest.split(end)[1]
    wrong = text != right and not update
    return [f"{page}: does not show {source}; outputs.py --update writes it"] * wrong, right


def self_check(outputs, pages):
    """A number changed in an output, or on a page, is found; so is an output cut short."""
    wrong = []
    for name, (page, source, _) in PARTS.items():
        output, text = outputs[name], pages[name]
        digit = re.search(r"\d(?= ms| GB| of \d+ results| passed| GiB, s)", output).start()
        other = output[:digit] + str((int(output[digit]) + 5) % 10) + output[digit + 1:]
        first = output.split("\n", 1)[0]
        for what, changed in (("a number", other), ("no head", output[len(first):]),
                              ("only a head", first + "\n")):
            if not page_check(name, text, changed, False)[0]:
                wrong.append(f"self: {source} with {what} is not found on {page}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    wrong, outputs, pages = [], {}, {}
    for name, (page, source, _) in PARTS.items():
        path = ROOT / page
        outputs[name] = unfolded((ROOT / "docs/benchmarks" / source).read_text("utf-8"))
        more, pages[name] = page_check(name, path.read_text("utf-8"), outputs[name],
                                       options.update)
        wrong += more
        if options.update:
            path.write_text(pages[name], "utf-8")
    wrong += self_check(outputs, pages)
    print("\n".join(wrong) or "the pages show the outputs as they are")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
