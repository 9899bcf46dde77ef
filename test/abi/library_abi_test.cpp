// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files of earlier releases (data/, made from data/tiny.mlir): those that this release reads give
// the bits that they gave, those that it does not are refused by name.
#include "kvq/runtime.h"

#include <gtest/gtest.h>

#include <string>

namespace {

TEST(LibraryAbi, Version0IsRefusedAndBothVersionsAreNamed) {
  kvq_library *library = nullptr;
  EXPECT_EQ(kvq_open(KVQ_TEST_ABI "/version_0.kvqlib", nullptr, &library), KVQ_OTHER_VERSION);
  EXPECT_EQ(library, nullptr);
  EXPECT_STREQ(kvq_last_error(), "this kvq reads library format version 1, the library has version "
                                 "0, which is too old");
}

} // namespace
