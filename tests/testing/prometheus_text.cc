#include "wheelcache/tests/testing/prometheus_text.h"

#include <cstddef>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace wheelcache::testing {
namespace {

using Labels = std::map<std::string, std::string>;  // Values as escaped.

struct Sample {
  std::string name;
  Labels labels;
  double value = 0;
};

std::string Write(absl::string_view name, const Labels& labels) {
  std::vector<std::string> pairs;
  for (const auto& [label, value] : labels) {
    pairs.push_back(absl::StrCat(label, "=\"", value, "\""));
  }
  return absl::StrCat(name, "{", absl::StrJoin(pairs, ","), "}");
}

// Takes a name off the beginning of the text; empty if there is none.
std::string TakeName(absl::string_view* text) {
  size_t length = 0;
  while (length < text->size()) {
    const char c = (*text)[length];
    const bool letter = absl::ascii_isalpha(c) || c == '_';
    if (!letter && (length == 0 || !absl::ascii_isdigit(c))) break;
    ++length;
  }
  const std::string name(text->substr(0, length));
  text->remove_prefix(length);
  return name;
}

// The same of a quoted value, which it leaves escaped.
bool TakeQuoted(absl::string_view* text, std::string* value) {
  if (!absl::ConsumePrefix(text, "\"")) return false;
  value->clear();
  while (!text->empty() && text->front() != '"') {
    const size_t length = text->front() == '\\' ? 2 : 1;
    if (length == 2 &&
        (text->size() < 2 || !absl::StrContains("\\\"n", text->substr(1, 1)))) {
      return false;
    }
    absl::StrAppend(value, text->substr(0, length));
    text->remove_prefix(length);
  }
  return absl::ConsumePrefix(text, "\"");
}

bool TakeLabels(absl::string_view* text, Labels* labels) {
  if (!absl::ConsumePrefix(text, "{")) return true;
  do {
    const std::string label = TakeName(text);
    std::string value;
    if (label.empty() || absl::StartsWith(label, "__") ||
        !absl::ConsumePrefix(text, "=") || !TakeQuoted(text, &value) ||
        !labels->emplace(label, value).second) {
      return false;
    }
  } while (absl::ConsumePrefix(text, ","));
  return absl::ConsumePrefix(text, "}");
}

bool ParseValue(absl::string_view text, double* value) {
  if (text == "+Inf") {
    *value = std::numeric_limits<double>::infinity();
    return true;
  }
  return !text.empty() &&
         text.find_first_not_of("0123456789.e+-") == absl::string_view::npos &&
         absl::SimpleAtod(text, value);
}

bool ParseSample(absl::string_view line, Sample* sample) {
  sample->name = TakeName(&line);
  return !sample->name.empty() && TakeLabels(&line, &sample->labels) &&
         absl::ConsumePrefix(&line, " ") && ParseValue(line, &sample->value);
}

// What Prometheus' linter says of names.
bool FollowsConventions(absl::string_view name, absl::string_view type) {
  const std::vector<std::string> words = absl::StrSplit(name, '_');
  for (const std::string& word : words) {
    for (const char* bad :
         {"",      "counter", "gauge",  "histogram",    "summary", "ms",
          "msec",  "sec",     "millis", "milliseconds", "nanos",   "kb",
          "kib",   "mb",      "mib",    "percent",      "minutes", "hours",
          "count", "sum",     "bucket"}) {
      if (word == bad) return false;
    }
  }
  return (words.back() == "total") == (type == "counter") &&
         absl::AsciiStrToLower(name) == name;
}

class Parser {
 public:
  absl::Status Parse(absl::string_view text) {
    if (text.empty()) return absl::OkStatus();
    if (!absl::ConsumeSuffix(&text, "\n")) return Wrong("no end of line");
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      ++line_;
      absl::Status status = ParseLine(line);
      if (!status.ok()) return status;
    }
    return EndFamily();
  }

