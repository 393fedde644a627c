// Certificates for tests, in files of PEM: those of CAs, and what they issue.
//
//   const CertificateAuthority authority("ca");
//   const CertificateFiles server = authority.Issue("server");
//   ... "--tls-ca-cert-file", authority.file(),
//       "--tls-cert-file", server.certificate, "--tls-key-file", server.key ...

#ifndef WHEELCACHE_TESTS_CACHE_NEAR_TLS_CERTIFICATES_H_
#define WHEELCACHE_TESTS_CACHE_NEAR_TLS_CERTIFICATES_H_

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace wheelcache::testing {

// The path of a file of this process alone.
inline std::string TestFile(absl::string_view name) {
  return absl::StrCat(::testing::TempDir(), "/wheelcache-", getpid(), "-",
                      name);
}

struct CertificateFiles {
  std::string certificate;
  std::string key;
};

class CertificateAuthority final {
 public:
  // `name` is also that of its files.
  explicit CertificateAuthority(const std::string& name)
      : key_(NewKey()), certificate_(Issue(name, *key_, "", kLifetime)) {
    file_ = Write(name, *certificate_, *key_).certificate;
  }

  // Its certificate.
  const std::string& file() const { return file_; }

  // Under which OpenSSL looks for it in a folder.
  std::string file_name_in_folder() const {
    return absl::StrFormat(
        "%08x.0", X509_NAME_hash(X509_get_subject_name(certificate_.get())));
  }

  // Issues a certificate for names and addresses, "DNS:a.example,IP:1.2.3.4".
  CertificateFiles Issue(
      const std::string& name,
      const std::string& alternatives = "DNS:localhost,IP:127.0.0.1",
      absl::Duration lifetime = kLifetime) const {
    const Key key = NewKey();
    return Write(name, *Issue(name, *key, alternatives, lifetime), *key);
  }

 private:
  using Key = std::shared_ptr<EVP_PKEY>;
  using Certificate = std::shared_ptr<X509>;
  static constexpr absl::Duration kLifetime = absl::Hours(1);

  static Key NewKey() { return Key(EVP_EC_gen("P-256"), EVP_PKEY_free); }

  // Without alternatives, that of the CA.
  Certificate Issue(const std::string& name, EVP_PKEY& key,
                    const std::string& alternatives,
                    absl::Duration lifetime) const {
    Certificate made(X509_new(), X509_free);
    X509_set_version(made.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), -86'400);
    X509_gmtime_adj(X509_getm_notAfter(made.get()),
                    absl::ToInt64Seconds(lifetime));
    X509_NAME_add_entry_by_txt(
        X509_get_subject_name(made.get()), "CN", MBSTRING_ASC,
        reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_pubkey(made.get(), &key);
    const bool is_own = alternatives.empty();
    X509_set_issuer_name(
        made.get(),
        X509_get_subject_name(is_own ? made.get() : certificate_.get()));
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(
        nullptr, nullptr, is_own ? NID_basic_constraints : NID_subject_alt_name,
        is_own ? "critical,CA:TRUE" : alternatives.c_str());
    X509_add_ext(made.get(), extension, -1);
    X509_EXTENSION_free(extension);
    X509_sign(made.get(), key_.get(), EVP_sha256());
    return made;
  }

  static CertificateFiles Write(const std::string& name, X509& certificate,
                                EVP_PKEY& key) {
    CertificateFiles files = {TestFile(name + ".crt"), TestFile(name + ".key")};
    std::FILE* file = std::fopen(files.certificate.c_str(), "w");
    PEM_write_X509(file, &certificate);
    std::fclose(file);
    file = std::fopen(files.key.c_str(), "w");
    PEM_write_PrivateKey(file, &key, nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
    return files;
  }

  const Key key_;
  const Certificate certificate_;
  std::string file_;
};

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_CACHE_NEAR_TLS_CERTIFICATES_H_
