// Loads the fuzzer's bytes as a snapshot, as they are or, if the first one is
// odd, cut into blocks whose checksums are right. Whatever they are, the cache
// is whole, and holds what the load says; and what it holds then comes back
// from a snapshot of its own.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/snapshot/snapshot.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

using Strings = Cache<std::string, std::string>;

void Require(bool condition, absl::string_view rule) {
  if (condition) return;
  std::cerr << rule << std::endl;
  std::abort();
}

absl::StatusOr<LoadedSnapshot> Load(absl::string_view bytes, Strings& cache) {
  SnapshotOptions options;
  options.wall_clock = [] { return absl::FromUnixSeconds(1'700'000'000); };
  const auto read = [&](int64_t offset, absl::Span<char> to) {
    const auto from = static_cast<size_t>(offset);
    Require(from <= bytes.size() && to.size() <= bytes.size() - from,
            "it reads within the source");
    std::memcpy(to.data(), bytes.data() + from, to.size());
    return absl::OkStatus();
  };
  return LoadSnapshot(cache, {static_cast<int64_t>(bytes.size()), read}, {},
                      options);
}

std::string Save(Strings& cache) {
  SnapshotOptions options;
  options.wall_clock = [] { return absl::FromUnixSeconds(1'700'000'000); };
  std::string bytes;
  const auto append = [&](absl::string_view more) {
    bytes.append(more.data(), more.size());
    return absl::OkStatus();
  };
  const auto saved = SaveSnapshot(cache, append, {}, options);
  Require(saved.ok() && saved->entries == cache.size(), "all is saved");
  return bytes;
}

// The header of an empty snapshot, and blocks of the bytes behind: a byte for
// the rank of each, of which 255 is the trailer's, one for its length, and so
// many.
std::string Blocks(absl::string_view header, absl::string_view data) {
  std::string bytes(header);
  while (data.size() > 2) {
    const auto rank = static_cast<unsigned char>(data[0]);
    const absl::string_view contents =
        data.substr(2, static_cast<unsigned char>(data[1]));
    data.remove_prefix(2 + contents.size());
    const uint32_t head[] = {static_cast<uint32_t>(contents.size()),
                             rank == 255 ? uint32_t{0x50414E54} : rank};
    std::string block(reinterpret_cast<const char*>(head), sizeof(head));
    block.append(contents.data(), contents.size());
    const uint32_t crc = internal::Crc32(block);
    bytes.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
    bytes += block;
  }
  return bytes;
}

std::map<std::string, std::pair<std::string, absl::Duration>> ContentsOf(
    Strings& cache) {
  std::map<std::string, std::pair<std::string, absl::Duration>> contents;
  cache.ForEach([&](const auto& handle) {
    contents.emplace(handle.key(), std::pair(std::string(handle.value()),
                                             handle.TimeToLive()));
    return true;
  });
  return contents;
}

void Run(absl::string_view data) {
  SimulatedClock clock;
  CacheOptions options;
  options.clock = &clock;
  options.reaper = nullptr;
  options.max_entries = 20;
  auto cache = *Strings::Create(options);
  auto second = *Strings::Create(options);
  std::string bytes(data);
  if (!data.empty() && data[0] % 2 != 0) {
    // Without the trailer, a head of twelve bytes and a number.
    const std::string empty = Save(*cache);
    bytes = Blocks(absl::string_view(empty).substr(0, empty.size() - 13),
                   data.substr(1));
  }
  const absl::StatusOr<LoadedSnapshot> loaded = Load(bytes, *cache);
  Require(cache->CheckInvariants().ok(), "the cache is whole");
  if (!loaded.ok()) {
    Require(cache->size() == 0, "nothing was loaded");
    return;
  }
  Require(cache->size() == std::min<int64_t>(loaded->stored, 20),
          "it holds what was stored, within its limit");
  Require(loaded->refused == 0, "nothing is refused");
  Require(Load(Save(*cache), *second)->status.ok(), "its own is whole");
  Require(ContentsOf(*cache) == ContentsOf(*second), "and the same");
}

}  // namespace
}  // namespace wheelcache

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  wheelcache::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
