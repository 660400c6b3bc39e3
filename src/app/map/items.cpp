#include "app/map/items.hpp"

#include <cerrno>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "base/stream.hpp"
#include "plan/job/items.hpp"

namespace thole::app {

namespace {

constexpr std::size_t one_read = 64 * 1024;

std::string read_to_the_end(int fd, const std::string& name) {
  std::optional<std::string> text = await_all(fd, std::numeric_limits<std::size_t>::max());
  if (!text) throw Error(ErrorCode::unavailable, "cannot read the items").about(name).because(errno);
  return *std::move(text);
}

}  // namespace

ItemSource::Next ListedItems::next(std::vector<std::string>& cells) {
  std::uint64_t rest = at_;
  cells.resize(lists_.size());
  for (std::size_t list = lists_.size(); list-- > 0;) {
    const std::uint64_t length = lists_[list].size();
    if (length == 0) return Next::end;
    cells[list] = lists_[list][rest % length];
    rest /= length;
  }
  if (rest > 0) return Next::end;
  ++at_;
  return Next::item;
}

ItemSource::Next TableItems::next(std::vector<std::string>& cells) {
  if (at_ >= items_.size()) return Next::end;
  cells = items_.row(at_++);
  return Next::item;
}

ItemLines::ItemLines(Fd file, std::string name, char ends_by)
    : file_(std::move(file)), name_(std::move(name)), ends_by_(ends_by), waits_(may_wait(file_.get())) {}

ItemSource::Next ItemLines::next(std::vector<std::string>& cells) {
  for (;;) {
    if (take_line(cells)) return Next::item;
    if (over_) return Next::end;
    if (waits_ && !is_readable(file_.get())) return Next::later;
    buffer_.erase(0, at_);
    searched_ -= at_;
    at_ = 0;
    const std::size_t used = buffer_.size();
    buffer_.resize(used + one_read);
    const auto size = read_some(file_.get(), buffer_.data() + used, one_read);
    const int why = size ? 0 : errno;
    buffer_.resize(used + size.value_or(0));
    if (why == EIO && is_terminal(file_.get()))
      throw Error(ErrorCode::unavailable, "the items cannot be read from the terminal by what runs in the background")
          .hint("give them by a file (-a FILE), a pipe or :::, or leave the command in the foreground");
    if (!size && why != EAGAIN) throw Error(ErrorCode::unavailable, "cannot read the items").about(name_).because(why);
    over_ = size == 0u;
  }
}

bool ItemLines::take_line(std::vector<std::string>& cells) {
  while (at_ < buffer_.size()) {
    std::size_t end = buffer_.find(ends_by_, searched_);
    if (end == std::string::npos) {
      searched_ = buffer_.size();
      if (!over_) return false;
      end = buffer_.size();
    }
    const std::size_t begin = at_;
    at_ = searched_ = end + 1;
    std::size_t length = end - begin;
    if (ends_by_ == '\n') {
      if (length > 0 && buffer_[begin + length - 1] == '\r') --length;
      if (length == 0) continue;
      if (std::memchr(buffer_.data() + begin, '\0', length))
        throw Error(ErrorCode::usage, "a line holds a zero byte, so it can be no argument")
            .hint("for items that end by one: -0");
    }
    cells.resize(1);
    cells[0].assign(buffer_, begin, length);
    if (at_ > buffer_.size()) at_ = searched_ = buffer_.size();
    return true;
  }
  return false;
}

std::unique_ptr<ItemSource> csv_items(const Fd& file, const std::string& name, std::vector<std::string>& columns) {
  plan::ReadItems read = plan::parse_csv(read_to_the_end(file.get(), name), name);
  columns = std::move(read.columns);
  return std::make_unique<TableItems>(std::move(read.items));
}

}  // namespace thole::app
