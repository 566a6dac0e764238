# SPDX-License-Identifier: Apache-2.0
"""A stand-in for cuda.core: memory resources, buffers and streams, on the simulated device."""
import abc
import types

import everyday

state = types.SimpleNamespace(refuses_buffers=False, keeps_streams=False)


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
    def from_handle(cls, ptr, size, mr=None, **words):
        """Today's keeps the stream that orders the end, and gives memory back that it refuses."""
        if words and not state.keeps_streams:
            raise TypeError("from_handle() got an unexpected keyword argument 'stream'")
        stream = words.get("stream")
        if stream is not None and not isinstance(stream, Stream):
            raise TypeError("no stream of cuda.core's")
        if state.refuses_buffers:
            if state.keeps_streams:
                mr.deallocate(ptr, size, stream=stream)
            raise MemoryError("no host memory")
        buffer = cls()
        buffer.stream = (stream or Stream(0)) if state.keeps_streams else None
        buffer.handle, buffer.size, buffer.memory_resource = ptr, size, mr
        return buffer

    def close(self, stream=None):
        if self.handle and self.memory_resource:
            self.memory_resource.deallocate(self.handle, self.size, stream=stream or self.stream)
        self.handle = 0

    def __del__(self):
        self.close()


class Stream:
    def __init__(self, handle=None):
        self.handle = everyday.made("cuStreamCreate", 1) if handle is None else handle

    def __cuda_stream__(self):
        return 0, self.handle
