#include "wheelcache/cache/near/tls/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "wheelcache/cache/near/internal/redis/server_url.h"
#include "wheelcache/cache/near/internal/redis/socket.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache {
namespace {

using internal::PollEvents;
using internal::ServerUrl;
using internal::Stream;

struct Free {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(BIO* bio) const { BIO_free(bio); }
};

// OpenSSL's latest errors on this thread. Makes it forget them.
struct Reason {
  Reason() : code(ERR_get_error()) { ERR_clear_error(); }

  int number() const { return ERR_GET_REASON(code); }
  std::string text() const {
    if (ERR_GET_LIB(code) == ERR_LIB_SYS) return std::strerror(number());
    const char* const known = ERR_reason_error_string(code);
    return known != nullptr ? known : "OpenSSL gives no reason";
  }

  const decltype(ERR_get_error()) code;
};

// Whether a peer says with this that it refuses our certificate.
bool IsRefusal(int reason) {
  const int alert = reason - SSL_AD_REASON_OFFSET;
  return (alert >= SSL_AD_BAD_CERTIFICATE &&
          alert <= SSL_AD_CERTIFICATE_UNKNOWN) ||
         alert == SSL_AD_UNKNOWN_CA || alert == SSL_AD_CERTIFICATE_REQUIRED;
}

class TlsStream final : public Stream {
 public:
  // `ssl` takes its bytes from a BIO in memory, and gives them to `sender`, one
  // of Sender().
  TlsStream(std::unique_ptr<Stream> stream, std::unique_ptr<SSL, Free> ssl,
            BIO* sender)
      : stream_(std::move(stream)), ssl_(std::move(ssl)) {
    BIO_set_data(sender, this);
    BIO_set_init(sender, 1);
  }

  // How OpenSSL sends: by the Stream below.
  static BIO_METHOD* Sender();

  absl::StatusOr<PollEvents> Prepare() override;
  absl::StatusOr<size_t> Send(absl::string_view bytes) override;
  absl::StatusOr<std::optional<size_t>> Receive(absl::Span<char> buffer,
                                                Wait wait) override;
  bool has_more() const override { return has_more_; }
  void Shutdown() const override { stream_->Shutdown(); }
  int fd() const override { return stream_->fd(); }

 private:
  // Two records.
  using Block = std::array<char, 32 << 10>;

  // Other threads wait meanwhile.
  static constexpr size_t kMostBytesOfSend = 256 << 10;

  // OpenSSL calls it while mu_ is held.
  static int SendSealed(BIO* bio, const char* bytes,
                        int size) ABSL_NO_THREAD_SAFETY_ANALYSIS;

