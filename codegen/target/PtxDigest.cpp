// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/target/PtxDigest.h"

#include "runtime/format/sha256.h"

#include "llvm/ADT/StringExtras.h"

namespace mlir::kvq {

using llvm::StringRef;

static std::string withoutComments(StringRef ptx) {
  std::string text;
  text.reserve(ptx.size());
  while (!ptx.empty()) {
    const size_t slash = ptx.find('/');
    text += ptx.take_front(slash);
    ptx = ptx.drop_front(std::min(slash, ptx.size()));
    size_t end = 0;
    if (ptx.starts_with("//"))
      end = std::min(ptx.find('\n'), ptx.size());
    else if (ptx.starts_with("/*") && ptx.find("*/", 2) != StringRef::npos)
      end = ptx.find("*/", 2) + 2;
    text += end ? " " : ptx.take_front(1).str();
    ptx = ptx.drop_front(end ? end : std::min<size_t>(1, ptx.size()));
  }
  return text;
}

static std::string withoutConstants(StringRef ptx) {
  std::string text;
  text.reserve(ptx.size());
  for (size_t equal; (equal = ptx.find('=')) != StringRef::npos;) {
    text += ptx.take_front(equal + 1);
    ptx = ptx.drop_front(equal + 1);
    const StringRef values = ptx.ltrim();
    const size_t close = values.find('}');
    if (!values.starts_with("{") || close == StringRef::npos)
      continue;
    text += " {}";
    ptx = values.drop_front(close + 1);
  }
  return text + ptx.str();
}

std::string strippedPtx(StringRef ptx) {
  const std::string text = withoutConstants(withoutComments(ptx));
  llvm::SmallVector<StringRef> words;
  llvm::SplitString(text, words, " \t\n\v\f\r");
  return llvm::join(words, " ");
}

std::string ptxDigest(StringRef ptx) {
  const std::string text = strippedPtx(ptx);
  return ::kvq::digestText(::kvq::sha256(text.data(), text.size()));
}

} // namespace mlir::kvq
