// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bytecode of the dialect: attributes and types are stored as text. The version entry lets a
// release that stores them otherwise read the files of this one.
#include "dialect/KVQDialect.h"

#include "mlir/Bytecode/BytecodeImplementation.h"

using namespace mlir;
using namespace mlir::kvq;

namespace {

struct KVQVersion : DialectVersion {
  uint64_t major = 0, minor = 0;
};

struct KVQBytecodeInterface : BytecodeDialectInterface {
  KVQBytecodeInterface(Dialect *dialect) : BytecodeDialectInterface(dialect) {}

  void writeVersion(DialectBytecodeWriter &writer) const override {
    writer.writeVarInt(KVQDialect::kMajorVersion);
    writer.writeVarInt(KVQDialect::kMinorVersion);
  }

  std::unique_ptr<DialectVersion> readVersion(DialectBytecodeReader &reader) const override {
    auto version = std::make_unique<KVQVersion>();
    if (failed(reader.readVarInt(version->major)) || failed(reader.readVarInt(version->minor)))
      return nullptr;
    if (version->major != KVQDialect::kMajorVersion) {
      reader.emitError() << "expects kvq bytecode of version " << KVQDialect::kMajorVersion << "."
                         << KVQDialect::kMinorVersion
                         << " or of the same major version, got version " << version->major << "."
                         << version->minor;
      return nullptr;
    }
    return version;
  }
};

} // namespace

void KVQDialect::registerBytecode() { addInterfaces<KVQBytecodeInterface>(); }
