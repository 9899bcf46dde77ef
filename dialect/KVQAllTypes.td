// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Enums, attributes and types of all levels: a dialect has one parser and one printer for each.
include "dialect/KVQTypes.td"
include "dialect/KVQTileOps.td"
