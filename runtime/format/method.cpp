// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/format/method.h"

namespace kvq {

RecordSpec CacheMethod::record() const {
  RecordSpec spec;
  spec.page = page;
  spec.k = key.record;
  spec.v = value.record;
  return spec;
}

} // namespace kvq
