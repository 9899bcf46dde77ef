/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The interface must be usable from C: this file is compiled as C99. */
#include "kvq/runtime.h"

#include <string.h>

const char *nameFromC(const kvq_library *library, kvq_geometry *geometry) {
  memset(geometry, 0, sizeof *geometry);
  geometry->size = sizeof *geometry;
  return kvq_status_name(kvq_query(library, 0, geometry));
}
