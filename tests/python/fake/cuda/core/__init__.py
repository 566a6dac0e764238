# SPDX-License-Identifier: Apache-2.0
"""A stand-in for cuda.core: memory resources, buffers and streams, on the simulated device."""
import abc
import types

import everyday

state = types.SimpleNamespace(refuses_buffers=False)


class MemoryResource(abc.ABC):
    @abc.abstractmethod
    def allocate(self, size, *, stream):
        """A buffer."""

    @abc.abstractmethod
    def deallocate(self, ptr, size, *, stream):
        """Its end."""

    @property
    @abc.abstractmethod
    def is_device_accessible(self):
        """Whether it is."""

    @property
    @abc.abstractmethod
    def is_host_accessible(self):
        """Whether it is."""

    @property
    @abc.abstractmethod
    def device_id(self):
        """Its number."""


class Buffer:
    @classmethod
    def from_handle(cls, ptr, size, mr=None):
        if state.refuses_buffers:
            raise MemoryError("no host memory")
        buffer = cls()
        buffer.handle, buffer.size, buffer.memory_resource = ptr, size, mr
        return buffer

    def close(self, stream=None):
        if self.handle and self.memory_resource:
            self.memory_resource.deallocate(self.handle, self.size, stream=stream)
        self.handle = 0

    def __del__(self):
        self.close()


class Stream:
    def __init__(self):
        self.handle = everyday.made("cuStreamCreate", 1)

    def __cuda_stream__(self):
        return 0, self.handle