  const PrometheusSamples& samples() const { return samples_; }

 private:
  absl::Status Wrong(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("line ", line_, ", ", family_, ": ", what));
  }

  absl::Status ParseLine(absl::string_view line) {
    if (absl::ConsumePrefix(&line, "# HELP ")) {
      absl::Status status = EndFamily();
      family_ = TakeName(&line);
      type_.clear();
      const bool helps = absl::ConsumePrefix(&line, " ") && !line.empty();
      if (!helps) return Wrong("no help");
      if (!families_.insert(family_).second) return Wrong("comes twice");
      return status;
    }
    if (absl::ConsumePrefix(&line, "# TYPE ")) {
      if (TakeName(&line) != family_) return Wrong("TYPE of another");
      if (!type_.empty()) return Wrong("TYPE comes twice");
      type_ = std::string(absl::StripPrefix(line, " "));
      if (type_ != "counter" && type_ != "gauge" && type_ != "histogram") {
        return Wrong("no such type");
      }
      return FollowsConventions(family_, type_) ? absl::OkStatus()
                                                : Wrong("unconventional name");
    }
    return AddSample(line);
  }

  absl::Status AddSample(absl::string_view line) {
    Sample sample;
    if (type_.empty()) return Wrong("a sample before its TYPE");
    if (!ParseSample(line, &sample)) return Wrong("no sample");
    const bool known = type_ == "histogram"
                           ? sample.name == absl::StrCat(family_, "_bucket") ||
                                 sample.name == absl::StrCat(family_, "_sum") ||
                                 sample.name == absl::StrCat(family_, "_count")
                           : sample.name == family_;
    if (!known) return Wrong("a sample of another");
    const bool bucket = absl::EndsWith(sample.name, "_bucket");
    if (bucket != (sample.labels.count("le") == 1)) return Wrong("le");
    if (!samples_.emplace(Write(sample.name, sample.labels), sample.value)
             .second) {
      return Wrong("a sample comes twice");
    }
    if (type_ == "counter" && !(sample.value >= 0)) return Wrong("negative");
    return type_ == "histogram" ? AddToHistogram(sample) : absl::OkStatus();
  }

  absl::Status AddToHistogram(Sample sample) {
    if (!absl::EndsWith(sample.name, "_bucket")) {
      if (!absl::EndsWith(sample.name, "_count")) return absl::OkStatus();
      const auto last = buckets_.find(Write("", sample.labels));
      const bool complete = last != buckets_.end() &&
                            last->second.bound == kInfinity &&
                            last->second.count == sample.value;
      if (!complete) return Wrong("the last bucket is not the count");
      buckets_.erase(last);
      return absl::OkStatus();
    }
    double bound;
    if (!ParseValue(sample.labels["le"], &bound)) return Wrong("no bound");
    sample.labels.erase("le");
    Bucket& last = buckets_[Write("", sample.labels)];
    if (bound <= last.bound) return Wrong("bounds do not ascend");
    if (sample.value < last.count) return Wrong("buckets are not cumulative");
    last = {bound, sample.value};
    return absl::OkStatus();
  }

  absl::Status EndFamily() {
    if (!family_.empty() && type_.empty()) return Wrong("no TYPE");
    return buckets_.empty() ? absl::OkStatus() : Wrong("no count");
  }

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  struct Bucket {
    double bound = -kInfinity;
    double count = 0;
  };

  int line_ = 0;
  std::string family_;
  std::string type_;
  std::set<std::string> families_;
  std::map<std::string, Bucket> buckets_;  // The last of each histogram.
  PrometheusSamples samples_;
};

}  // namespace

absl::StatusOr<PrometheusSamples> ParsePrometheusText(absl::string_view text) {
  Parser parser;
  absl::Status status = parser.Parse(text);
  if (!status.ok()) return status;
  return parser.samples();
}

}  // namespace wheelcache::testing
