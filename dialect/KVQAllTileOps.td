// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All ops of level 3.
include "dialect/KVQTileOps.td"
include "dialect/KVQTileDecodeOps.td"
include "dialect/KVQTileWindowOps.td"
