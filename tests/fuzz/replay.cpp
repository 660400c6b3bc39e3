// replay CORPUS MUTATIONS: runs every file of the corpus and that many mutations of each. The same every time; an input that
// ends the program is left in ./<program>.crash.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <vector>

#include "base/fd.hpp"
#include "fuzz.hpp"

namespace {

std::string current, crash_file;

void keep_the_input(int signal) {
  int fd = ::open(crash_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd >= 0) (void)!::write(fd, current.data(), current.size());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

class Random {  // splitmix64
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t operator()(std::uint64_t below) { return next() % below; }

 private:
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

// What parsers stumble over.
const std::string pieces[] = {"",
                              "0",
                              "-1",
                              "18446744073709551616",
                              "9223372036854775807",
                              "1e999",
                              "NaN",
                              "\n",
                              ",",
                              ":",
                              ".",
                              "-",
                              "/",
                              "..",
                              "\"",
                              "\\",
                              "{",
                              "}",
                              "[",
                              "]",
                              "null",
                              "true",
                              "\x1b[2J",
                              "\xff",
                              "\xe2\x80\xae",
                              std::string(1, '\0'),
                              "%s",
                              std::string(300, 'A'),
                              std::string(64, '[')};

std::string mutated(std::string text, const std::vector<std::string>& corpus, Random& random) {
  for (std::uint64_t steps = 1 + random(4); steps > 0; --steps) {
    std::size_t at = random(text.size() + 1), length = random(16) + 1;
    switch (random(8)) {
      case 0: if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << random(8))); break;
      case 1: if (at < text.size()) text[at] = static_cast<char>(random(256)); break;
      case 2: text.erase(at, length); break;
      case 3: text.insert(at, pieces[random(std::size(pieces))]); break;
      case 4: text.replace(at, std::min(length, text.size() - at), pieces[random(std::size(pieces))]); break;
      case 5: text.insert(at, text.substr(random(text.size() + 1), length * 4)); break;
      case 6: text.resize(at); break;
      case 7: {
        const std::string& other = corpus[random(corpus.size())];
        text = text.substr(0, at) + other.substr(random(other.size() + 1));
        break;
      }
    }
  }
  return text.substr(0, 1 << 16);
}

void run(const std::string& input) {
  current = input;
  fuzz_one(reinterpret_cast<const std::uint8_t*>(current.data()), current.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: %s CORPUS MUTATIONS\n", argv[0]), 64;
  crash_file = std::filesystem::path(argv[0]).filename().string() + ".crash";
  for (int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, keep_the_input);

  std::vector<std::string> files, corpus;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) files.push_back(entry.path());
  std::sort(files.begin(), files.end());  // a directory's own order differs between file systems
  for (const std::string& file : files) corpus.push_back(thole::read_file(file).value());
  if (corpus.empty()) return std::fprintf(stderr, "no corpus in %s\n", argv[1]), 1;

  Random random(20261121);
  for (const std::string& text : corpus) run(text);
  for (const std::string& text : corpus)
    for (long n = std::atol(argv[2]); n > 0; --n) run(mutated(text, corpus, random));
  std::printf("%zu inputs, %s mutations of each\n", corpus.size(), argv[2]);
  return 0;
}
