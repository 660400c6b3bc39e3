// The proof that nobody owns a unit twice, independent of what is proved: each owner of a unit also takes OFD record locks on
// a file of the proof's own, and never waits for them. The kernel's record locks know nothing of flock, and end with the owner
// as the claim does.
//
// The order at death matters: the kernel closes a dying process's descriptors from the highest number to the lowest
// (measured, research prototype), so the proof lives on a descriptor above all others. Then it ends before the claim
// does, and any overlap is a real one: no tolerance is needed. Where two processes share a claim's descriptors and die at
// the same moment, one may let go of the proof last and the other of the claim: both close their proofs before.
#pragma once

#include <string>
#include <vector>

#include "base/fd.hpp"

namespace thole::torture {

inline constexpr unsigned share_tokens = 4;   // 40 GiB hold four sharers of 8 GiB and their contexts

class ProofBook {
 public:
  explicit ProofBook(const std::string& folder);   // makes one file a unit when first used

  // Owner of the whole unit: every byte. A sharer: one of its tokens. Empty when somebody else is there: a double owner, or
  // more sharers than fit.
  Fd own(const std::string& unit) const;
  Fd share(const std::string& unit) const;

  // True when nobody is left in any file.
  bool empty() const;

 private:
  Fd open(const std::string& unit) const;
  std::string folder_;
};

}  // namespace thole::torture
