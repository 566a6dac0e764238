# SPDX-License-Identifier: Apache-2.0
"""A plug-in for pytest: what vLLM's package device_allocator, and its tests, take from the rest of
vLLM. `vllm` is a package that finds its modules in VLLM_SOURCES, without running any __init__ of
vLLM's but device_allocator's; what is named here comes first. Each test runs in a process of its
own, where Tenure's plug-in is registered first, as vLLM does it.
"""
import functools
import logging
import os
import sys
import traceback
import types

import pytest

SOURCES = os.environ["VLLM_SOURCES"]
SKIPPED = 77


class NeedsModel(Exception):
    """The test would load a model."""


def needs_model(*_arguments, **_options):
    raise NeedsModel


def package(name):
    """Where vLLM has a package, without what its __init__ does."""
    made = types.ModuleType(name)
    made.__path__ = [os.path.join(SOURCES, *name.split("."))]
    sys.modules[name] = made
    return made


def module(name, **contents):
    made = types.ModuleType(name)
    vars(made).update(contents)
    sys.modules[name] = made
    parent, _, own = name.rpartition(".")
    setattr(sys.modules[parent], own, made)


class Cuda:
    """vllm.platforms.current_platform."""

    device_type = "cuda"

    def __getattr__(self, name):
        if name.startswith("is_"):
            return lambda: name in ("is_cuda", "is_cuda_alike", "is_pin_memory_available")
        raise AttributeError(name)

    def graph_pool_handle(self):
        import torch

        return torch.cuda.graph_pool_handle()


class Environment(types.ModuleType):
    """vllm.envs: nothing is set."""

    def __getattr__(self, name):
        if name.startswith("VLLM_"):
            return False
        raise AttributeError(name)


def stand_in():
    package("vllm").__dict__.update(LLM=needs_model, SamplingParams=needs_model)
    for name in ("vllm.v1", "vllm.v1.worker", "vllm.compilation", "vllm.distributed",
                 "vllm.distributed.device_communicators"):
        package(name)
    gib = 1 << 30
    package("vllm.utils").__dict__.update(GiB_bytes=gib, is_pin_memory_available=lambda: True)
    sys.modules["vllm.envs"] = sys.modules["vllm"].envs = Environment("vllm.envs")
    module("vllm.logger", init_logger=logging.getLogger)
    module("vllm.config", VllmConfig=object)
    module("vllm.platforms", current_platform=Cuda())
    module("vllm.utils.mem_constants", GiB_bytes=gib)
    module("vllm.utils.platform_utils", is_pin_memory_available=lambda: True)
    module("vllm.utils.torch_utils", PIN_MEMORY=True)
    module("vllm.utils.system_utils", find_loaded_library=lambda _name: None)
    module("vllm.utils.math_utils", round_up=lambda number, to: -(-number // to) * to)
    module("vllm.v1.worker.ubatching", dbo_current_ubatch_id=lambda: 0)
    module("vllm.distributed.device_communicators.pynccl_allocator", _graph_pool_id=None)
    nccl = sys.modules["vllm.distributed.device_communicators.pynccl_allocator"]
    nccl.set_graph_pool_id = functools.partial(setattr, nccl, "_graph_pool_id")


def in_child(test, arguments, options):
    """The exit code of the process that runs the test."""
    try:
        import tenure.vllm

        tenure.vllm.register()
        test(*arguments, **options)
    except NeedsModel:
        return SKIPPED
    except BaseException:  # pylint: disable=broad-except
        traceback.print_exc()
        return 1
    return 0


def create_new_process_for_each_test(*_way):
    def decorate(test):
        @functools.wraps(test)
        def run(*arguments, **options):
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                code = in_child(test, arguments, options)
                sys.stderr.flush()
                os._exit(code)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if code == SKIPPED:
                pytest.skip("loads a model")
            assert code == 0, f"the test's process ended with {code}"

        return run

    return decorate


stand_in()
