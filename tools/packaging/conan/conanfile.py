"""A Conan 2 recipe of wheelcache. Never run: the project's CI reaches no Conan server.

Takes the sources from the checkout that it lies in; a release would name its archive instead, and the licence, which
has not been chosen yet.
"""

import pathlib

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy


class WheelcacheConan(ConanFile):
    name = "wheelcache"
    version = "0.1.0"
    description = "In-process key-value cache with a TTL per key, hard limits and LRU eviction"
    topics = ("cache", "ttl", "lru")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False]}
    default_options = {"shared": False, "fPIC": True}
    implements = ["auto_shared_fpic"]

    def validate(self):
        check_min_cppstd(self, 17)

    def requirements(self):
        # The headers of a cache are compiled into its users.
        self.requires("abseil/20240116.2", transitive_headers=True, transitive_libs=True)

    def layout(self):
        cmake_layout(self)

    def export_sources(self):
        checkout = pathlib.Path(self.recipe_folder).resolve().parents[2]
        for pattern in ("CMakeLists.txt", "cmake/*", "cache/*", "lru/*", "wheel/*"):
            copy(self, pattern, src=checkout, dst=self.export_sources_folder)

    def generate(self):
        CMakeDeps(self).generate()
        CMakeToolchain(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        self.cpp_info.libs = ["wheelcache"]
        self.cpp_info.set_property("cmake_file_name", "wheelcache")
        self.cpp_info.set_property("cmake_target_name", "wheelcache::wheelcache")
        self.cpp_info.set_property("pkg_config_name", "wheelcache")
        self.cpp_info.system_libs = ["pthread"]
