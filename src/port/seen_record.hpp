// A lane's record: what is seen of it, which changes as anybody writes it, and the way to write it. That is never through
// memory: a store into a mapped file ends the process (SIGBUS) where a full disk has no room for another copy of its page, and
// btrfs, and xfs of what was copied with `cp`, make another one of what lay on the disk already.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/fd.hpp"
#include "model/lane_record.hpp"

namespace thole::port {

class SeenRecord {
 public:
  using Memory = std::unique_ptr<const model::LaneRecord, void (*)(const model::LaneRecord*)>;

  SeenRecord() = default;
  // `file`: that is seen there. Without one the memory itself is written, a test's own.
  explicit SeenRecord(Memory memory, Fd file = {}) : memory_(std::move(memory)), file_(std::move(file)) {}

  explicit operator bool() const { return static_cast<bool>(memory_); }
  const model::LaneRecord* get() const { return memory_.get(); }
  const model::LaneRecord& operator*() const { return *memory_; }
  const model::LaneRecord* operator->() const { return memory_.get(); }
  const Fd& file() const { return file_; }

  // `field`: one of what is seen. False, with errno, where the disk refuses: it is as it was.
  template <class Field>
  bool write(const Field& field, const std::type_identity_t<Field>& value) const {
    static_assert(std::is_trivially_copyable_v<Field>);
    return write_bytes(offset_of(&field), &value, sizeof value);
  }
  template <class Value>
  bool write(const std::atomic<Value>& field, std::type_identity_t<Value> value) const {
    return write_bytes(offset_of(&field), &value, sizeof value);
  }
  bool write_bytes(std::size_t offset, const void* bytes, std::size_t size) const {
    if (!file_) {
      std::memcpy(reinterpret_cast<char*>(const_cast<model::LaneRecord*>(memory_.get())) + offset, bytes, size);
      return true;
    }
    const ssize_t written = ::pwrite(file_.get(), bytes, size, static_cast<off_t>(offset));
    if (written >= 0 && written != static_cast<ssize_t>(size)) errno = ENOSPC;
    return written == static_cast<ssize_t>(size);
  }
  std::size_t offset_of(const void* field) const {
    return static_cast<std::size_t>(static_cast<const char*>(field) - reinterpret_cast<const char*>(memory_.get()));
  }

 private:
  Memory memory_{nullptr, nullptr};
  Fd file_;
};

}  // namespace thole::port
