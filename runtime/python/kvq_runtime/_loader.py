# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""libkvq.so, which lies beside this file, and how its statuses become exceptions."""

import ctypes
import pathlib

from ._abi import FUNCTIONS, INTERFACE_VERSION, Status


class Error(Exception):
    """A call of the runtime failed. `status` is a Status; the text says what was expected and what was got."""

    def __init__(self, status, text):
        super().__init__(f"{status.name}: {text}")
        self.status, self.text = status, text


def _load():
    path = pathlib.Path(__file__).with_name("libkvq.so")
    try:
        shared = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"kvq_runtime: cannot load its runtime: {error}") from error
    version = shared.kvq_interface_version()
    if version != INTERFACE_VERSION:
        raise ImportError(f"kvq_runtime: expected a runtime of interface version {INTERFACE_VERSION}, got {version} "
                          f"in {path}")
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(shared, name)
        function.restype, function.argtypes = result, arguments
    return shared


C = _load()


def last_error():
    return C.kvq_last_error().decode("utf-8", "replace")


def check(status):
    """Raises Error unless a status is OK."""
    if status != Status.OK:
        raise Error(Status(status), last_error())


def version():
    """Version of the runtime, "0.1.0"."""
    return C.kvq_version().decode()
