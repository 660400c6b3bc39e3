#include <cstdio>

int main() {
  std::puts("thole " THOLE_VERSION);
  return 0;
}
