// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the skeleton builders share.
#pragma once

#include "codegen/conversion/BuildKernels.h"
#include "codegen/conversion/Emit.h"
#include "codegen/conversion/KernelFields.h"
#include "dialect/KVQTile.h"

namespace mlir::kvq {

/// The record attribute of a method.
TileRecordAttr recordOf(MLIRContext *context, const ::kvq::CacheMethod &method);

/// A block of query rows of one sequence and KV head (kernel_abi.h); all i64.
struct Segment {
  Value number, seq, head;
  Value firstRow, rows;     ///< of the block; how many exist, 0 to the row class
  Value firstToken, tokens; ///< query tokens of the sequence
};

/// The method, and an emitter placed in the kernel's body. `queries` is the row class.
class KernelBuilder {
public:
  KernelBuilder(Emit &emit, const ::kvq::CacheMethod &method, Value args, Value item,
                int64_t queries)
      : emit(emit), method(method), args(args), item(item),
        record(recordOf(emit.builder.getContext(), method)), queries(queries) {}
  virtual ~KernelBuilder() = default;

  void append();
  void appendWindow();
  void dequantize();
  void demote();
  void prepare();
  void decode();
  void merge();

protected:
  Type element(::kvq::ElementType type);
  Type fragment(FragmentKind kind) { return FragmentType::get(emit.builder.getContext(), kind); }
  Type row(int64_t dim) { return TileRowType::get(emit.builder.getContext(), dim); }
  Value argument(size_t offset) {
    return emit.loadField(args, static_cast<int64_t>(offset), emit.i64());
  }
  Value pointerArgument(size_t offset) {
    return emit.loadField(args, static_cast<int64_t>(offset), emit.pointer());
  }

  /// The part of constant `index` that belongs to this layer and head.
  Value constant(int index, Value constants, Value layer, Value head);
  Value applyRotation(Value row, const ::kvq::RotationFactor &factor, bool inverse, bool anyOrder);
  /// Applies a rotation step, or undoes it.
  Value rotate(Value row, const ::kvq::Step &step, bool inverse, bool anyOrder);
  Value loadRow(Value address, ::kvq::ElementType type, int64_t dim);

  // Tokens (BuildAppend.cpp).
  Value rotatedRow(bool key, Value address);
  void quantizeRow(bool key, Value row, Value tile, Value token);
  Value slotOf(Value token);
  void ofSlot(function_ref<void(Value, Value, Value, Value)> body);
  Value rowOf(bool key, Value token, Value head);
  /// Rotations and centers undone, last first; `mass` times the means are added.
  Value undoSteps(const ::kvq::SideMethod &side, Value row, Value mass);
  Value clip(Value row, const ::kvq::SideMethod &side, const ::kvq::Step &step);
  Value keyShift(Value &query);
  /// Sets what `constant` is asked for by rotations and means: those of this layer and KV head.
  template <typename Args> void loadConstantPlace(Value head) {
    constants = pointerArgument(offsetof(Args, constants));
    layer = argument(offsetof(Args, layer));
    constantHead = emit.add(argument(offsetof(Args, first_head)), head);
  }

  // Where pages, tiles and window rows lie (Places.cpp).
  /// The i32 at `address`, i64.
  Value loadIndex(Value address);
  /// The element of a sequence in the i32 array whose pointer is the argument `array`; i64.
  Value ofSequence(size_t array, Value seq);
  /// pointer ? pointer[index] : other[index], of i32 arrays of which `other` is not null.
  Value loadEither(Value pointer, Value other, Value index);
  /// Where the page ids of a sequence begin.
  Value pageIds(const TableFields &table, Value seq);
  /// The page that holds token `token` of a sequence with the page ids `ids`.
  Value pageId(Value ids, Value token, Value pageTokens);
  /// What of the pages of a pool belongs to a KV head: bytes from the pool to that of page 0, and
  /// from page to page.
  struct HeadPages {
    size_t data; ///< the argument that points to the pool
    Value first, stride;
  };
  HeadPages pagesOf(const PoolFields &pool, Value head);
  /// From the beginning of the pool.
  Value pageBytes(const HeadPages &pages, Value page);
  Value pageOf(const HeadPages &pages, Value page);
  /// The tile of a position in a page of records.
  Value tileOf(const HeadPages &pages, Value page, Value position);
  /// The row at `position` of a page of window rows that begins at `base`.
  Value windowRow(Value base, Value pageTokens, Value position, bool key);

  // Query rows (QueryRows.cpp).
  Segment segmentAt(Value number);
  Segment segmentOf(Value number, Value seq, Value head, Value block);
  /// Row `q` of the block: its query token among all of the call, and its query head.
  std::pair<Value, Value> placeOf(const Segment &segment, Value q);
  /// Tokens in the cache, i64.
  virtual Value lengthOf(Value seq);
  /// Of these the tokens in records, i64: they begin behind those of the sink.
  virtual Value quantizedOf(Value seq);
  Value boundsOf(const Segment &segment);
  /// The learned logit of a row, less what centering K took from its logits; -inf without.
  Value sinkOf(const Segment &segment, Value q, Value workspace);
  Value isNull(Value pointer);
  /// What centering K took from the logits of row `q`, and the softmax does not know.
  Value shiftOf(Value workspace, Value q);

  /// Query row `q`, or a mark that there is none.
  void prepareRow(const Segment &segment, Value q, Value workspace);
  void prepareQuery(const Segment &segment, Value q, Value workspace);
  Value tileAddress(Value seq, Value head, Value token);
  using AttendFn = function_ref<std::pair<Value, Value>(Value, Value, Value, Value)>;
  void attendPart(const Segment &segment, AttendFn attend);
  Value partsOf();
  /// The first split that some row of the segment attends, and the one after the last.
  std::pair<Value, Value> splitsOf(const Segment &segment);
  /// Tokens `token` up to `end`, at most a tile, of the records. What becomes of state and output.
  std::pair<Value, Value> attendTile(const Segment &segment, Value query, Value bounds, Value token,
                                     Value end, Value state, Value output);

  // High-precision windows (BuildWindow.cpp).
  /// 16 rows of a window that follow one another: where they lie, the position of the first, and
  /// which of them count, `begin` up to `end`.
  struct WindowTile {
    Value keys, values, position, begin, end;
  };
  /// Tokens of the sink; i64.
  Value sinkTokens(Value length);
  /// The tile of rows `row` on, a multiple of 16, of the sink (i1) or of the recent window.
  WindowTile windowTile(const Segment &segment, Value isSink, Value row);
  Value maskRecords(Value scores, Value valid, int64_t tiles);
  Value windowScores(const WindowTile &tile, Value query, Value bounds);
  std::pair<Value, Value> attendWindow(const Segment &segment, Value query, Value bounds,
                                       Value state, Value output);

  Value finishScores(Value scores, Value query, Value bounds, Value first, int64_t tiles);
  Value finishOutput(Value row, Value mass);
  void storeOutput(const Segment &segment, Value q, Value row, Value lse);

  Emit &emit;
  const ::kvq::CacheMethod &method;
  Value args, item;
  TileRecordAttr record;
  int64_t queries;
  Value constants, layer, constantHead;
};

} // namespace mlir::kvq
