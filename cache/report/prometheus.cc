#include "wheelcache/cache/report/prometheus.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "wheelcache/cache/report/internal/format.h"
#include "wheelcache/cache/types/histogram.h"
#include "wheelcache/cache/types/stats.h"

namespace wheelcache {
namespace {

absl::string_view TypeOf(const Metric& metric) {
  switch (metric.kind) {
    case Metric::Kind::kCounter:
      return "counter";
    case Metric::Kind::kGauge:
      return "gauge";
    case Metric::Kind::kHistogram:
      break;
  }
  return "histogram";
}

// Whole numbers exactly, up to 2^53; others as short as they can be.
std::string FormatNumber(double value) {
  if (std::isinf(value)) return "+Inf";
  return value == std::floor(value) ? absl::StrFormat("%.0f", value)
                                    : absl::StrFormat("%.15g", value);
}

// The metrics of one name, of all caches.
class Family {
 public:
  explicit Family(const Metric& metric)
      : name_(metric.name),
        text_(absl::StrCat("# HELP ", name_, " ", metric.help, "\n# TYPE ",
                           name_, " ", TypeOf(metric), "\n")) {}

  const std::string& name() const { return name_; }
  const std::string& text() const { return text_; }

  // `labels` are those of the cache.
  void Add(absl::string_view labels, const Metric& metric) {
    if (metric.histogram != nullptr) {
      AddHistogram(labels, *metric.histogram);
    } else if (metric.label.empty()) {
      AddSample("", labels, metric.value);
    } else {
      AddSample("", absl::StrCat(labels, ",", metric.label), metric.value);
    }
  }

 private:
  void AddHistogram(absl::string_view labels, const Histogram& histogram) {
    int64_t count = 0;  // Buckets are cumulative.
    for (size_t i = 0; i < histogram.bounds.size(); ++i) {
      count += histogram.counts[i];
      AddSample("_bucket",
                absl::StrCat(labels, ",le=\"",
                             FormatNumber(histogram.bounds[i]), "\""),
                static_cast<double>(count));
    }
    count += histogram.counts[histogram.bounds.size()];
    AddSample("_bucket", absl::StrCat(labels, ",le=\"+Inf\""),
              static_cast<double>(count));
    AddSample("_sum", labels, histogram.sum);
    AddSample("_count", labels, static_cast<double>(count));
  }

  void AddSample(absl::string_view suffix, absl::string_view labels,
                 double value) {
    absl::StrAppend(&text_, name_, suffix, "{", labels, "} ",
                    FormatNumber(value), "\n");
  }

  std::string name_;
  std::string text_;
};

std::string LabelsOf(absl::string_view kind, const std::string& name, int id) {
  std::string labels =
      absl::StrCat(kind, "=\"", internal::EscapeLabel(name), "\"");
  if (id > 1) absl::StrAppend(&labels, ",id=\"", id, "\"");
  return labels;
}

struct ShareNumber {
  absl::string_view name;
  absl::string_view help;
  Metric::Kind kind;
  double (*value)(const ShareStats& stats);
};
struct MemberNumber {
  absl::string_view name;
  absl::string_view help;
  Metric::Kind kind;
  double (*value)(const ShareStats::Member& member);
};

constexpr Metric::Kind kCounter = Metric::Kind::kCounter;
constexpr Metric::Kind kGauge = Metric::Kind::kGauge;

constexpr ShareNumber kShareNumbers[] = {
    {"wheelcache_share_max_bytes", "The bytes of all members together.", kGauge,
     [](const ShareStats& s) { return static_cast<double>(s.max_bytes); }},
    {"wheelcache_share_limit_bytes", "The same, less while memory is short.",
     kGauge, [](const ShareStats& s) { return static_cast<double>(s.limit); }},
    {"wheelcache_share_free_bytes", "Bytes that no member has.", kGauge,
     [](const ShareStats& s) { return static_cast<double>(s.free_bytes); }},
    {"wheelcache_share_moved_bytes_total", "Bytes that went to a member.",
     kCounter,
     [](const ShareStats& s) { return static_cast<double>(s.moved_bytes); }},
    {"wheelcache_share_shrinks_total",
     "How often a shortage of memory has lowered the limit.", kCounter,
     [](const ShareStats& s) { return static_cast<double>(s.memory.shrinks); }},
    {"wheelcache_share_memory_errors_total",
     "How often the use of memory could not be read.", kCounter,
     [](const ShareStats& s) { return static_cast<double>(s.memory.errors); }},
};

constexpr MemberNumber kMemberNumbers[] = {
    {"wheelcache_share_member_bytes", "The limit of a member.", kGauge,
     [](const ShareStats::Member& m) { return static_cast<double>(m.bytes); }},
    {"wheelcache_share_member_gain_hits_per_second",
     "Weighted hits a second that a MiB more would gain.", kGauge,
     [](const ShareStats::Member& m) { return m.gain; }},
    {"wheelcache_share_member_loss_hits_per_second",
     "Weighted hits a second that a MiB fewer would lose.", kGauge,
     [](const ShareStats::Member& m) { return m.loss; }},
    {"wheelcache_share_member_taken_bytes_total", "Bytes that it was given.",
     kCounter,
     [](const ShareStats::Member& m) {
       return static_cast<double>(m.taken_bytes);
     }},
    {"wheelcache_share_member_given_bytes_total", "Bytes that it gave others.",
     kCounter,
     [](const ShareStats::Member& m) {
       return static_cast<double>(m.given_bytes);
     }},
};

std::string SharesText(absl::Span<const ShareReport> shares) {
  std::string text;
  if (shares.empty()) return text;
  for (const ShareNumber& number : kShareNumbers) {
    Family family({number.name, number.help, "", number.kind});
    for (const ShareReport& share : shares) {
      family.Add(LabelsOf("share", share.name, share.id),
                 {number.name, "", "", number.kind, number.value(share.stats)});
    }
    text += family.text();
  }
  for (const MemberNumber& number : kMemberNumbers) {
    Family family({number.name, number.help, "", number.kind});
    for (const ShareReport& share : shares) {
      for (const auto& member : share.stats.members) {
        std::string label =
            absl::StrCat("member=\"", internal::EscapeLabel(member.name), "\"");
        if (member.id > 1) {
          absl::StrAppend(&label, ",member_id=\"", member.id, "\"");
        }
        family.Add(LabelsOf("share", share.name, share.id),
                   {number.name, "", label, number.kind, number.value(member)});
      }
    }
    text += family.text();
  }
  return text;
}

}  // namespace

std::string PrometheusText() {
  return PrometheusText(ReportCaches(), ReportShares());
}

std::string PrometheusText(absl::Span<const CacheReport> reports,
                           absl::Span<const ShareReport> shares) {
  std::vector<Family> families;
  for (const CacheReport& report : reports) {
    const std::string labels = LabelsOf("cache", report.name, report.id);
    report.ForEachMetric([&](const Metric& metric) {
      auto family = std::find_if(
          families.begin(), families.end(),
          [&](const Family& each) { return each.name() == metric.name; });
      if (family == families.end()) {
        family = families.emplace(family, metric);
      }
      family->Add(labels, metric);
    });
  }
  std::string text;
  for (const Family& family : families) text += family.text();
  return text + SharesText(shares);
}

}  // namespace wheelcache
