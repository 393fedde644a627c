// Progress bar of a replay, on one line of a terminal.
//
//   ProgressBar bar(STDERR_FILENO);
//   ...
//   bar.Update(source.progress(), requests);  // As often as you like.
//
// It is redrawn at most ten times a second. The destructor erases it.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_PROGRESS_BAR_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_PROGRESS_BAR_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace wheelcache::replay {

// Returns the text of the bar. `share` is the fraction done, from 0 to 1;
// without it, the text is the number of requests alone.
std::string ProgressLine(std::optional<double> share, int64_t requests,
                         std::chrono::duration<double> elapsed);

class ProgressBar {
 public:
  // Draws on `descriptor`, which must be a terminal.
  explicit ProgressBar(int descriptor);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void Update(std::optional<double> share, int64_t requests);

 private:
  using Clock = std::chrono::steady_clock;

  void Draw(const std::string& line) const;

  const int descriptor_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point next_draw_ = start_;
};

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_PROGRESS_BAR_H_
