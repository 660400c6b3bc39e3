#include "app/claim/find_claim.hpp"

#include <algorithm>
#include <map>

#include "app/claim/outer_claim.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace thole::app {

namespace {

constexpr std::size_t id_length = 16, shortest_beginning = 6;

// Of the machine's store, or of the one inside the claim `around`.
std::vector<KeptClaim> kept_claims(const ClaimSearch& search, port::ClaimStore* store, const OuterClaim* around = nullptr) {
  std::map<std::pair<std::string, uid_t>, KeptClaim> claims;   // anybody can write another's id into his note
  if (!store) return {};
  for (const model::Holding& holding : store->holdings()) {
    if (holding.id.empty() || !(holding.held || (holding.overdue && search.also_overdue))) continue;
    KeptClaim& claim = claims[{holding.id, holding.uid}];
    claim.id = around ? around->id + "/" + holding.id : holding.id;
    claim.keys.push_back(holding.key);
    claim.uid = holding.uid;
    claim.pid = holding.pid;
    claim.command = holding.command;
    if (holding.shared) claim.share_mib = holding.memory_mib;
  }
  std::vector<KeptClaim> all;
  for (auto& [name, claim] : claims) {
    if (around) claim.inner_store = around->store;
    all.push_back(std::move(claim));
  }
  return all;
}

std::string list(const std::vector<KeptClaim>& claims, const ClaimSearch& search) {
  if (claims.empty()) return "there are no claims";
  std::string text = "there are:";
  for (const KeptClaim& claim : claims)
    text += fmt::format("\n  {}  {}  {}", claim.id, printable(search.user_name(claim.uid), 32), printable(claim.command, 50));
  return text;
}

bool is_one(const KeptClaim& a, const KeptClaim& b) { return a.id == b.id && a.uid == b.uid; }

bool is_hex(std::string_view word) { return word.find_first_not_of("0123456789abcdef") == std::string_view::npos; }

std::vector<KeptClaim> named(const std::string& id, const std::vector<KeptClaim>& all) {
  std::vector<KeptClaim> found;
  std::copy_if(all.begin(), all.end(), std::back_inserter(found),
               [&](const KeptClaim& claim) { return last_part(claim.id) == id; });
  return found;
}

// A shorter beginning is none: GPUs are named by one or two digits, and an id may begin with any.
std::vector<KeptClaim> beginning_with(const std::string& word, const std::vector<KeptClaim>& all) {
  std::vector<KeptClaim> found;
  if (word.size() < shortest_beginning) return found;
  std::copy_if(all.begin(), all.end(), std::back_inserter(found),
               [&](const KeptClaim& claim) { return last_part(claim.id).starts_with(word); });
  return found;
}

// The keys of the GPU that the word names, and of an instance that of all of its GPU, which may have been claimed before it was
// partitioned; none when it names no GPU.
std::vector<std::string> keys_of_gpu(const Observer& gpus, const std::string& word) {
  std::vector<std::string> keys;
  try {
    for (std::size_t i : plan::resolve(word, gpus.snapshot(), gpus.units())) {
      const model::Unit& unit = gpus.units()[i];
      keys.push_back(unit.key);
      if (unit.instance) keys.push_back(unit.whole_key(gpus.snapshot().machine));
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::usage) throw;
  }
  return keys;
}

// Claims on it.
std::vector<KeptClaim> on_gpu(const Observer& gpus, const std::string& word, const std::vector<KeptClaim>& all) {
  std::vector<KeptClaim> found;
  for (const std::string& key : keys_of_gpu(gpus, word))
    for (const KeptClaim& claim : all)
      if (std::ranges::find(claim.keys, key) != claim.keys.end() &&
          std::ranges::none_of(found, [&](const KeptClaim& other) { return is_one(other, claim); }))
        found.push_back(claim);
  return found;
}

// A whole id is an id. Any other word is a GPU's or the beginning of an id, and must not be both.
std::vector<KeptClaim> meant_by(const std::string& word, const ClaimSearch& search, const std::vector<KeptClaim>& all) {
  if (word.size() == id_length && is_hex(word)) return named(word, all);
  if (all.empty()) return {};
  std::vector<KeptClaim> by_id = beginning_with(word, all), holders = on_gpu(search.gpus(), word, all);
  if (by_id.empty() || holders.empty()) return by_id.empty() ? holders : by_id;
  if (by_id.size() == 1 && holders.size() == 1 && is_one(by_id[0], holders[0])) return by_id;
  throw Error(ErrorCode::usage, "it names a GPU, and an id begins with it")
      .about(printable(word, 60)).hint("give the whole id, or the GPU's number or whole UUID");
}

// Other queues release jobs that are held; and who looks for what keeps his GPU may name the job.
std::string way_on_for(const std::string& word, const ClaimSearch& search) {
  const auto job = search.job_called && !word.empty() ? search.job_called(word) : std::nullopt;
  if (!job) return "";
  const std::string name = job->name.empty() ? "" : " (" + printable(job->name, 40) + ")";
  const std::string what = fmt::format("\njob {}{} of your queue ", job->id, name);
  if (job->paused)
    return fmt::format("{0}is paused, and keeps its GPUs: thole continue {1}, or thole cancel {1}", what, job->id);
  if (job->held) return fmt::format("{}is held: thole resume {}", what, job->id);
  return fmt::format("{}has not ended: thole cancel {}", what, job->id);
}

// A lock that comes with no note.
std::string way_on_for_gpu(const std::string& word, const ClaimSearch& search) {
  std::vector<model::Holding> untold;
  if (search.store) untold = search.store->holdings();
  std::erase_if(untold, [](const model::Holding& holding) { return !holding.held || !holding.id.empty(); });
  if (untold.empty()) return "";
  const std::vector<std::string> keys = keys_of_gpu(search.gpus(), word);
  const bool held = std::ranges::any_of(
      untold, [&](const model::Holding& holding) { return std::ranges::find(keys, holding.key) != keys.end(); });
  return held ? fmt::format("\n{0} is held, and nothing says by which claim: thole why {0}", printable(word, 60)) : "";
}

KeptClaim only_one(std::vector<KeptClaim> found, const std::string& word, const ClaimSearch& search,
                   const std::vector<KeptClaim>& all) {
  const std::string what = word.empty() ? "which claim?" : word;
  if (found.size() == 1) return std::move(found.front());
  if (found.empty() && word.empty())
    throw Error(ErrorCode::usage, "which claim? This is not inside one: name it by its id, or by a GPU of it")
        .hint(list(all, search));
  if (found.empty()) {
    const bool short_of_an_id = !word.empty() && word.size() < shortest_beginning && is_hex(word);
    throw Error(ErrorCode::usage, "no such claim")
        .about(what)
        .hint(list(all, search) +
              (short_of_an_id && !all.empty() ? fmt::format("\n(an id can be cut to {} characters)", shortest_beginning) : "") +
              way_on_for_gpu(word, search) + way_on_for(word, search));
  }
  const bool same_id = std::all_of(found.begin(), found.end(), [&](const KeptClaim& claim) { return claim.id == found[0].id; });
  throw Error(ErrorCode::usage, "more than one claim fits").about(what).hint(
      list(found, search) + (same_id ? "\nanybody can write another's id: name the one you mean as CLAIM@USER" : ""));
}

// The claim this command was typed in.
std::string here(const plan::Environment& environment) {
  const auto around = environment.find("THOLE_CLAIM");
  return around == environment.end() ? std::string() : around->second;
}

// "outer/inner", or the beginnings of such ids; an old MIG UUID has slashes too.
bool is_path(std::string_view word) {
  const std::string_view first = word.substr(0, word.find('/'));
  return first.size() < word.size() && first.size() >= shortest_beginning && is_hex(first);
}

// By its id or a beginning of it. One that is noted where only its owner can read is known by its whole id.
std::vector<KeptClaim> with_id(const std::string& word, const ClaimSearch& search, port::ClaimStore* store,
                               const OuterClaim* around, const std::vector<KeptClaim>& all) {
  const bool whole = word.size() == id_length && is_hex(word);
  std::vector<KeptClaim> found = whole ? named(word, all) : beginning_with(word, all);
  if (!found.empty() || !whole || !store) return found;
  if (auto keys = store->own_claim(word); !keys.empty()) {
    const std::string id = around ? around->id + "/" + word : word;
    found.push_back({id, std::move(keys), search.uid, 0, "", "", {}, around ? around->store : nullptr});
  }
  return found;
}

// Mine go before a stranger's of the same name.
std::vector<KeptClaim> mine_first(std::vector<KeptClaim> found, uid_t me) {
  if (std::any_of(found.begin(), found.end(), [&](const KeptClaim& claim) { return claim.uid == me; }))
    std::erase_if(found, [&](const KeptClaim& claim) { return claim.uid != me; });
  return found;
}

[[noreturn]] void refuse_ended(const std::string& around, const ClaimSearch& search, const std::string& others) {
  throw Error(ErrorCode::usage, "the claim of this shell has ended").about("THOLE_CLAIM=" + printable(around, 60))
      .hint(unset_claim_in(search.shell) + ", or name another claim; " + others);
}

// Also to root: the directories inside are found by their owner alone, and root ends no claim of another's without naming it.
[[noreturn]] void refuse_anothers(const std::string& path, const KeptClaim& claim, const ClaimSearch& search, bool to_end) {
  const std::string owner = printable(search.user_name(claim.uid), 32);
  const bool inside = path.find('/') != std::string::npos;
  const std::string those = claim.uid == 0 ? owner : owner + " and root";
  std::string hint = inside ? "only its owner can name what is claimed inside it"
                            : fmt::format("only {} can release, extend or enter it", those);
  if (search.uid == 0 && to_end)
    hint = fmt::format("{}to end {}: thole release {}", inside ? hint + "; " : "", inside ? "all of it" : "it", claim.id);
  throw Error(ErrorCode::unavailable, fmt::format("claim {} is {}'s", claim.id, owner)).about(printable(path, 60)).hint(hint);
}

// A claim within claims, followed from the machine's store inwards. It is never the one around it that is meant.
KeptClaim by_path(const std::string& path, const ClaimSearch& search, bool is_here) {
  std::optional<OuterClaim> around;
  KeptClaim claim;
  for (const std::string_view part : split(path, '/')) {
    port::ClaimStore* store = around ? around->store.get() : search.store;
    const OuterClaim* outer = around ? &*around : nullptr;
    const std::vector<KeptClaim> all = kept_claims(search, store, outer);
    std::vector<KeptClaim> found = mine_first(with_id(std::string(part), search, store, outer, all), search.uid);
    const std::string to_end_all = !outer || !(search.to_release || is_here)
                                   ? ""
                                   : fmt::format("\nto end all of claim {0}: thole release {0}", outer->id);
    if (found.empty() && is_here)
      refuse_ended(path, search, (all.empty() && outer ? "there are none inside it" : list(all, search)) + to_end_all);
    if (found.empty() && outer)
      throw Error(ErrorCode::usage, fmt::format("no such claim inside claim {}", outer->id))
          .about(printable(path, 60)).hint((all.empty() ? "there are none inside it" : list(all, search)) + to_end_all);
    claim = only_one(std::move(found), path, search, all);
    if (claim.uid != search.uid) refuse_anothers(path, claim, search, search.to_release || is_here);
    if (part.data() + part.size() != path.data() + path.size())
      around = OuterClaim{claim.id, claim.keys, store->within(last_part(claim.id)), claim.inner_store};
  }
  return claim;
}

// "CLAIM@USER": of the claims that may be meant, those of that user. An id that two have is none's alone. No claim is named by
// a word with an "@", and a user may be.
struct Meant {
  std::string claim;
  std::optional<std::string> user;
};

Meant meant_in(const std::string& word) {
  const std::size_t at = word.find('@');
  if (at == std::string::npos || at == 0 || at + 1 == word.size()) return {word, std::nullopt};
  return {word.substr(0, at), word.substr(at + 1)};
}

std::vector<KeptClaim> claims_meant(const Meant& meant, const ClaimSearch& search, const std::vector<KeptClaim>& all) {
  std::vector<KeptClaim> found = meant_by(meant.claim, search, all);
  if (meant.user)
    std::erase_if(found, [&](const KeptClaim& claim) {
      return search.user_name(claim.uid) != *meant.user && std::to_string(claim.uid) != *meant.user;
    });
  return found;
}

// A word without a path. Inside a claim it means what is claimed inside, if there is such a one, from the innermost outwards.
KeptClaim by_word(const std::string& word, const ClaimSearch& search) {
  const Meant meant = meant_in(word);
  if (search.store && !word.empty())
    for (const OuterClaim& around : claims_around(*search.store, search.environment)) {
      const std::vector<KeptClaim> all = kept_claims(search, around.store.get(), &around);
      if (std::vector<KeptClaim> found = claims_meant(meant, search, all); !found.empty())
        return only_one(std::move(found), word, search, all);
    }
  const std::vector<KeptClaim> all = kept_claims(search, search.store);
  std::vector<KeptClaim> found;
  if (word.empty())
    std::copy_if(all.begin(), all.end(), std::back_inserter(found), [&](const KeptClaim& c) { return c.uid == search.uid; });
  else if (found = claims_meant(meant, search, all); found.empty() && !meant.user)
    found = with_id(word, search, search.store, nullptr, all);
  const std::string around = here(search.environment);
  if (found.empty() && word.size() >= shortest_beginning && around.starts_with(word))
    refuse_ended(around, search, list(all, search));
  return only_one(mine_first(std::move(found), search.uid), word, search, all);
}

}  // namespace

