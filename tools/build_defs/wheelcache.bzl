"""The rules that wheelcache's BUILD files use: rules_cc with the project's flags and include paths.

Headers are included as "wheelcache/<package>/<header>", so that they collide with nobody's own cache/ folder.
"""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")

# Ours alone: they do not reach the headers of other libraries. .bazelrc makes them errors, here and not for those who
# build this as a part of theirs, with compilers that know other warnings.
_COPTS = ["-Wall", "-Wextra"]

# Users may compile the library's sources with their own flags, which CMake's add_subdirectory passes on.
_LIBRARY_COPTS = ["-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wold-style-cast"]

def wheelcache_library(name, srcs = [], hdrs = [], copts = [], **kwargs):
    """A library of tests, benchmarks or tools; private to its package unless visibility says otherwise.

    Its sources are compiled as one file: most of a compiler's time goes into headers, which they have in common. So no
    two of them may give the same name to different things. CMake compiles each alone.
    """
    if len(srcs) > 1:
        native.genrule(
            name = name + "_sources",
            srcs = srcs,
            outs = [name + "_sources.cc"],
            cmd = "for source in $(SRCS); do echo '#line 1 \"'$$source'\"'; cat $$source; done > $@",
        )
        srcs = [name + "_sources.cc"]
    cc_library(
        name = name,
        srcs = srcs,
        hdrs = hdrs,
        copts = _COPTS + copts,
        include_prefix = "wheelcache/" + native.package_name(),
        **kwargs
    )

def wheelcache_room(name, visibility = ["//:__subpackages__"], **kwargs):
    """All that lies in a folder of the library, and in its folder internal if that has no BUILD file.

    Seen by this project alone unless visibility says otherwise. tools/rooms checks that deps names the rooms which its
    files include, and no others.
    """
    headers = native.glob(["*.h", "internal/*.h"])
    wheelcache_library(
        name = name,
        srcs = native.glob(["*.cc", "internal/*.cc"]),
        hdrs = headers,
        copts = _LIBRARY_COPTS,
        visibility = visibility,
        **kwargs
    )

    # For the test of the examples in them.
    native.filegroup(
        name = "headers",
        srcs = headers,
        visibility = ["//tests/documentation:__pkg__"],
    )

def wheelcache_binary(name, srcs = None, copts = [], **kwargs):
    """A program, from <name>.cc unless srcs says otherwise."""
    cc_binary(
        name = name,
        srcs = srcs or [name + ".cc"],
        copts = _COPTS + copts,
        **kwargs
    )

def wheelcache_test(name, srcs = None, copts = [], deps = [], size = "small", **kwargs):
    """A GoogleTest program, from <name>.cc unless srcs says otherwise; main comes from gtest_main.

    Two tags say where .ci/run looks for what in the tests of the library; tools/nightly looks for all in all of them.
    threads: it starts threads, so that there may be data races. .ci/run checks that each such test has it.
    modelled: it makes calls that cache_model_test makes as well, to count what they do, so that AddressSanitizer would
    see nothing that it does not see there.
    """
    cc_test(
        name = name,
        size = size,
        srcs = srcs or [name + ".cc"],
        copts = _COPTS + copts,
        deps = deps + ["@com_google_googletest//:gtest_main"],
        **kwargs
    )

def wheelcache_benchmark(name, srcs = None, copts = [], deps = [], tags = [], **kwargs):
    """A Google Benchmark program, from <name>.cc unless srcs says otherwise; main comes from benchmark_main."""
    cc_binary(
        name = name,
        testonly = True,
        srcs = srcs or [name + ".cc"],
        copts = _COPTS + copts,
        tags = tags + ["benchmark"],
        deps = deps + ["@com_google_benchmark//:benchmark_main"],
        **kwargs
    )

def wheelcache_fuzz_test(name, srcs = None, corpus = [], copts = [], deps = [], tags = [], **kwargs):
    """A program that defines LLVMFuzzerTestOneInput, from <name>.cc unless srcs says otherwise.

    Under --config=fuzz it is a libFuzzer program. Otherwise it is a test that runs on each file of corpus and on a
    fixed sequence of random inputs.
    """
    cc_test(
        name = name,
        size = "small",
        srcs = srcs or [name + ".cc"],
        args = select({
            "//tools/build_defs:fuzz": [],
            "//conditions:default": ["$(rootpath %s)" % file for file in corpus],
        }),
        copts = _COPTS + copts,
        data = corpus,
        linkopts = select({
            "//tools/build_defs:fuzz": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        tags = tags + ["fuzz"],
        deps = deps + select({
            "//tools/build_defs:fuzz": [],
            "//conditions:default": ["//tests/fuzz:replay"],
        }),
        **kwargs
    )
