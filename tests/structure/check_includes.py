#!/usr/bin/env python3
"""Compares every #include with the direct dependencies that Bazel knows.

The sandbox hides headers that are no dependency at all; this also refuses headers
that are only reached through another library, and headers of system libraries
whose target is not named. Reads `bazel query --output=xml` from standard input:

  bazel query --output=xml 'kind("cc_(library|binary|test)", //...)' |
      tests/structure/check_includes.py
"""

import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

# Prefix of an include -> the targets of which one must be a dependency.
SYSTEM_HEADERS = {
    "absl/": ["//third_party:absl"],
    "benchmark/": ["//third_party:benchmark"],
    "CLI/": ["//third_party:cli11"],
    "grpcpp/": ["//third_party:grpc"],
    "google/protobuf/": ["//third_party:protobuf", "//third_party:grpc"],
    "google/rpc/": ["//third_party:grpc"],
    "gtest/": ["//third_party:gtest_main"],
    "gmock/": ["//third_party:gtest_main"],
    "hwy/": ["//third_party:highway"],
    "nlohmann/": ["//third_party:json"],
    "openssl/": ["//third_party:openssl"],
    "prometheus/": ["//third_party:prometheus"],
    "spdlog/": ["//third_party:spdlog"],
    "fmt/": ["//third_party:spdlog"],
    "sqlite3.h": ["//third_party:sqlite"],
    "systemd/": ["//third_party:systemd"],
    "yaml-cpp/": ["//third_party:yaml_cpp"],
    "zlib.h": ["//third_party:zlib"],
    "zstd": ["//third_party:zstd"],
    "liburing": ["//third_party:uring"],
    "torch/": ["@libtorch//:torch_cpu"],
    "ATen/": ["@libtorch//:torch_cpu"],
    "c10/": ["@libtorch//:torch_cpu"],
}
PROTO_TARGET = "//proto/hearth/v1:hearth_proto"
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)


def labels(rule, attribute):
    node = rule.find(f"list[@name='{attribute}']")
    return [] if node is None else [n.get("value") for n in node]


def source_path(label):
    package, name = label[2:].split(":")
    return f"{package}/{name}"


def needed_target(include, header_owner):
    """Targets any of which provides `include`; None for headers of the language
    and of the operating system."""
    if include.startswith("hearth/v1/"):
        return [PROTO_TARGET]
    if include in header_owner:
        return header_owner[include]
    for prefix, targets in SYSTEM_HEADERS.items():
        if include.startswith(prefix):
            return targets
    return None


def main():
    rules = ElementTree.parse(sys.stdin).getroot().findall("rule")
    header_owner = {}
    for rule in rules:
        for header in labels(rule, "hdrs"):
            header_owner.setdefault(source_path(header), []).append(
                rule.get("name"))
    problems = []
    for rule in rules:
        if rule.get("name").startswith("//third_party"):
            continue  # Wrappers of system libraries, which others depend on.
        own = {source_path(l) for a in ("srcs", "hdrs")
               for l in labels(rule, a) if l.startswith("//")}
        deps = set(labels(rule, "deps"))
        for path in sorted(own):
            if not pathlib.Path(path).is_file():
                continue  # Generated.
            for include in INCLUDE.findall(pathlib.Path(path).read_text()):
                if include in own:
                    continue
                targets = needed_target(include, header_owner)
                if targets is None:
                    if include.split("/")[0] in ("engine", "server", "client",
                                                 "kernels", "tests"):
                        problems.append(f"{path}: nobody owns {include}")
                elif not deps.intersection(targets):
                    problems.append(
                        f"{path}: {include} needs {' or '.join(targets)} "
                        f"among the deps of {rule.get('name')}")
    for problem in problems:
        print(problem)
    print(f"{len(rules)} targets, {len(problems)} undeclared includes")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
