"""TensorBoard's event files: written at once, by no thread, so that a full disk neither stops a run nor is missed."""

import os
import secrets
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memjax.errors import remark
from memjax.files import open_own, own_folder


class Events:
    """The scalars of one phase, in a new event file of `folder/tensorboard/phase`.

    They stand in the run's metrics, too: on the first error of the file system no more is written here, which a remark
    says, and the run goes on.

    Args:
        folder: of the run.
        phase: its name.

    Raises:
        MemjaxError: where one of the folders is a link.
    """

    def __init__(self, folder: Path, phase: str):
        # Imported here: protobuf is slow to load, and evaluation does not need it.
        from tensorboardX.proto.event_pb2 import Event

        self._place, self._file = folder / "tensorboard", -1
        try:
            # TensorBoard reads the files of a folder in the order of their names.
            name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{secrets.token_hex(4)}"
            self._file = open_own(own_folder(folder, "tensorboard", phase) / name, os.O_WRONLY | os.O_EXCL)
        except OSError as error:
            self._give_up(error)
        self._append(Event(wall_time=time.time(), file_version="brain.Event:2"))

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        """Appends an event with a value for each name."""
        if self._file < 0 or not scalars:
            return
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.summary import scalar

        event = Event(wall_time=time.time(), step=step)
        for name, value in scalars.items():
            event.summary.MergeFrom(scalar(name, value))
        self._append(event)

    def close(self) -> None:
        """Closes the file."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _append(self, event: Any) -> None:
        """A record: the length of the event and its checksum, the event and its checksum."""
        from tensorboardX.record_writer import masked_crc32c

        if self._file < 0:
            return
        data = event.SerializeToString()
        length = struct.pack("<Q", len(data))
        record = length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))
        try:
            while record:
                record = record[os.write(self._file, record) :]
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        remark(f"cannot write to {self._place} ({error.strerror}); the run goes on without TensorBoard's files")
        self.close()
