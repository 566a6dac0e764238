# SPDX-License-Identifier: Apache-2.0
"""Which requests run: continuous batching over the pages of a cache. Needs no PyTorch.

A request waits until a place in the batch and pages for all its tokens are free. It then runs until
it has its tokens, and its place and its pages are the next one's. Page 0 is no request's: rows that
only fill a graph's batch write there.
"""
import random

# Batch sizes with a captured graph: 40.
GRAPH_SIZES = [*range(1, 17), *range(18, 65, 2)]


class Request:
    def __init__(self, prompt, count):
        self.prompt, self.count = prompt, count
        self.tokens, self.values, self.pages = [], [], []

    def position(self):
        """Of the newest token, which is not in the cache yet."""
        return len(self.prompt) + len(self.tokens) - 1

    def pages_needed(self, page):
        return -(-(len(self.prompt) + self.count) // page)


def requests_drawn(count, seed, vocabulary, context, outputs):
    """Prompts of all lengths up to half of the context, which no request exceeds."""
    draw, requests = random.Random(seed), []
    for _ in range(count):
        prompt = [draw.randrange(vocabulary) for _ in range(draw.randint(16, context // 2))]
        requests.append(Request(prompt, min(draw.randint(*outputs), context - len(prompt))))
    return requests


class Schedule:
    def __init__(self, batch, pages, page, budget):
        """At most `batch` requests at once, and `budget` tokens of prompts in one prefill."""
        self.batch, self.page, self.budget = batch, page, budget
        self.pages = pages + 1
        self.free = list(range(pages, 0, -1))
        self.waiting, self.running = [], []
        self.has_changed = True

    def is_busy(self):
        return bool(self.waiting or self.running)

    def admit(self):
        """Those that begin now, with their pages."""
        admitted, tokens = [], 0
        while self.waiting and len(self.running) < self.batch:
            request = self.waiting[0]
            needed = request.pages_needed(self.page)
            tokens += len(request.prompt)
            if needed > len(self.free) or (admitted and tokens > self.budget):
                break
            self.waiting.pop(0)
            request.pages = [self.free.pop() for _ in range(needed)]
            self.running.append(request)
            admitted.append(request)
        self.has_changed = self.has_changed or bool(admitted)
        return admitted

    def take(self, requests, tokens, values):
        """A token for each of them; those that have all of theirs end."""
        for request, token, value in zip(requests, tokens, values):
            request.tokens.append(token)
            request.values.append(value)
            if len(request.tokens) == request.count:
                self.running.remove(request)
                self.free += reversed(request.pages)
                self.has_changed = True
