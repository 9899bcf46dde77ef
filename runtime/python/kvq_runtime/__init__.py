# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The runtime of kvq: quantized key-value caches, filled and attended by the kernels of a compiled library.

A thin layer over the C interface (kvq/runtime.h, whose comments are the reference of what calls do): tensors of any
framework with DLPack go in and out, nothing is copied, no framework is imported. Names are those of the C interface
without `kvq_`.

    import kvq_runtime as kvq

    with kvq.open("model.kvqlib", target="cuda") as library:
        print(library.geometry(layer=0))
"""

from ._abi import (FAULT_LENGTH, INTERFACE_VERSION, MAX_Q_LENGTH, MAX_SPLIT_TOKENS, RECORD_ALIGN, SPLIT_TOKENS,
                   WORKSPACE_ALIGN, Element, ReasonCode, Status, Target)
from ._abi import kvq_page_header as PageHeader
from ._library import Library, Reason, open, open_memory
from ._loader import Error, version
from ._memory import PageTable, Pool, Windows, Workspace, aligned

__version__ = version()
__all__ = [
    "FAULT_LENGTH", "INTERFACE_VERSION", "MAX_Q_LENGTH", "MAX_SPLIT_TOKENS", "RECORD_ALIGN", "SPLIT_TOKENS",
    "WORKSPACE_ALIGN", "Element", "Error", "Library", "PageHeader", "PageTable", "Pool", "Reason", "ReasonCode", "Status", "Target",
    "Windows", "Workspace", "aligned", "open", "open_memory", "version",
]
