// A strict reader of Prometheus' text format, version 0.0.4: refuses what
// Prometheus or its linter would refuse, and more.
//
//   const auto text = ParsePrometheusText(PrometheusText());
//   ASSERT_TRUE(text.ok()) << text.status();
//   EXPECT_EQ(text->at("wheelcache_hits_total{cache=\"users\"}"), 1);

#ifndef WHEELCACHE_TESTS_TESTING_PROMETHEUS_TEXT_H_
#define WHEELCACHE_TESTS_TESTING_PROMETHEUS_TEXT_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace wheelcache::testing {

// From each sample, its labels sorted and escaped, to its value.
using PrometheusSamples = std::map<std::string, double>;

// Returns the samples of a text, or what is wrong with it and in which line:
// each family comes once, with HELP, TYPE and then its samples; names, labels
// and values are well-formed; no sample comes twice; counters, and only they,
// end in _total; names have neither types nor abbreviated units; the buckets of
// a histogram ascend and never fall, and the last one is +Inf and its count.
absl::StatusOr<PrometheusSamples> ParsePrometheusText(absl::string_view text);

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_PROMETHEUS_TEXT_H_
