// Text of trace_replay --help: the flags, the trace format, the operations, the
// report and the built-in workload.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_HELP_TEXT_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_HELP_TEXT_H_

#include <string>

namespace wheelcache {
namespace replay {

std::string HelpText();

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_HELP_TEXT_H_
