"""Worker processes that do not import the program they work for.

Python's spawn runs the parent's main script again in every child. A script that opens a database
at its top level, without `if __name__ == "__main__"`, would then start itself in each worker. Our
workers are given importable functions only, so they need no main module; multiprocessing has no
switch for that, hence a process class of our own. It is ended by SIGKILL only: a worker holds
nothing that an orderly end would save, and it ignores SIGTERM.
"""

from __future__ import annotations

import io
import os
from multiprocessing import context, popen_spawn_posix, reduction, resource_tracker, spawn, util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class _Popen(popen_spawn_posix.Popen):
    """Starts the interpreter with the preparation data less the main module."""

    #: Descriptors that the child inherits; filled by the base class while it serialises.
    _fds: list[int]

    def _launch(self, process_obj: Any) -> None:
        tracker = resource_tracker.getfd()
        self._fds.extend([] if tracker is None else [tracker])
        data = self._serialised(process_obj)
        from_child, to_parent = os.pipe()
        from_parent, to_child = os.pipe()
        try:
            command = spawn.get_command_line(tracker_fd=tracker, pipe_handle=from_parent)
            self._fds.extend([from_parent, to_parent])
            self.pid = util.spawnv_passfds(os.fsencode(spawn.get_executable()), command, self._fds)
            self.sentinel = from_child
            with open(to_child, "wb", closefd=False) as pipe:
                pipe.write(data)
        finally:
            self.finalizer = util.Finalize(self, _close, [from_child, to_child])
            os.close(from_parent)
            os.close(to_parent)

    def _serialised(self, process_obj: Any) -> memoryview:
        prepared = spawn.get_preparation_data(process_obj.name)
        for key in ("init_main_from_name", "init_main_from_path"):
            prepared.pop(key, None)
        buffer = io.BytesIO()
        context.set_spawning_popen(self)
        try:
            reduction.dump(prepared, buffer)
            reduction.dump(process_obj, buffer)
        finally:
            context.set_spawning_popen(None)
        return buffer.getbuffer()


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class WorkerProcess(context.SpawnProcess):
    """A spawned process without the parent's main module, ended by SIGKILL."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        return _Popen(process_obj)

    def terminate(self) -> None:
        """End the process at once."""
        self.kill()


class WorkerContext(context.SpawnContext):
    """The spawn context whose processes are `WorkerProcess`, reported as they are made."""

    def __init__(self, made: Callable[[WorkerProcess], None]) -> None:
        super().__init__()
        self._made = made

    def Process(self, *args: Any, **kwargs: Any) -> WorkerProcess:  # type: ignore[override]
        """A new worker process, not yet started."""
        process = WorkerProcess(*args, **kwargs)
        self._made(process)
        return process