KeptClaim find_claim(const ClaimSearch& search, const std::string& word) {
  const std::string around = here(search.environment);
  const bool is_here = word.empty() && !around.empty();
  KeptClaim claim = is_here || is_path(word) ? by_path(is_here ? around : word, search, is_here) : by_word(word, search);
  if (claim.uid != search.uid && search.uid != 0) {
    const std::string owner = printable(search.user_name(claim.uid), 32);
    throw Error(ErrorCode::unavailable, fmt::format("claim {} is {}'s", claim.id, owner)).about(printable(word, 60)).hint(
        fmt::format("only {} can release, extend or enter it", claim.uid == 0 ? owner : owner + " and root"));
  }
  claim.directory = search.directory(claim.id, claim.uid);
  const bool perhaps_a_jobs = search.job_of_lane && claim.pid > 0 && claim.uid == search.uid;
  if (perhaps_a_jobs) claim.job = search.job_of_lane(claim.pid);
  return claim;
}

bool looks_like_a_claim(std::string_view word) {
  return is_path(word) || (word.size() >= shortest_beginning && is_hex(word)) || meant_in(std::string(word)).user;
}

bool is_too_short_for_a_claim(const ClaimSearch& search, const std::string& word) {
  if (word.empty() || word.size() >= shortest_beginning || !is_hex(word)) return false;
  return std::ranges::any_of(kept_claims(search, search.store), [&](const KeptClaim& c) { return c.id.starts_with(word); });
}

KeptClaim claim_with_id(const ClaimSearch& search, const std::string& word) {
  if (is_path(word)) return by_path(word, search, false);
  const Meant meant = meant_in(word);
  const auto found_in = [&](port::ClaimStore* store, const OuterClaim* around, const std::vector<KeptClaim>& all) {
    return meant.user ? claims_meant(meant, search, all) : with_id(word, search, store, around, all);
  };
  if (search.store)
    for (const OuterClaim& around : claims_around(*search.store, search.environment)) {
      const std::vector<KeptClaim> all = kept_claims(search, around.store.get(), &around);
      if (std::vector<KeptClaim> found = found_in(around.store.get(), &around, all); !found.empty())
        return only_one(std::move(found), word, search, all);
    }
  const std::vector<KeptClaim> all = kept_claims(search, search.store);
  return only_one(mine_first(found_in(search.store, nullptr, all), search.uid), word, search, all);
}

}  // namespace thole::app
