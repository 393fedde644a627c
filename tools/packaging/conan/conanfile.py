"""A Conan 2 recipe of wheelcache."""

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, get, rmdir


class WheelcacheConan(ConanFile):
    name = "wheelcache"
    version = "0.1.0"
    description = "In-process key-value cache with a TTL per key, hard limits and LRU eviction"
    license = "@LICENSE@"
    homepage = "@HOMEPAGE@"
    topics = ("cache", "ttl", "lru")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    # near: the near cache; tls: and its TLS; tools: trace_replay.
    options = {name: [True, False] for name in ("shared", "fPIC", "near", "tls", "tools")}
    default_options = {"shared": False, "fPIC": True, "near": False, "tls": False, "tools": False}
    implements = ["auto_shared_fpic"]

    def validate(self):
        check_min_cppstd(self, 17)
        if self.options.tools and self.options.shared:
            raise ConanInvalidConfiguration("tools=True needs shared=False: it uses what a shared library does not export")

    def requirements(self):
        # The headers of a cache are compiled into its users.
        self.requires("abseil/20240116.2", transitive_headers=True, transitive_libs=True)
        if self.options.tls:
            self.requires("openssl/[>=1.1 <4]")

    def layout(self):
        cmake_layout(self)

    def source(self):
        get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["WHEELCACHE_BUILD_NEAR"] = bool(self.options.near)
        toolchain.cache_variables["WHEELCACHE_BUILD_NEAR_TLS"] = bool(self.options.tls)
        toolchain.cache_variables["WHEELCACHE_BUILD_TOOLS"] = bool(self.options.tools)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", src=self.source_folder, dst=f"{self.package_folder}/licenses")
        # CMakeDeps and PkgConfigDeps write their own.
        for folder in ("cmake", "pkgconfig"):
            rmdir(self, f"{self.package_folder}/lib/{folder}")

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "wheelcache")
        self._add_library("wheelcache", ["abseil::abseil"])
        self.cpp_info.components["wheelcache"].system_libs = ["pthread"] if self.settings.os == "Linux" else []
        if self.options.near or self.options.tls:
            self._add_library("near", ["wheelcache"])
            self._add_library("near_testing", ["near"])
        if self.options.tls:
            self._add_library("near_tls", ["near", "openssl::ssl"])

    def _add_library(self, name, requires):
        library = name if name == "wheelcache" else f"wheelcache_{name}"
        component = self.cpp_info.components[name]
        component.libs = [library]
        component.requires = requires
        component.set_property("cmake_target_name", f"wheelcache::{name}")
        component.set_property("pkg_config_name", library)
