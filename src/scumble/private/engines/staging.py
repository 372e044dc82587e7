"""A private folder for files that processes leave for each other, removed whatever happens."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType

from scumble.model.errors import ScumbleError

_SECONDS = 5  # that the end of the `with` block may take
_PATIENCE = 60  # seconds in which tasks that nobody waits for may still write
# Runs in a process of its own, with the folder as its argument. Its input ends when this process
# does, also by kill -9. Tasks of a cluster end a little later, and may write until then.
_REMOVES = f"""
import shutil, sys, time, os
sys.stdin.buffer.read()
end = time.monotonic() + {_PATIENCE}
while os.path.exists(sys.argv[1]) and time.monotonic() < end:
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    time.sleep(0.2)
"""


class StagingFolder:
    """A folder that only its owner may read, made when it is first used.

    It is removed at the end of the `with` block. If this process is killed before, another one,
    which is started with the folder, removes it. If the machine stops, it stays.
    """

    def __init__(self, place: Path | None = None) -> None:
        self._place = place
        self._folder: Path | None = None
        self._watching: subprocess.Popen[bytes] | None = None

    @property
    def path(self) -> Path:
        """The folder."""
        if self._folder is None:
            try:
                folder = Path(tempfile.mkdtemp(prefix="scumble-staging-", dir=self._place))
            except OSError as error:
                reason = error.strerror or "the system gave no reason"
            else:
                self._folder = folder.absolute()
                self._watching = _watch(self._folder)
                return self._folder
            raise ScumbleError(f"No folder can be made in '{self._place}': {reason}.")
        return self._folder

    def __enter__(self) -> StagingFolder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder, if there is one."""
        folder, self._folder = self._folder, None
        if folder is None or self._watching is None:
            return
        shutil.rmtree(folder, ignore_errors=True)
        if self._watching.stdin is not None:
            self._watching.stdin.close()  # it removes what was written meanwhile
        try:
            self._watching.wait(_SECONDS)
        except subprocess.TimeoutExpired:  # tasks still write
            threading.Thread(target=self._watching.wait, daemon=True).start()
        self._watching = None


def _watch(folder: Path) -> subprocess.Popen[bytes]:
    """Start the process that removes the folder when this one has ended."""
    return subprocess.Popen(  # noqa: S603 (this interpreter, and a fixed text)
        [sys.executable, "-I", "-S", "-c", _REMOVES, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is the driver's
    )
