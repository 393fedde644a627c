#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "wheelcache/cache/snapshot/snapshot_format.h"

namespace wheelcache::internal {
namespace {

absl::Status FileError(absl::string_view call, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(call, " of ", path));
}

// Whether a path leads to this open file.
bool IsAt(const std::string& path, int fd) {
  struct stat opened;
  struct stat named;
  return fstat(fd, &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

// Returns a new file that no other save writes to.
absl::StatusOr<int> OpenPart(const std::string& path) {
  for (;;) {
    const int fd =
        open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0) return FileError("open", path);
    absl::Cleanup closer = [fd] { close(fd); };
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return FileError("flock", path);
      return absl::UnavailableError(
          absl::StrCat("another save writes to ", path));
    }
    // Else another save has brought it to its place since it was opened.
    if (!IsAt(path, fd)) continue;
    std::move(closer).Cancel();
    return fd;
  }
}

// Brings a new name to the disk.
absl::Status SyncFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return FileError("open", folder);
  absl::Cleanup closer = [fd] { close(fd); };
  return fsync(fd) == 0 ? absl::OkStatus() : FileError("fsync", folder);
}

}  // namespace

absl::Status ReplaceFile(const std::string& path,
                         absl::FunctionRef<absl::Status(SnapshotSink)> save) {
  const std::string part = absl::StrCat(path, ".part");
  const absl::StatusOr<int> fd = OpenPart(part);
  if (!fd.ok()) return fd.status();
  absl::Cleanup closer = [&] { close(*fd); };
  // Before it is closed, and so unlocked.
  absl::Cleanup remover = [&] { unlink(part.c_str()); };
  if (ftruncate(*fd, 0) != 0) return FileError("ftruncate", part);
  absl::Status status = save([&](absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = write(*fd, bytes.data(), bytes.size());
      if (written < 0 && errno != EINTR) return FileError("write", part);
      if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  if (fsync(*fd) != 0) return FileError("fsync", part);
  if (rename(part.c_str(), path.c_str()) != 0) return FileError("rename", part);
  std::move(remover).Cancel();
  return SyncFolderOf(path);
}

absl::Status ReadFile(
    const std::string& path,
    absl::FunctionRef<absl::Status(const SnapshotSource&)> load) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError("open", path);
  absl::Cleanup closer = [fd] { close(fd); };
  struct stat opened;
  if (fstat(fd, &opened) != 0) return FileError("fstat", path);
  const auto read = [&](int64_t offset, absl::Span<char> to) {
    while (!to.empty()) {
      const ssize_t count = pread(fd, to.data(), to.size(), offset);
      if (count < 0 && errno != EINTR) return FileError("read", path);
      if (count == 0) return absl::DataLossError(path + " has become shorter");
      if (count < 0) continue;
      to.remove_prefix(static_cast<size_t>(count));
      offset += count;
    }
    return absl::OkStatus();
  };
  return load({opened.st_size, read});
}

}  // namespace wheelcache::internal
