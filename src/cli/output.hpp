// The one door to stdout and stderr: nothing else in the program writes to them (tests/dependencies.py looks). Where there is
// an Outlet, through that: nobody waits then for who reads.
#pragma once

#include <string>
#include <string_view>

namespace thole::cli {

// What a terminal may be sent: lines, tabs, the program's own colours where it uses them, and the rest through printable(). A
// name that was put into a sentence without printable() can so still break a line; it can move no cursor and colour nothing.
std::string for_terminal(std::string_view text, bool colors);

// Text for people. False when it cannot be written, with errno.
bool put_text(int fd, std::string_view text, bool colors = false);

// The result, to stdout: throws Error(internal), "cannot write the result", where that is full or closed.
void give_text(std::string_view text, bool colors = false);
void give_bytes(std::string_view bytes);

// What a person is told on stderr, "thole: …": on a terminal in lines that fit it; elsewhere as it is, for a script finds a
// sentence in one line. `object`: stays in one piece where it is a path.
bool tell(std::string_view text, std::string_view object = {});

// Redraws the screen of a terminal in place, so that nothing flickers: each line is overwritten and its rest cleared. Lines
// beyond `rows` would scroll it; they are left out, and counted. `first`: the screen holds other things and is emptied.
std::string frame_of(std::string_view text, bool colors, std::size_t rows, bool first);
void give_frame(std::string_view text, bool colors, std::size_t rows, bool first);

// Bytes as they are: what somebody's command or job has written, JSON (which escapes by its own rule), scripts for a shell.
bool put_bytes(int fd, std::string_view bytes);

}  // namespace thole::cli
