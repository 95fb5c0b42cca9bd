#include <iostream>

#include "client/cli/reference.h"

int main() {
  std::cout << hearth::cli::OptionsPage();
  return std::cout.flush() ? 0 : 1;
}
