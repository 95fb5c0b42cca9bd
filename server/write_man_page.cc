#include <iostream>

#include "server/config.h"

// Writes the manual page of hearthd to standard output.
int main() {
  std::cout << hearth::server::ManPage();
  return std::cout.flush() ? 0 : 1;
}
