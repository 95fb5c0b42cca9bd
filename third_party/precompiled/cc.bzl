"""cc_library, cc_binary and cc_test whose sources begin with precompiled headers,
and the files that make up a folder's library.

Parsing the headers of Abseil, GoogleTest and the standard library takes most of
a file's compile time. Of our own headers only those of messages are precompiled,
for the files that use them, so that few changes make the compiled forms anew.
Sources still include what they use: builds with --define=precompiled=no, as
tests/run.sh --full tsan does, precompile nothing, and fail where an include is
missing.
"""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

_PROTO = "//proto/hearth/v1:hearth_proto"

def _precompiled_headers_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    compiler = cc_common.get_tool_for_action(
        feature_configuration = features,
        action_name = CPP_COMPILE_ACTION_NAME,
    )
    clang = "clang" in compiler
    precompile = ctx.var.get("precompiled") != "no"
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    outputs = [header]
    included = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context
    ctx.actions.write(
        output = header,
        content = "".join([
            "#include <%s>\n" % name
            for name in ctx.attr.headers
        ]) if precompile else "",
    )
    if precompile:
        # g++ reads X.h.gch in place of X.h, but for targets with options that
        # change what these headers say, such as -fopenmp. clang reads X.h.pch,
        # whatever the options (-fno-validate-pch in .bazelrc).
        compiled = ctx.actions.declare_file(
            header.basename + (".pch" if clang else ".gch"),
        )
        outputs.append(compiled)
        variables = cc_common.create_compile_variables(
            feature_configuration = features,
            cc_toolchain = toolchain,
            source_file = header.path,
            output_file = compiled.path,
            include_directories = included.includes,
            user_compile_flags = ctx.fragments.cpp.copts +
                                 ctx.fragments.cpp.cxxopts +
                                 ctx.attr.copts +
                                 ["-x", "c++-header"],
            use_pic = True,
        )
        arguments = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = variables,
        )
        if clang:
            # From standard input: it would name the header, by its place in this
            # action's sandbox, as a dependency of all that use it.
            arguments = [
                "-" if argument == header.path else argument
                for argument in arguments
            ]
        ctx.actions.run_shell(
            command = "\"$@\" <%s" % header.path,
            arguments = [compiler] + arguments,
            env = cc_common.get_environment_variables(
                feature_configuration = features,
                action_name = CPP_COMPILE_ACTION_NAME,
                variables = variables,
            ),
            inputs = depset(
                [header],
                transitive = [toolchain.all_files, included.headers],
            ),
            outputs = [compiled],
            mnemonic = "CppPrecompile",
            progress_message = "Precompiling the headers of %s" % ctx.label,
        )
    return [
        DefaultInfo(files = depset(outputs)),
        CcInfo(compilation_context = cc_common.create_compilation_context(
            headers = depset(outputs),
        )),
    ]

precompiled_headers = rule(
    implementation = _precompiled_headers_impl,
    doc = "The header NAME.h, which includes `headers`, and its compiled form.",
    attrs = {
        "headers": attr.string_list(
            mandatory = True,
            doc = "Headers as they stand between < and >.",
        ),
        "copts": attr.string_list(
            doc = "Options with which the sources that use it are compiled, too.",
        ),
        "deps": attr.label_list(
            providers = [CcInfo],
            doc = "Libraries that have those of the headers that are ours.",
        ),
        "_cc_toolchain": attr.label(
            default = "@bazel_tools//tools/cpp:current_cc_toolchain",
        ),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def _precompiled(kind, attributes):
    deps = attributes.get("deps", [])
    headers = "proto_" + kind if _PROTO in deps else kind
    return dict(
        attributes,
        # clang looks for the compiled form by this path alone, as it stands.
        copts = ["-include", "$(BINDIR)/third_party/precompiled/%s.h" % headers] +
                attributes.get("copts", []),
        deps = deps + ["//third_party/precompiled:" + headers],
    )

def cc_library(**attributes):
    # Without this Bazel also links a shared library, which nothing loads.
    native.cc_library(linkstatic = True, **_precompiled("library", attributes))

def cc_binary(**attributes):
    native.cc_binary(**_precompiled("library", attributes))

def cc_test(**attributes):
    native.cc_test(**_precompiled("test", attributes))

def folder_sources(exclude = []):
    """Sources of a folder's library: all but tests, their fixtures, benchmarks and `exclude`."""
    return native.glob(
        ["*.cc"],
        exclude = ["*_test.cc", "*_fixture.cc", "*_benchmark.cc"] + exclude,
    )

def folder_headers(exclude = []):
    """Headers of a folder's library: all but fixtures of tests and `exclude`."""
    return native.glob(["*.h"], exclude = ["*_fixture.h"] + exclude)
