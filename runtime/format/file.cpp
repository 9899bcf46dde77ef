// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/format/file.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace kvq {
namespace {

constexpr size_t kAlign = 64;

std::string failure(const char *what, const std::string &path) {
  return std::string("cannot ") + what + " '" + path + "': " + std::strerror(errno);
}

/// A descriptor that closes itself.
struct Descriptor {
  int fd;
  explicit Descriptor(int fd) : fd(fd) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor() {
    if (fd >= 0)
      ::close(fd);
  }
};

std::string openForReading(const std::string &path, int fd, size_t &size) {
  struct stat status;
  if (fd < 0 || ::fstat(fd, &status) < 0)
    return failure("open", path);
  if (!S_ISREG(status.st_mode))
    return "cannot read '" + path + "': expected a regular file";
  size = size_t(status.st_size);
  return "";
}

bool writeAll(int fd, ByteSpan piece) {
  const uint8_t *bytes = piece.bytes();
  while (piece.size) {
    const ssize_t n = ::write(fd, bytes, piece.size);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    bytes += n, piece.size -= size_t(n);
  }
  return true;
}

/// Permissions of a file that open(2) would have made.
mode_t defaultMode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

} // namespace

FileBytes::FileBytes(FileBytes &&other) noexcept { *this = std::move(other); }

FileBytes &FileBytes::operator=(FileBytes &&other) noexcept {
  std::swap(data, other.data);
  std::swap(size, other.size);
  std::swap(mapped, other.mapped);
  return *this;
}

FileBytes::~FileBytes() {
  if (mapped)
    ::munmap(data, size);
  else
    std::free(data);
}

bool FileBytes::allocate(size_t bytes) {
  FileBytes fresh;
  if (bytes > SIZE_MAX - kAlign)
    return false;
  fresh.data = std::aligned_alloc(kAlign, (bytes / kAlign + 1) * kAlign);
  fresh.size = bytes;
  if (!fresh.data)
    return false;
  *this = std::move(fresh);
  return true;
}

std::string FileBytes::read(const std::string &path, FileBytes &out) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  size_t size = 0;
  if (std::string error = openForReading(path, file.fd, size); !error.empty())
    return error;
  if (!out.allocate(size))
    return "cannot read '" + path + "': no memory for " + std::to_string(size) + " bytes";
  uint8_t *bytes = static_cast<uint8_t *>(out.data);
  for (size_t done = 0; done < size;) {
    const ssize_t n = ::read(file.fd, bytes + done, size - done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return failure("read", path);
    if (n == 0)
      return "cannot read '" + path + "': the file became shorter while it was read";
    done += size_t(n);
  }
  return "";
}

std::string FileBytes::map(const std::string &path, FileBytes &out) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  size_t size = 0;
  if (std::string error = openForReading(path, file.fd, size); !error.empty())
    return error;
  if (size == 0) { // mmap refuses length 0
    out = FileBytes();
    return "";
  }
  FileBytes fresh;
  void *address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (address == MAP_FAILED)
    return failure("map", path);
  fresh.data = address, fresh.size = size, fresh.mapped = true;
  out = std::move(fresh);
  return "";
}

std::string FileBytes::copy(ByteSpan bytes, FileBytes &out) {
  if (!out.allocate(bytes.size))
    return "no memory for " + std::to_string(bytes.size) + " bytes";
  if (bytes.size)
    std::memcpy(out.data, bytes.data, bytes.size);
  return "";
}

std::string writeFile(const std::string &path, const std::vector<ByteSpan> &pieces) {
  std::string temporary = path + ".XXXXXX";
  std::string error;
  {
    const Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
    if (file.fd < 0)
      return failure("create a file beside", path);
    bool good = ::fchmod(file.fd, defaultMode()) == 0;
    for (const ByteSpan &piece : pieces)
      good = good && writeAll(file.fd, piece);
    if (!good || ::fsync(file.fd) < 0)
      error = failure("write", path);
  }
  if (error.empty() && std::rename(temporary.c_str(), path.c_str()) != 0)
    error = failure("write", path);
  if (!error.empty())
    ::unlink(temporary.c_str());
  return error;
}

} // namespace kvq
