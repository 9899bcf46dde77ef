// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A file of its own: where a compiler sees these bodies beside their uses, it takes the malloc and
// the free in them for a mismatch.
#include "test/unit/CountAllocations.h"

#include <cstdlib>
#include <new>

namespace {
thread_local int allocations = 0;
} // namespace

int kvq::test::allocationCount() { return allocations; }

void *operator new(size_t bytes, const std::nothrow_t &) noexcept {
  ++allocations;
  return std::malloc(bytes ? bytes : 1);
}

void *operator new(size_t bytes) {
  if (void *memory = operator new(bytes, std::nothrow))
    return memory;
  throw std::bad_alloc();
}

void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
