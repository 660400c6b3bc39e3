// The kernel's file trees (/sys, /proc, /dev) under a root prefix, so that a captured tree reads like the live machine.
//
// Every reader answers "absent" for what is missing, unreadable or malformed: attributes come and go between kernels,
// drivers and containers, and one of them must not hide a whole GPU. Nothing here throws or blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/cpu_set.hpp"

namespace thole::host {

class Tree {
 public:
  explicit Tree(std::string root = "");  // "" or "/" is this machine

  bool live() const { return root_.empty(); }
  std::string at(std::string_view path) const { return root_ + std::string(path); }

  bool exists(std::string_view path) const;
  bool readable_and_writable(std::string_view path) const;                   // by this process; asks without opening
  std::optional<std::string> text(std::string_view path) const;              // the whole file, trimmed
  std::optional<std::uint64_t> number(std::string_view path) const;          // decimal
  std::optional<std::uint64_t> hex(std::string_view path) const;             // with or without 0x
  std::optional<int> node(std::string_view path) const;                      // a small number; negative means unknown
  std::optional<model::CpuSet> cpu_list(std::string_view path) const;        // "0-3,8"
  std::optional<model::CpuSet> cpu_mask(std::string_view path) const;        // "0000000f,ffffffff"

  std::vector<std::string> names(std::string_view directory) const;          // sorted, without . and ..
  // The numbers N of the entries "<prefix>N", ascending.
  std::vector<unsigned> numbered(std::string_view directory, std::string_view prefix) const;
  // The path behind all symbolic links, again without the root; absent when missing or outside the root.
  std::optional<std::string> real(std::string_view path) const;

 private:
  std::string root_;
};

// "key value" or "key: value" lines; the value of a key, trimmed.
std::optional<std::string_view> field(std::string_view text, std::string_view key);
std::optional<std::uint64_t> number_field(std::string_view text, std::string_view key);

// Whether this process lives in a pid namespace: then process numbers from a driver, the host's, mean somebody else here.
bool in_pid_namespace(const Tree& tree);

// "0000000f,ffffffff", 32 bits a word, highest first; nothing when malformed.
std::optional<model::CpuSet> parse_cpu_mask(std::string_view mask);

}  // namespace thole::host
