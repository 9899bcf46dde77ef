// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What skeletons and tile patterns of the GPU targets need beyond upstream arithmetic: lanes and
// warps, shuffles, integer MMA, staging copies and barriers. Intrinsics where LLVM has them, inline
// PTX where it has none or splits an instruction (lop3). Functions marked (warp) are executed by
// all lanes of a warp together.
#pragma once

#include "codegen/conversion/Numeric.h"
#include "codegen/conversion/gpu/Chip.h"

#include <array>

namespace mlir::kvq {

/// A mutable value of the thread. It is memory until LLVM promotes it to a register.
class Variable {
public:
  Variable(Emit &emit, Value initial);
  Value get() const;
  void set(Value value) const;

private:
  Emit *emit;
  Type type;
  Value address;
};

class WarpEmit : public Numeric {
public:
  WarpEmit(OpBuilder &builder, Location loc, ChipFeatures chip)
      : Numeric(builder, loc, {/*fma=*/true, /*f16c=*/true}), chip(chip) {}

  ChipFeatures chip;

  // 32-bit integers.
  Value word(int64_t value) { return integer(i32(), value); }
  Value narrowWord(Value value); ///< i64 -> i32
  Value wide(Value value);       ///< i32 -> i64, sign-extended

  using Emit::lane;
  // Where this thread is: i32.
  Value thread() { return special("tid.x"); }
  Value block() { return special("ctaid.x"); }
  Value blockThreads() { return special("ntid.x"); }
  Value lane() { return bitAnd(thread(), word(31)); }
  Value warp() { return shr(thread(), 5); }

  // Warp communication (warp). Values of 32 bits.
  Value shuffleXor(Value value, int mask);
  Value shuffleUp(Value value, int delta);
  Value broadcast(Value value, Value lane);
  /// Combines the values of all lanes whose numbers differ in the bits of `lanes`.
  Value butterfly(Value value, int lanes, function_ref<Value(Value, Value)> combine);
  Value any(Value condition);
  Value ballot(Value condition);  ///< i32: bit l is lane l's condition
  Value sumWords(Value value);    ///< i32 over the warp
  Value maxUnsigned(Value value); ///< i32 over the warp
  void syncWarp();

  // Arithmetic.
  Value toReal(Value word);          ///< i32 to f32, nearest even
  Value maxNumber(Value a, Value b); ///< one instruction; a NaN loses
  Value exp2(Value value);           ///< 2^x, error below 2^-22; 0 below -126
  Value log2(Value value);
  /// Pure byte and bit instructions.
  Value permute(Value low, Value high, int selector);
  Value mask(Value value, uint32_t bits);
  /// Transposes 8 x 8 16-bit elements of a warp (warp).
  Value transpose(Value value);
  /// sums += A (16 x 32, u8 or s8) * B (32 x 8): `b` is s8 where `aSigned` or `bSigned` (warp).
  void multiply(std::array<Value, 4> &sums, const std::array<Value, 4> &a, Value b0, Value b1,
                bool aSigned, bool bSigned);

  // Pairs of `element`, f16 or bf16, the first in the lower half of a word.
  /// Signed bytes 2 `half` and 2 `half` + 1 of `bytes`; exact.
  Value pairOfBytes(Value bytes, int half, Type element);
  Value pairOf(Value low, Value high, Type element); ///< of f32, nearest even
  Value lowOf(Value pair, Type element);             ///< to f32
  /// f32 sums += A (16 x 16) * B (16 x 8) of pairs (warp).
  void multiplyPairs(std::array<Value, 4> &sums, const std::array<Value, 4> &a, Value b0, Value b1,
                     Type element);

  // Memory.
  Value shared();                  ///< dynamic shared memory of the block, aligned to 128
  Value sharedWord(Value address); ///< i32 address of shared memory
  /// Thread-private array that LLVM promotes to registers: only constant offsets.
  Value registers(int64_t words);
  Value loadWord(Value address, int64_t byte) { return load(i32(), offset(address, byte), 4); }
  Value loadReal(Value address, int64_t byte) { return load(f32(), offset(address, byte), 4); }
  void put(Value value, Value address, int64_t byte) { store(value, offset(address, byte), 4); }
  /// Adds to a counter in global memory, ordered with what this thread's warp wrote and will read.
  Value atomicAdd(Value address, Value value);
  void fenceDevice();

  // Order of blocks and kernels.
  void waitForPreviousKernel();
  void releaseNextKernel();
  void syncBlock();
  void syncTeam(Value barrier, Value threads);

  // Transaction barriers and bulk copies; `barrier` and `target` are shared addresses (i32).
  void initBarrier(Value barrier);
  void fenceBarrierInit();
  void expectBytes(Value barrier, Value bytes);
  void bulkCopy(Value target, Value source, Value bytes, Value barrier);
  void waitBarrier(Value barrier, Value parity);
  // The same for chips without them: 16 bytes a lane, in groups.
  void copy16(Value target, Value source);
  void commitCopies();
  void waitCopies(int pending);

  /// The condition, with the hint that it is seldom true.
  Value unlikely(Value condition);
  void whenElse(Value condition, function_ref<void()> then, function_ref<void()> otherwise);
  void whileTrue(function_ref<Value()> condition, function_ref<void()> body);

private:
  Value special(StringRef name);
  Value intrinsic(Type result, StringRef name, ValueRange operands);
  Value pureAsm(Type result, StringRef text, StringRef constraints, ValueRange operands);
  Value effectAsm(Type result, StringRef text, StringRef constraints, ValueRange operands);
  void multiplyWords(StringRef shape, Type sum, std::array<Value, 4> &sums,
                     const std::array<Value, 4> &a, Value b0, Value b1);
};

} // namespace mlir::kvq
