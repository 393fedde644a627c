"""Rules for the tests of symbol visibility."""

load("@rules_cc//cc:defs.bzl", "cc_binary")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":wheelcache.bzl", "wheelcache_test")

HIDDEN = ["-fvisibility=hidden"]

def wheelcache_module(name, srcs, copts = [], **kwargs):
    """A shared object, lib<name>.so, all of whose symbols are hidden but for those that the sources export."""
    cc_binary(
        name = "lib%s.so" % name,
        testonly = True,
        srcs = srcs,
        copts = HIDDEN + copts,
        linkshared = True,
        **kwargs
    )

def hidden_test(name, copts = [], **kwargs):
    """Hides the symbols of the test's own code. --copt=-fvisibility=hidden hides those of the library as well."""
    wheelcache_test(
        name = name,
        copts = HIDDEN + copts,
        **kwargs
    )

def _merged(deps):
    return cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in deps])

def _headers_impl(ctx):
    return [CcInfo(compilation_context = _merged(ctx.attr.deps).compilation_context)]

# The headers of libraries, without what these would link.
headers = rule(
    implementation = _headers_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)

def _own_libraries_impl(ctx):
    info = _merged(ctx.attr.deps)
    own = [
        linker_input
        for linker_input in info.linking_context.linker_inputs.to_list()
        if not linker_input.owner.workspace_name
    ]
    return [CcInfo(
        compilation_context = info.compilation_context,
        linking_context = cc_common.create_linking_context(linker_inputs = depset(own, order = "topological")),
    )]

# Libraries without what they link of other repositories: Debian's archives of Abseil cannot be linked into a shared
# object, which finds Abseil in the program.
own_libraries = rule(
    implementation = _own_libraries_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)