  absl::Status FailureLocked(int error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::unique_ptr<Stream> stream_;

  bool has_more_ = false;  // Of the receiving thread.

  // OpenSSL wants one thread at a time for both directions.
  Mutex mu_;
  const std::unique_ptr<SSL, Free> ssl_ ABSL_GUARDED_BY(mu_);
  absl::Status send_failure_ ABSL_GUARDED_BY(mu_);
};

BIO_METHOD* TlsStream::Sender() {
  static BIO_METHOD* const sender = [] {
    BIO_METHOD* const made =
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "wheelcache");
    BIO_meth_set_write(made, SendSealed);
    BIO_meth_set_ctrl(made, [](BIO*, int command, auto, void*) {
      return command == BIO_CTRL_FLUSH ? 1L : 0L;
    });
    return made;
  }();
  return sender;
}

int TlsStream::SendSealed(BIO* bio, const char* bytes, int size) {
  auto* const to = static_cast<TlsStream*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  const absl::StatusOr<size_t> sent =
      to->stream_->Send({bytes, static_cast<size_t>(size)});
  if (sent.ok() && *sent > 0) return static_cast<int>(*sent);
  if (sent.ok()) {
    BIO_set_retry_write(bio);
  } else {
    to->send_failure_ = sent.status();
  }
  return -1;
}

absl::Status TlsStream::FailureLocked(int error) {
  const Reason reason;
  // Not a copy, whose references two threads would count.
  if (!send_failure_.ok()) return std::exchange(send_failure_, {});
  if (error == SSL_ERROR_ZERO_RETURN) {
    return absl::UnavailableError("TLS: the server closed the connection");
  }
  if (reason.number() == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    return absl::UnauthenticatedError(absl::StrCat(
        "TLS: the server's certificate is refused: ",
        X509_verify_cert_error_string(SSL_get_verify_result(ssl_.get()))));
  }
  if (IsRefusal(reason.number())) {
    return absl::UnauthenticatedError(absl::StrCat(
        "TLS: ", reason.text(),
        "; give certificate_file and key_file that the server accepts"));
  }
  return absl::UnavailableError(absl::StrCat("TLS: ", reason.text()));
}

absl::StatusOr<PollEvents> TlsStream::Prepare() {
  Block block;
  MutexLock lock(&mu_);
  if (SSL_in_before(ssl_.get())) {
    absl::StatusOr<PollEvents> awaited = stream_->Prepare();
    if (!awaited.ok() || *awaited != 0) return awaited;
  }
  while (true) {
    const int result = SSL_connect(ssl_.get());
    if (result == 1) break;
    const int error = SSL_get_error(ssl_.get(), result);
    if (error == SSL_ERROR_WANT_WRITE) return PollEvents{POLLOUT};
    if (error != SSL_ERROR_WANT_READ) return FailureLocked(error);
    const absl::StatusOr<std::optional<size_t>> size =
        stream_->Receive(absl::MakeSpan(block), Wait::kNever);
    if (!size.ok()) {
      return absl::Status(size.status().code(),
                          absl::StrCat("TLS: ", size.status().message()));
    }
    if (!size->has_value()) return PollEvents{POLLIN};
    BIO_write(SSL_get_rbio(ssl_.get()), block.data(), static_cast<int>(**size));
  }
  return PollEvents{0};
}

// Where there is no room, OpenSSL keeps a record of some of the bytes, and
// counts these as sent when the next call, which begins with them, has sent it.
absl::StatusOr<size_t> TlsStream::Send(absl::string_view bytes) {
  bytes = bytes.substr(0, kMostBytesOfSend);
  MutexLock lock(&mu_);
  size_t sent = 0;
  while (sent < bytes.size()) {
    ERR_clear_error();
    size_t size = 0;
    const int result = SSL_write_ex(ssl_.get(), bytes.data() + sent,
                                    bytes.size() - sent, &size);
    if (result != 1) {
      const int error = SSL_get_error(ssl_.get(), result);
      if (error == SSL_ERROR_WANT_WRITE) break;
      return FailureLocked(error);
    }
    sent += size;
  }
  return sent;
}

absl::StatusOr<std::optional<size_t>> TlsStream::Receive(
    absl::Span<char> buffer, Wait wait) {
  Block block;
  absl::StatusOr<std::optional<size_t>> received = 0;
  if (!has_more_) {
    // Without the lock, since it may wait.
    received = stream_->Receive(absl::MakeSpan(block), wait);
    if (!received.ok() || !received->has_value()) return received;
  }
  MutexLock lock(&mu_);
  BIO_write(SSL_get_rbio(ssl_.get()), block.data(),
            static_cast<int>(**received));
  // Until the buffer is full, or nothing is left.
  size_t filled = 0;
  has_more_ = true;
  while (filled < buffer.size()) {
    ERR_clear_error();
    size_t size = 0;
    const int result = SSL_read_ex(ssl_.get(), buffer.data() + filled,
                                   buffer.size() - filled, &size);
    filled += size;
    if (result == 1) continue;
    const int error = SSL_get_error(ssl_.get(), result);
    has_more_ = error != SSL_ERROR_WANT_READ;
    if (has_more_ && filled == 0) return FailureLocked(error);
    break;  // An error comes again with the next call.
  }
  if (filled == 0) return std::nullopt;
  return filled;
}

class Tls final : public internal::StreamMaker {
 public:
  Tls(std::unique_ptr<SSL_CTX, Free> context, std::string server_name)
      : context_(std::move(context)), server_name_(std::move(server_name)) {}

