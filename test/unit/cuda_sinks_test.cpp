// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Learned sinks of a library on a CUDA device.
#include "test/unit/CudaExample.h"
#include "test/unit/FakeDriver.h"

using namespace kvq;
using namespace kvq::test;

namespace {

/// Behind the constants of the device, from the first query head of the call on.
TEST(CudaLaunch, DecodeTakesTheLibrarysSinks) {
  FakeDriver driver;
  CacheMethod method = exampleMethod();
  method.constants.push_back({"sinks", {2, 4, 1}, 64});
  method.attention.sinks = 1;
  LibraryContents contents = example();
  contents.formats[0] = {methodText(method), std::string(64 + 32, '\0')};
  const Handle library = openExample(contents);
  kvq_decode_args args = decodeArgs(3);
  args.place.first_head = 1, args.place.kv_heads = 1;
  ASSERT_EQ(kvq_decode(library.get(), &args), KVQ_OK) << kvq_last_error();
  const kvq_decode_kernel_args &own = driver.launches.back().decode.common;
  EXPECT_EQ(reinterpret_cast<const char *>(own.sinks) - static_cast<const char *>(own.constants),
            64 + 4 * (4 + 2));
  args.sinks = address<float>(0x7004);
  ASSERT_EQ(kvq_decode(library.get(), &args), KVQ_OK) << kvq_last_error();
  EXPECT_EQ(driver.launches.back().decode.common.sinks, args.sinks);
}

} // namespace
