"""File locks: on temporary files and folders, which tell those in use from leftovers, and on checkpoint folders.

The system releases a lock when its process ends, for whatever reason. Without locks (Windows, some network file
systems) leftovers are never removed, and two processes may use one checkpoint.
"""

from __future__ import annotations

import glob
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import Self
from weakref import WeakValueDictionary

from concordant.errors import DataError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["CHECKPOINT_LOCK", "FolderLock", "TemporaryPath", "lock_folder", "remove_unfinished"]

# The file that is locked for a temporary folder, and for a checkpoint folder, in which users may have files.
_LOCK = "lock"
CHECKPOINT_LOCK = ".concordant.lock"
_RANDOM_BYTES = 6


class TemporaryPath:
    """A temporary file or folder of this process, locked from `create` to `release`.

    Parameters
    ----------
    parent : Path
        The folder that holds it.
    prefix, suffix : str
        Beginning and end of its name; random digits come between.
    folder : bool
        Whether it is a folder.

    Examples
    --------
    >>> import tempfile
    >>> home = Path(tempfile.mkdtemp())
    >>> mine = TemporaryPath(home, "run.", ".parts", folder=True).create()
    >>> remove_unfinished(home, "run.", ".parts")
    >>> mine.path.exists()
    True
    >>> mine.remove()
    >>> mine.path.exists()
    False
    """

    def __init__(self, parent: Path, prefix: str, suffix: str, *, folder: bool = False) -> None:
        self.path = parent / f"{prefix}{os.urandom(_RANDOM_BYTES).hex()}{suffix}"
        self._is_folder = folder
        self._handle = -1
        remove_unfinished(parent, glob.escape(prefix), suffix)

    def create(self) -> Self:
        """Create the file or folder and lock it."""
        locked = os.fspath(self.path / _LOCK if self._is_folder else self.path)
        # Another process may remove it before it is locked; then it is created again.
        while self._handle < 0:
            with suppress(FileExistsError):
                if self._is_folder:
                    self.path.mkdir(mode=0o700)
            try:
                handle = os.open(locked, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
            except FileNotFoundError:
                if self._is_folder and not self.path.exists():
                    continue
                raise
            if _lock(handle) is not False and os.path.exists(locked):
                self._handle = handle
            else:
                os.close(handle)
        return self

    def release(self) -> None:
        """Release the lock and keep the file or folder."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __del__(self) -> None:
        self.release()

    def remove(self) -> None:
        """Remove the folder and all it holds."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.release()


class FolderLock:
    """The lock of this process on a checkpoint folder, released with the last reference to it."""

    def __init__(self, folder: Path) -> None:
        self._path = os.fspath(folder / CHECKPOINT_LOCK)
        self._handle = -1
        while self._handle < 0:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
            if _lock(handle) is False:
                os.close(handle)
                raise DataError(
                    f"{folder}: another process uses this checkpoint. Wait until it has ended, or name another folder."
                )
            # The process that held it may have removed the file in between.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(self._path)):
                    self._handle = handle
                    break
            os.close(handle)

    def __del__(self) -> None:
        if self._handle >= 0:
            with suppress(OSError):
                os.unlink(self._path)
            os.close(self._handle)


_held: WeakValueDictionary[str, FolderLock] = WeakValueDictionary()


def lock_folder(folder: Path) -> FolderLock:
    """Return the lock on a checkpoint folder; raise DataError if another process holds it.

    Within a process all share one lock.
    """
    name = os.path.realpath(folder)
    held = _held.get(name)
    if held is None:
        held = _held[name] = FolderLock(folder)
    return held


def remove_unfinished(folder: Path, prefix: str, suffix: str = ".tmp") -> None:
    """Remove temporary files and folders that killed processes left behind.

    Parameters
    ----------
    folder : Path
        Where to look.
    prefix, suffix : str
        Beginning (a glob pattern) and end of their names.

    Notes
    -----
    Locked ones, and those of other users, stay.
    """
    for left in folder.glob(f"{prefix}{'[0-9a-f]' * 2 * _RANDOM_BYTES}{suffix}"):
        with suppress(OSError):
            _remove_unlocked(left)


def _remove_unlocked(left: Path) -> None:
    about = left.lstat()
    is_folder = stat.S_ISDIR(about.st_mode)
    if fcntl is None or about.st_uid != os.getuid() or not (is_folder or stat.S_ISREG(about.st_mode)):
        return
    handle = os.open(left / _LOCK if is_folder else left, os.O_RDWR | os.O_NOFOLLOW | (os.O_CREAT if is_folder else 0))
    try:
        if _lock(handle):
            if is_folder:
                shutil.rmtree(left)
            else:
                left.unlink()
    finally:
        os.close(handle)


def _lock(handle: int) -> bool | None:
    """Lock an open file until it is closed; return False if another process holds it, None without locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