  absl::StatusOr<std::unique_ptr<Stream>> Wrap(
      std::unique_ptr<Stream> stream, const ServerUrl& url) const override {
    ERR_clear_error();
    std::unique_ptr<SSL, Free> ssl(SSL_new(context_.get()));
    std::unique_ptr<BIO, Free> memory(BIO_new(BIO_s_mem()));
    std::unique_ptr<BIO, Free> sender(BIO_new(TlsStream::Sender()));
    if (ssl == nullptr || memory == nullptr || sender == nullptr ||
        !Expect(ssl.get(),
                server_name_.empty() ? url.hosts.front().host : server_name_)) {
      return absl::UnavailableError(absl::StrCat("TLS: ", Reason().text()));
    }
    SSL_set_bio(ssl.get(), memory.release(), sender.get());
    return std::make_unique<TlsStream>(std::move(stream), std::move(ssl),
                                       sender.release());
  }

 private:
  // The server's certificate must have this name or address. Only a name is
  // shown to the server before the handshake (SNI).
  static bool Expect(SSL* ssl, std::string name) {
    X509_VERIFY_PARAM* const rules = SSL_get0_param(ssl);
    X509_VERIFY_PARAM_set_hostflags(rules,
                                    X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_ip_asc(rules, name.c_str()) == 1 ||
           (X509_VERIFY_PARAM_set1_host(rules, name.data(), name.size()) == 1 &&
            SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME,
                     TLSEXT_NAMETYPE_host_name, name.data()) == 1);
  }

  const std::unique_ptr<SSL_CTX, Free> context_;
  const std::string server_name_;
};

absl::Status Invalid(absl::string_view field, const std::string& value,
                     absl::string_view rule) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": \"", absl::CHexEscape(value), "\" ", rule));
}

const char* OrNull(const std::string& path) {
  return path.empty() ? nullptr : path.c_str();
}

absl::Status LoadCas(SSL_CTX* context, const TlsOptions& options) {
  // OpenSSL looks into a folder only when it verifies.
  std::error_code ignored;
  if (!options.ca_folder.empty() &&
      !std::filesystem::is_directory(options.ca_folder, ignored)) {
    return Invalid("ca_folder", options.ca_folder, "is not a folder");
  }
  if (options.ca_file.empty() && options.ca_folder.empty()) {
    SSL_CTX_set_default_verify_paths(context);
  } else if (SSL_CTX_load_verify_locations(context, OrNull(options.ca_file),
                                           OrNull(options.ca_folder)) != 1) {
    return Invalid(
        "ca_file", options.ca_file,
        absl::StrCat("is no file of certificates in PEM: ", Reason().text()));
  }
  return absl::OkStatus();
}

absl::Status LoadCertificate(SSL_CTX* context, const TlsOptions& options) {
  const std::string& certificate = options.certificate_file;
  const std::string& key = options.key_file;
  if (certificate.empty() && key.empty()) return absl::OkStatus();
  if (key.empty()) {
    return Invalid("key_file", key, "is empty, but certificate_file is not");
  }
  if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1) {
    return Invalid(
        "certificate_file", certificate,
        absl::StrCat("is no file of certificates in PEM: ", Reason().text()));
  }
  // Nobody is asked for a passphrase.
  SSL_CTX_set_default_passwd_cb(context,
                                [](char*, int, int, void*) { return -1; });
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) !=
      1) {
    return Invalid("key_file", key,
                   absl::StrCat("is no private key in PEM, without a "
                                "passphrase, of certificate_file: ",
                                Reason().text()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const internal::StreamMaker>> LoadTls(
    const TlsOptions& options) {
  OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr);
  ERR_clear_error();
  std::unique_ptr<SSL_CTX, Free> context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return absl::InternalError(Reason().text());
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_verify(context.get(),
                     options.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE,
                     nullptr);
  if (absl::Status status = LoadCas(context.get(), options); !status.ok()) {
    return status;
  }
  if (absl::Status status = LoadCertificate(context.get(), options);
      !status.ok()) {
    return status;
  }
  return std::make_shared<const Tls>(std::move(context), options.server_name);
}

}  // namespace wheelcache
