// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All ops of levels 1 and 2. Level 3 is generated on its own from KVQTileOps.td.
include "dialect/KVQAttentionOps.td"
