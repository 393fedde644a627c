"""Abseil, GoogleTest, Benchmark, hiredis and OpenSSL from the system, under the labels that their own Bazel builds have."""

load(":system_repository.bzl", "system_repository")

def system_libraries():
    system_repository(
        name = "com_google_absl",
        pkg_config = [
            "absl_any_invocable",
            "absl_cleanup",
            "absl_failure_signal_handler",
            "absl_flags_parse",
            "absl_flags_usage",
            "absl_flat_hash_map",
            "absl_flat_hash_set",
            "absl_hash",
            "absl_inlined_vector",
            "absl_random_random",
            "absl_statusor",
            "absl_str_format",
            "absl_synchronization",
            "absl_time",
        ],
        # Debian ships Abseil both ways. An archive spares each hash and each lock a jump through the PLT, and a
        # binary the loading of fifty libraries.
        static_prefix = "absl_",
        targets = {
            "absl/algorithm": ["algorithm", "container"],
            "absl/base": ["base", "config", "core_headers", "dynamic_annotations", "log_severity"],
            "absl/cleanup": ["cleanup"],
            "absl/container": [
                "btree",
                "fixed_array",
                "flat_hash_map",
                "flat_hash_set",
                "inlined_vector",
                "node_hash_map",
                "node_hash_set",
            ],
            "absl/debugging": ["failure_signal_handler", "leak_check", "stacktrace", "symbolize"],
            "absl/flags": ["config", "flag", "parse", "reflection", "usage"],
            "absl/functional": ["any_invocable", "bind_front", "function_ref"],
            "absl/hash": ["hash"],
            "absl/memory": ["memory"],
            "absl/meta": ["type_traits"],
            "absl/numeric": ["bits", "int128"],
            "absl/random": ["bit_gen_ref", "distributions", "random", "seed_sequences"],
            "absl/status": ["status", "statusor"],
            "absl/strings": ["str_format", "strings"],
            "absl/synchronization": ["synchronization"],
            "absl/time": ["time"],
            "absl/types": ["optional", "span", "variant"],
            "absl/utility": ["utility"],
        },
    )

    # A program with a main function of its own does not pull in the one of gmock_main or benchmark_main, so all
    # targets of a repository share its link flags.
    system_repository(
        name = "com_google_googletest",
        pkg_config = ["gmock_main"],
        targets = {"": ["gtest", "gtest_main"]},
    )
    system_repository(
        name = "com_google_benchmark",
        extra_link_flags = ["-lbenchmark_main"],
        pkg_config = ["benchmark"],
        targets = {"": ["benchmark", "benchmark_main"]},
    )

    # Only a benchmark needs it.
    system_repository(
        name = "hiredis",
        pkg_config = ["hiredis"],
        targets = {"": ["hiredis"]},
    )
    system_repository(
        name = "openssl",
        pkg_config = ["openssl"],
        targets = {"": ["ssl"]},
    )
