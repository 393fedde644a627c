// Traces in files and pipes: lines of any length, errors with file and line.

#include "wheelcache/tools/trace_replay/trace_reader.h"

#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/tools/trace_replay/line_reader.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache {
namespace replay {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::string WriteFile(absl::string_view content) {
  std::string path = absl::StrCat(
      ::testing::TempDir(),
      ::testing::UnitTest::GetInstance()->current_test_info()->name(), ".csv");
  std::ofstream(path, std::ios::binary) << std::string(content);
  return path;
}

// The keys of all requests before the end or the first error.
struct Read {
  std::vector<std::string> keys;
  std::string error;
  int64_t bad_lines;
};

Read ReadAll(TraceReader& reader) {
  Read read;
  Request request;
  absl::StatusOr<bool> more = true;
  while ((more = reader.Next(request)).ok() && *more) {
    read.keys.emplace_back(request.key);
  }
  read.error = std::string(more.status().message());
  read.bad_lines = reader.bad_lines();
  return read;
}

Read ReadAll(absl::string_view content, BadLines bad_lines) {
  auto reader = TraceReader::Open(WriteFile(content), bad_lines);
  if (!reader.ok()) return {{}, std::string(reader.status().message()), 0};
  return ReadAll(**reader);
}

TEST(TraceReaderTest, ReadsAFileToItsEnd) {
  const Read read =
      ReadAll("0,a,1,1,0,get,0\n0,b,1,1,0,set,9\n", BadLines::kReject);
  EXPECT_THAT(read.keys, ElementsAre("a", "b"));
  EXPECT_EQ(read.error, "");
}

TEST(TraceReaderTest, LastLineNeedsNoLineBreak) {
  const Read read =
      ReadAll("0,a,1,1,0,get,0\n0,b,1,1,0,get,0", BadLines::kReject);
  EXPECT_THAT(read.keys, ElementsAre("a", "b"));
}

TEST(TraceReaderTest, LinesMayEndAsOnWindows) {
  const Read read =
      ReadAll("0,a,1,1,0,get,0\r\n0,b,1,1,0,get,0\r\n", BadLines::kReject);
  EXPECT_THAT(read.keys, ElementsAre("a", "b"));
}

TEST(TraceReaderTest, EmptyFileHoldsNoRequest) {
  const Read read = ReadAll("", BadLines::kReject);
  EXPECT_THAT(read.keys, IsEmpty());
  EXPECT_EQ(read.error, "");
}

TEST(TraceReaderTest, ErrorNamesFileAndLine) {
  const Read read =
      ReadAll("0,a,1,1,0,get,0\n0,b,1,1,0,got,0\n", BadLines::kReject);
  EXPECT_THAT(read.error, StartsWith(absl::StrCat(
                              ::testing::TempDir(),
                              "ErrorNamesFileAndLine.csv, line 2: operation is "
                              "'got'")));
}

TEST(TraceReaderTest, EmptyLineIsMalformed) {
  const Read read = ReadAll("0,a,1,1,0,get,0\n\n", BadLines::kReject);
  EXPECT_THAT(read.error, HasSubstr("line 2: expected 7 columns, found 1"));
}

TEST(TraceReaderTest, SkipsAndCountsBadLinesOnRequest) {
  const Read read = ReadAll(
      "timestamp,key\n0,a,1,1,0,get,0\n\n0,b,1,1,0,get,0\nx", BadLines::kSkip);
  EXPECT_THAT(read.keys, ElementsAre("a", "b"));
  EXPECT_EQ(read.error, "");
  EXPECT_EQ(read.bad_lines, 3);
}

TEST(TraceReaderTest, LineLongerThanTheBufferIsOneBadLine) {
  const std::string long_line(3 * LineReader::kMaxLineBytes + 17, 'x');
  const std::string content =
      absl::StrCat("0,a,1,1,0,get,0\n", long_line, "\n0,b,1,1,0,get,0\n");
  const Read read = ReadAll(content, BadLines::kSkip);
  EXPECT_THAT(read.keys, ElementsAre("a", "b"));
  EXPECT_EQ(read.bad_lines, 1);
  EXPECT_THAT(ReadAll(content, BadLines::kReject).error,
              EndsWith("line 2: the line has more than 65536 bytes"));
}

TEST(TraceReaderTest, LineOfExactlyTheBufferIsOneBadLine) {
  for (const int extra : {-1, 0, 1}) {
    const Read read = ReadAll(
        absl::StrCat(std::string(LineReader::kMaxLineBytes + extra, 'x'),
                     "\n0,b,1,1,0,get,0\n"),
        BadLines::kSkip);
    EXPECT_THAT(read.keys, ElementsAre("b")) << extra;
    EXPECT_EQ(read.bad_lines, 1) << extra;
  }
}

TEST(TraceReaderTest, ReadsEveryLineOfAFileLargerThanTheBuffer) {
  std::string content;
  for (int i = 0; i < 100'000; ++i) {
    absl::StrAppend(&content, i / 1000, ",key", i, ",8,64,0,get,0\n");
  }
  ASSERT_GT(content.size(), 2 * LineReader::kMaxLineBytes);
  const Read read = ReadAll(content, BadLines::kReject);
  ASSERT_EQ(read.keys.size(), 100'000u);
  for (int i = 0; i < 100'000; ++i) {
    ASSERT_EQ(read.keys[i], absl::StrCat("key", i));
  }
}

TEST(TraceReaderTest, ReadsAPipeWhoseWriterPausesInMidLine) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  TraceReader reader(ends[0], "pipe", BadLines::kReject);
  EXPECT_EQ(reader.progress(), std::nullopt);
  std::thread writer([out = ends[1]] {
    for (const absl::string_view piece :
         {"0,a,1,", "1,0,get,0\n0,", "b", ",1,1,0,get,0"}) {
      EXPECT_EQ(write(out, piece.data(), piece.size()),
                static_cast<ssize_t>(piece.size()));
    }
    close(out);
  });
  const Read read = ReadAll(reader);
  writer.join();
  EXPECT_THAT(read.keys, ElementsAre("a", "b"));
  EXPECT_EQ(read.error, "");
}

TEST(TraceReaderTest, ProgressOfAFileRunsFromZeroToOne) {
  auto reader =
      TraceReader::Open(WriteFile("0,a,1,1,0,get,0\n0,b,1,1,0,get,0\n"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  Request request;
  EXPECT_EQ((*reader)->progress(), 0);
  ASSERT_TRUE((*reader)->Next(request).ok());
  EXPECT_EQ((*reader)->progress(), 0.5);
  ASSERT_TRUE((*reader)->Next(request).ok());
  EXPECT_EQ((*reader)->progress(), 1);
}

TEST(TraceReaderTest, MissingFileIsAnError) {
  const auto reader = TraceReader::Open("/no/such/file");
  EXPECT_THAT(std::string(reader.status().message()),
              HasSubstr("cannot open the file: No such file or directory"));
}

TEST(TraceReaderTest, FolderIsAnError) {
  auto reader = TraceReader::Open(::testing::TempDir());
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT(ReadAll(**reader).error,
              HasSubstr("cannot read: Is a directory"));
}

TEST(TraceReaderTest, CompressedFileIsAnErrorThatNamesTheCommand) {
  const Read zstd = ReadAll("\x28\xb5\x2f\xfd....", BadLines::kSkip);
  EXPECT_THAT(zstd.error, HasSubstr("zstd -dc FILE | trace_replay --trace=-"));
  const Read gzip = ReadAll("\x1f\x8b....", BadLines::kSkip);
  EXPECT_THAT(gzip.error, HasSubstr("gzip -dc FILE | trace_replay --trace=-"));
}

}  // namespace
}  // namespace replay
}  // namespace wheelcache
