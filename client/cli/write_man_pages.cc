#include <fstream>
#include <iostream>
#include <string>

#include "client/cli/reference.h"

// Writes the manual pages to the folder in the first argument.
int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: write_man_pages FOLDER\n";
    return 2;
  }
  for (const auto& [name, text] : hearth::cli::ManPages()) {
    std::ofstream file(std::string(argv[1]) + "/" + name);
    if (!(file << text).flush()) {
      std::cerr << argv[1] << "/" << name << ": cannot be written\n";
      return 1;
    }
  }
  return 0;
}
