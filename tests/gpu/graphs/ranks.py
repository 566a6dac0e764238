# SPDX-License-Identifier: Apache-2.0
"""ranks.py ranks KIND: two processes with a GPU each. experiments.py calls it.

regions: two graphs on each rank and an eager all_reduce between them. nccl: one graph with the
all_reduce inside. failing: rank 1's capture fails in the middle; the ranks tell each other before
anything is replayed, both drop their graphs, go on eagerly, and capture again. That is tried with
NCCL's buffers of captures registered (failing_registered, NCCL's default), which the ranks do
together, and not registered (failing).
"""
import ctypes
import datetime
import os
import socket
import subprocess
import sys

from common import captured, row, skip, stage, start, torch

STEPS, SHAPE = 50, (4, 128, 512)


def inputs():
    """Not drawn on the GPU: after a capture that failed its generator draws no more."""
    return torch.randn(SHAPE, dtype=torch.bfloat16).cuda()


class Work:
    """A step of two stages with an all_reduce between them; eager, it says what is right."""

    def __init__(self):
        import torch.distributed as dist
        self.dist, self.rank = dist, dist.get_rank()
        self.first, self.second, self.given = stage(1), stage(1), inputs()
        self.told = dist.new_group(backend="gloo")

    def eager(self, x):
        middle = self.first(x)
        self.dist.all_reduce(middle)
        return self.second(middle)

    def whole(self, warm_up=3, fails=False):
        """One graph, with the collective inside. NCCL's own thread asks for events meanwhile."""
        def body():
            middle = self.first(self.given)
            if fails:
                middle.sum().item()             # breaks the capture
            self.dist.all_reduce(middle)
            return self.second(middle)
        return captured(body, warm_up=warm_up, capture_error_mode="thread_local")

    def compare(self, replay):
        equal = 0
        for _ in range(STEPS):
            new = inputs()
            wanted = self.eager(new)
            self.given.copy_(new)
            equal += torch.equal(replay(), wanted)
        return equal

    def all_good(self, good):
        """Whether all ranks say so: by way of the host, not of a graph."""
        flag = torch.tensor([int(good)])
        self.dist.all_reduce(flag, op=self.dist.ReduceOp.MIN, group=self.told)
        return bool(flag.item())


def regions(work):
    first, middle = captured(lambda: work.first(work.given))
    second, result = captured(lambda: work.second(middle))

    def replay():
        first.replay()
        work.dist.all_reduce(middle)
        second.replay()
        return result
    return work.compare(replay), ""


def nccl(work):
    graph, result = work.whole()

    def replay():
        graph.replay()
        return result
    return work.compare(replay), ""


def failing(work):
    work.eager(inputs())
    graph = None
    try:
        # Each warm-up is a collective, which all ranks must take part in: none from here on.
        graph, _ = work.whole(warm_up=0, fails=work.rank == 1)
    except Exception as error:      # of any kind; on rank 1 it is wanted
        print(f"rank {work.rank}: {error}", file=sys.stderr)
    if work.all_good(graph is not None):
        return 0, "the capture did not fail"
    del graph
    torch.cuda.synchronize()
    work.eager(inputs())
    equal, _ = nccl(work)
    return equal, "all ranks dropped their graphs, went on eagerly and captured again: "


KINDS = {"regions": regions, "nccl": nccl, "failing": failing, "failing_registered": failing}


def rank_main(kind):
    import torch.distributed as dist
    rank = int(os.environ["RANK"])
    start()
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=60),
                            device_id=torch.device("cuda", rank))
    with torch.no_grad():
        work = Work()
        equal, said = KINDS[kind](work)
        good = work.all_good(equal == STEPS)
    torch.cuda.synchronize()
    if rank == 0:
        row("ranks", kind, good, f"{said}{equal} of {STEPS} bit-equal")
    sys.stdout.flush()
    os._exit(0)     # graphs with collectives outlive their communicator otherwise


def main():
    if "RANK" in os.environ:
        return rank_main(sys.argv[2])
    if torch.cuda.device_count() < 2:
        skip("needs two GPUs")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    more = {"NCCL_GRAPH_REGISTER": "0"} if sys.argv[2] == "failing" else {}
    ranks = [subprocess.Popen(
        [sys.executable, "-B", __file__, *sys.argv[1:]],
        env={**os.environ, **more, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank),
             "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
        preexec_fn=lambda: ctypes.CDLL(None).prctl(1, 9)) for rank in range(2)]  # die with this
    codes = [None, None]
    try:
        codes = [rank.wait(40) for rank in ranks]
    except subprocess.TimeoutExpired:
        pass
    for rank in ranks:
        rank.kill()
    if None in codes and sys.argv[2] == "failing_registered":
        skip("the ranks wait for each other")
    if None in codes:
        print("the ranks waited for each other for 40 s", file=sys.stderr)
    return 0 if codes == [0, 0] else 1


if __name__ == "__main__":
    sys.exit(main())
