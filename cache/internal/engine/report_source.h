// Something that shows itself in the reports of the process: a cache, a near
// cache in the place of its local tier, or a share of caches. This is all that
// the engine knows of reports; cache/report draws them.
//
//   ReportSource::ForEach([](ReportSource& source) {
//     Show(source.name(), source.id(), source.stats());
//   });
//
// Sources of one name are told apart by an id: the lowest from 1 on that is
// free when the source comes, so that what is made again looks the same again.
//
// Threads. Thread-safe. A source that leaves waits for a ForEach to end. So
// what that calls must neither make nor end a source, nor take a lock that is
// held while one ends: stats() takes none.
//
// Errors. The constructor may throw std::bad_alloc. The rest needs no memory.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_REPORT_SOURCE_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_REPORT_SOURCE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "wheelcache/cache/types/options.h"
#include "wheelcache/cache/types/share_stats.h"
#include "wheelcache/cache/types/stats.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT ReportSource {
 public:
  using Visit = absl::FunctionRef<void(const Metric&)>;

  // The options must outlive it. `more` visits metrics beyond the statistics,
  // as CacheStats::ForEachMetric does; all sources that have any have the same.
  ReportSource(const CacheOptions& options, std::function<CacheStats()> stats,
               std::function<void(Visit)> more = nullptr);
  // Of a share, whose name must outlive it.
  ReportSource(const std::string& name, Clock* clock,
               std::function<ShareStats()> share_stats);
  ~ReportSource();
  ReportSource(const ReportSource&) = delete;
  ReportSource& operator=(const ReportSource&) = delete;

  // Calls `visit` with each source of the process, ordered by name and id.
  static void ForEach(absl::FunctionRef<void(ReportSource&)> visit);

  const std::string& name() const { return name_; }
  int id() const { return id_; }
  Clock& clock() const { return clock_; }
  // One of the two.
  bool is_share() const { return share_stats_ != nullptr; }
  CacheStats stats() const { return stats_(); }
  ShareStats share_stats() const { return share_stats_(); }
  void ForEachMoreMetric(Visit visit) const {
    if (more_ != nullptr) more_(visit);
  }

  // For whoever looks to keep, within ForEach. Empty at first.
  std::vector<CacheSample> samples;

 private:
  class List;

  const std::string& name_;
  Clock& clock_;
  const std::function<CacheStats()> stats_;
  const std::function<void(Visit)> more_;
  const std::function<ShareStats()> share_stats_;
  int id_ = 1;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_REPORT_SOURCE_H_
