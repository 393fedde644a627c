// The built-in workload has the statistics that its description names.

#include "wheelcache/tools/trace_replay/workload.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache {
namespace replay {
namespace {

struct Seen {
  Request request;
  std::string key;
};

std::vector<Seen> Take(int64_t requests) {
  Workload workload(requests);
  std::vector<Seen> all;
  Request request;
  while (workload.Next(request).value()) {
    all.push_back({request, std::string(request.key)});
  }
  return all;
}

TEST(WorkloadTest, IsTheSameOnEachRun) {
  const std::vector<Seen> first = Take(1'000);
  const std::vector<Seen> second = Take(1'000);
  ASSERT_EQ(first.size(), 1'000u);
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].key, second[i].key);
    EXPECT_EQ(first[i].request.operation, second[i].request.operation);
  }
}

TEST(WorkloadTest, HasAThousandRequestsASecond) {
  const std::vector<Seen> all = Take(2'500);
  EXPECT_EQ(all[0].request.timestamp_seconds, 0);
  EXPECT_EQ(all[999].request.timestamp_seconds, 0);
  EXPECT_EQ(all[1'000].request.timestamp_seconds, 1);
  EXPECT_EQ(all.back().request.timestamp_seconds, 2);
}

TEST(WorkloadTest, KeyKeepsItsSizeAndTtl) {
  std::map<std::string, std::tuple<uint32_t, uint32_t, uint32_t>> traits;
  for (const auto& [request, key] : Take(50'000)) {
    const auto now = std::make_tuple(request.key_size, request.value_size,
                                     request.ttl_seconds);
    EXPECT_EQ(traits.emplace(key, now).first->second, now) << key;
    EXPECT_EQ(request.key_size, key.size());
  }
}

TEST(WorkloadTest, OperationsHaveTheSharesOfTheDescription) {
  constexpr int kRequests = 200'000;
  std::map<Operation, int> counts;
  for (const Seen& seen : Take(kRequests)) ++counts[seen.request.operation];
  const auto share = [&](Operation operation) {
    return static_cast<double>(counts[operation]) / kRequests;
  };
  EXPECT_NEAR(share(Operation::kGet), 0.9, 0.005);
  EXPECT_NEAR(share(Operation::kSet), 0.06, 0.003);
  EXPECT_NEAR(share(Operation::kGets), 0.01, 0.002);
  EXPECT_NEAR(share(Operation::kAdd), 0.01, 0.002);
  EXPECT_NEAR(share(Operation::kCas), 0.007, 0.002);
  EXPECT_EQ(counts.size(), 11u);
}

TEST(WorkloadTest, TtlsAndSizesHaveTheSharesOfTheDescription) {
  std::map<std::string, Request> keys;
  for (const auto& [request, key] : Take(400'000)) keys[key] = request;
  std::map<uint32_t, double> ttls;
  std::vector<uint32_t> sizes;
  for (const auto& [key, request] : keys) {
    ttls[request.ttl_seconds] += 1.0 / static_cast<double>(keys.size());
    sizes.push_back(request.value_size);
  }
  EXPECT_EQ(ttls.size(), 6u);
  EXPECT_NEAR(ttls[60], 0.39, 0.01);
  EXPECT_NEAR(ttls[300], 0.24, 0.01);
  EXPECT_NEAR(ttls[3600], 0.13, 0.01);
  EXPECT_NEAR(ttls[24 * 3600], 0.03, 0.01);
  std::sort(sizes.begin(), sizes.end());
  EXPECT_EQ(sizes.front(), 16u);
  EXPECT_NEAR(sizes[sizes.size() / 2], 230, 35);
  EXPECT_EQ(sizes.back(), 16'000u);
}

TEST(WorkloadTest, PopularityIsThatOfZipf) {
  std::map<std::string, int> counts;
  for (const Seen& seen : Take(400'000)) ++counts[seen.key];
  std::vector<int> sorted;
  for (const auto& [key, count] : counts) sorted.push_back(-count);
  std::sort(sorted.begin(), sorted.end());
  // The most popular key is used 10^1.1 times as often as the tenth.
  EXPECT_NEAR(static_cast<double>(sorted[0]) / sorted[9], 12.6, 1);
}

TEST(WorkloadTest, ProgressRunsFromZeroToOne) {
  Workload workload(2);
  Request request;
  EXPECT_EQ(workload.progress(), 0);
  ASSERT_TRUE(workload.Next(request).value());
  EXPECT_EQ(workload.progress(), 0.5);
  ASSERT_TRUE(workload.Next(request).value());
  EXPECT_EQ(workload.progress(), 1);
  EXPECT_FALSE(workload.Next(request).value());
}

}  // namespace
}  // namespace replay
}  // namespace wheelcache
