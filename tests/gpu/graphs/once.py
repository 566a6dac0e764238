# SPDX-License-Identifier: Apache-2.0
"""once.py EXPERIMENT CASE: what is done once, and is right or not. experiments.py calls it."""
import gc
import sys
import threading

from common import ALLOCATOR, captured, reserved_mib, row, stage, start, torch

REPLAYS = 100
SHAPE = (4, 128, 512)


def inputs():
    return torch.randn(SHAPE, device="cuda", dtype=torch.bfloat16)


def replayed():
    """A stage captured and replayed with new inputs, while eager work allocates in between."""
    model, given = stage(2), inputs()
    graph, result = captured(lambda: model(given))
    equal = 0
    for _ in range(REPLAYS):
        new = inputs()
        wanted = model(new)                 # eager; its memory is freed and used again
        given.copy_(new)
        graph.replay()
        equal += torch.equal(result, wanted)
    row("replayed", "", equal == REPLAYS, f"{equal} of {REPLAYS} bit-equal")


def counted():
    """What the allocator and the driver are asked for while a graph is replayed."""
    model, given = stage(2), inputs()
    graph, _ = captured(lambda: model(given))
    graph.replay()
    torch.cuda.synchronize()
    before = counts()
    for _ in range(REPLAYS):
        graph.replay()
    torch.cuda.synchronize()
    allocations, segments, calls = (after - was for after, was in zip(counts(), before))
    said = f"{allocations} allocations, {segments} segments"
    if ALLOCATOR == "tenure":
        said += f", {calls} calls of the driver for memory"
    row("counted", "", allocations == segments == calls == 0, f"{said} in {REPLAYS} replays")


def counts():
    stats = torch.cuda.memory_stats()
    calls = 0
    if ALLOCATOR == "tenure":
        import tenure
        calls = sum(value for key, value in tenure.stats().items()
                    if key.startswith("driver_calls.") and key.split(".")[1] in
                    ("create", "release", "map", "access", "unmap"))
    return stats["allocation.all.allocated"], stats["segment.all.allocated"], calls


def forked():
    """A compute and a copy stream that fork and join inside a capture."""
    weight = torch.randn(512, 512, device="cuda", dtype=torch.bfloat16)
    given, side = inputs(), torch.cuda.Stream()
    source = torch.empty(SHAPE, dtype=torch.bfloat16, pin_memory=True)
    target = torch.empty(SHAPE, dtype=torch.bfloat16, pin_memory=True)

    def body():
        main = torch.cuda.current_stream()
        doubled = given * 2
        side.wait_stream(main)
        with torch.cuda.stream(side):
            fetched = torch.empty_like(given).copy_(source, non_blocking=True)
            target.copy_(doubled, non_blocking=True)
        product = given @ weight
        main.wait_stream(side)
        doubled.record_stream(side)
        fetched.record_stream(main)
        return product + fetched

    graph, result = captured(body)
    equal = 0
    for _ in range(REPLAYS):
        new = inputs()
        source.copy_(torch.randn(SHAPE))
        given.copy_(new)
        graph.replay()
        wanted = new @ weight + source.cuda()
        torch.cuda.synchronize()
        equal += torch.equal(result, wanted) and torch.equal(target, (new * 2).cpu())
    row("forked", "", equal == REPLAYS, f"{equal} of {REPLAYS} bit-equal")


def dying():
    """A tensor that the graph reads is dropped after the capture, and others take memory."""
    given = inputs()
    offset = torch.full(SHAPE, 3.0, device="cuda", dtype=torch.bfloat16)
    graph, result = captured(lambda: given + offset)
    del offset
    gc.collect()
    others = [torch.full(SHAPE, 9.0, device="cuda", dtype=torch.bfloat16) for _ in range(64)]
    graph.replay()
    good = torch.equal(result, given + 3.0)
    del others
    # With PyTorch's own allocator the program must keep the tensor: nothing is wrong with it.
    row("dying", "", good or ALLOCATOR != "tenure",
        "the replay reads the tensor" if good else "the replay reads another tensor's values")


# ---- what breaks a capture ----------------------------------------------------------------------

def elsewhere(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def unjoined(x):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        return x + 1


BREAKERS = {
    "item": lambda x: x.sum().item(),
    "nonzero": lambda x: x.nonzero(),
    "synchronize": lambda x: torch.cuda.synchronize(),
    "pageable": lambda x: torch.ones(1 << 20).to("cuda", non_blocking=True),
    "unjoined": unjoined,
    "thread_synchronize": lambda x: elsewhere(torch.cuda.synchronize),
    "thread_allocates": lambda x: elsewhere(lambda: torch.ones(1 << 26, device="cuda")),
    "empty_cache": lambda x: torch.cuda.empty_cache(),
}


def tried(body):
    """What became of a capture of `body`: an empty text if it was captured."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            body()
    except Exception as error:  # any kind: the text is the result
        while error.__context__ is not None:
            error = error.__context__
        return str(error).strip().splitlines()[0][:90] or type(error).__name__
    return ""


def broken(name):
    x = torch.ones(1 << 20, device="cuda")
    x.sum().item(), x.nonzero()             # what these load is not counted
    del_all()
    held = reserved_mib()

    def body():
        held_inside = x * 2                 # memory of the capture
        return held_inside, BREAKERS[name](x)

    said = tried(body)
    del_all()
    kept = reserved_mib() - held
    again = tried(lambda: x * 3)
    works = torch.equal(x * 2, torch.full_like(x, 2.0))
    result = f"breaks it: {said}" if said else "is captured"
    if said:
        result += f"; {kept} MiB kept after it"
    if again or not works:
        result += f"; after it nothing works: {again or 'wrong values'}"
    row("breaks", name, not again and works, result)


def del_all():
    gc.collect()
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        pass                                # the error of the capture, told once more
    torch.cuda.empty_cache()


ONCE = {"replayed": replayed, "counted": counted, "forked": forked, "dying": dying}

if __name__ == "__main__":
    start()
    with torch.no_grad():
        if sys.argv[1] == "breaks":
            broken(sys.argv[2])
        else:
            ONCE[sys.argv[1]]()
