#ifndef HEARTH_TESTS_BENCH_SWITCHED_CRC32C_H_
#define HEARTH_TESTS_BENCH_SWITCHED_CRC32C_H_

namespace hearth::bench {

/// Replaces the functions of engine/base/crc32c.h in the program that links
/// this file: all checksums are 0, and match. With `on`, the default, the true
/// checksum is still computed, so that the difference is the cost of checksums.
/// Other programs cannot read files of such a program.
void SwitchChecksums(bool on);

}  // namespace hearth::bench

#endif  // HEARTH_TESTS_BENCH_SWITCHED_CRC32C_H_
