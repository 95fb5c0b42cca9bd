#ifndef HEARTH_TESTS_BENCH_SWITCHED_CRC32C_H_
#define HEARTH_TESTS_BENCH_SWITCHED_CRC32C_H_

namespace hearth::bench {

/// A program that links this has other functions in place of those of
/// engine/base/crc32c.h. All checksums are 0, so that all match. With `on`, as
/// it begins, the true checksum is computed all the same: the difference is
/// what checksums cost. Files of such a program are of no use to any other.
void SwitchChecksums(bool on);

}  // namespace hearth::bench

#endif  // HEARTH_TESTS_BENCH_SWITCHED_CRC32C_H_
