#include <cerrno>
#include <cstddef>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "wheelcache/cache/snapshot/snapshot_format.h"
#include "wheelcache/wheel/base/platform.h"

namespace wheelcache::internal {
namespace {

absl::Status FileError(absl::string_view call, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(call, " of ", path));
}

}  // namespace

absl::Status OverwriteFile(const std::string& path,
                           absl::FunctionRef<absl::Status(SnapshotSink)> save) {
  const std::string part = absl::StrCat(path, ".part");
  const char* call = nullptr;
  const platform::File file = platform::OpenToWrite(part.c_str(), &call);
  if (file == platform::kNoFile) {
    return errno == EWOULDBLOCK ? absl::UnavailableError(absl::StrCat(
                                      "another save writes to ", part))
                                : FileError(call, part);
  }
  absl::Cleanup closer = [file] { platform::CloseFile(file); };
  // Before it is closed, and so unlocked.
  absl::Cleanup remover = [&] { platform::RemoveFile(part.c_str()); };
  absl::Status status = save([&](absl::string_view bytes) {
    while (!bytes.empty()) {
      const int64_t written =
          platform::WriteTo(file, bytes.data(), bytes.size());
      if (written < 0) return FileError("write", part);
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  if (!platform::MoveToPlace(file, part.c_str(), path.c_str(), &call)) {
    return FileError(call, part);
  }
  std::move(remover).Cancel();
  const size_t slash = path.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : path.substr(0, slash + 1);
  return platform::SyncFolder(folder.c_str(), &call) ? absl::OkStatus()
                                                     : FileError(call, folder);
}

absl::Status ReadFile(
    const std::string& path,
    absl::FunctionRef<absl::Status(const SnapshotSource&)> load) {
  const platform::File file = platform::OpenToRead(path.c_str());
  if (file == platform::kNoFile) return FileError("open", path);
  absl::Cleanup closer = [file] { platform::CloseFile(file); };
  const int64_t size = platform::SizeOf(file);
  if (size < 0) return FileError("fstat", path);
  const auto read = [&](int64_t offset, absl::Span<char> to) {
    while (!to.empty()) {
      const int64_t count =
          platform::ReadAt(file, to.data(), to.size(), offset);
      if (count < 0) return FileError("read", path);
      if (count == 0) return absl::DataLossError(path + " has become shorter");
      to.remove_prefix(static_cast<size_t>(count));
      offset += count;
    }
    return absl::OkStatus();
  };
  return load({size, read});
}

}  // namespace wheelcache::internal
