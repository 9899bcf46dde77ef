# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What all structs of the C interface have in common."""

import ctypes


class Struct(ctypes.Structure):
    """A struct of the C interface. A `size` member is set when it is made."""

    def __init__(self, *values, **members):
        super().__init__(*values, **members)
        if not values and hasattr(type(self), "size"):
            self.size = ctypes.sizeof(self)

    def __repr__(self):
        members = (f"{name}={_shown(getattr(self, name))}" for name, _ in self._fields_ if name != "size")
        return f"{type(self).__name__}({', '.join(members)})"


def _shown(value):
    return bytes(value).hex() if isinstance(value, ctypes.Array) else repr(value)
