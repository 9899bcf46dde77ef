// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The functions of the CUDA driver that tools call beside those of the runtime.
#pragma once

#include "runtime/lib/cuda/Driver.h"

namespace kvq::cuda {

using Event = struct EventT *;
using Graph = struct GraphT *;
using GraphExec = struct GraphExecT *;

struct ToolDriver {
  const Driver *base = nullptr; ///< the runtime's functions

  Result (*ctxSetCurrent)(Context context);
  Result (*ctxSynchronize)();
  Result (*memcpyDtoH)(void *to, DevicePointer from, size_t bytes);
  Result (*memcpyDtoD)(DevicePointer to, DevicePointer from, size_t bytes);
  Result (*memGetInfo)(size_t *free, size_t *all);
  Result (*memsetD8)(DevicePointer to, unsigned char byte, size_t bytes);
  Result (*streamCreate)(Stream *stream, unsigned flags);
  Result (*streamSynchronize)(Stream stream);
  Result (*streamBeginCapture)(Stream stream, int mode);
  Result (*streamEndCapture)(Stream stream, Graph *graph);
  Result (*graphInstantiate)(GraphExec *exec, Graph graph, unsigned long long flags);
  Result (*graphLaunch)(GraphExec exec, Stream stream);
  Result (*graphExecDestroy)(GraphExec exec);
  Result (*graphDestroy)(Graph graph);
  Result (*eventCreate)(Event *event, unsigned flags);
  Result (*eventDestroy)(Event event);
  Result (*eventRecord)(Event event, Stream stream);
  Result (*eventSynchronize)(Event event);
  Result (*eventElapsedTime)(float *milliseconds, Event start, Event end);
};

/// The driver, started. Throws std::runtime_error.
const ToolDriver &toolDriver();

/// Throws std::runtime_error that names the call unless it succeeded.
void requireCuda(const char *call, Result result);

} // namespace kvq::cuda
