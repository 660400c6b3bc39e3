// The numbers 0 to 2. In a program that has closed them the kernel gives them out again, and what the program prints next would
// go into whatever it opened last: a lock file.
#pragma once

namespace thole {

// First thing in a program: those of 0 to 2 that are closed get an open file that can neither be read nor written (EBADF, as
// before), so that nothing else gets these numbers. A command that is started does not inherit it.
void fill_standard_descriptors();

// For a library, whose program may have closed them: the same descriptor, with CLOEXEC, under a number above 2. -1 stays -1;
// where there is none left it is closed (errno).
int above_standard(int fd);

}  // namespace thole
