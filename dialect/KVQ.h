// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The whole dialect but for the tile ops (dialect/KVQTile.h).
#pragma once

#include "dialect/KVQBasis.h"
#include "dialect/KVQDialect.h"
#include "dialect/KVQOps.h"
#include "dialect/KVQTypes.h"
