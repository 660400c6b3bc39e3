// The probe by itself, as `thole __probe NAME` runs it: for tests that need no other part of the program.
#include "host/probe/channel.hpp"

int main(int argc, char** argv) { return argc == 3 ? thole::host::probe_main(argv[2]) : 64; }
