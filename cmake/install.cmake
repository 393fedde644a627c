# What `cmake --install` lays out: the libraries, their headers, and the files
# by which find_package(wheelcache) and pkg-config find them.

include(CMakePackageConfigHelpers)

set(wheelcache_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/wheelcache)

# wheelcache_install_library(<name> <header>...)
function(wheelcache_install_library name)
  install(TARGETS ${name} EXPORT wheelcacheTargets
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
      COMPONENT runtime NAMELINK_COMPONENT development
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  foreach(header IN LISTS ARGN)
    get_filename_component(folder ${header} DIRECTORY)
    install(FILES ${header} COMPONENT development
      DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/wheelcache/${folder})
  endforeach()

  # In pkg-config, Abseil's modules are named as its targets are in CMake, and
  # OpenSSL's is one.
  get_target_property(libraries ${name} INTERFACE_LINK_LIBRARIES)
  list(FILTER libraries INCLUDE REGEX "^(absl::|OpenSSL::|wheelcache(_near)?$)")
  list(TRANSFORM libraries REPLACE "^absl::" "absl_")
  list(TRANSFORM libraries REPLACE "^OpenSSL::SSL$" "openssl")
  list(JOIN libraries ", " wheelcache_REQUIRES)
  # Relative to the file itself, so that what is installed can be moved.
  file(RELATIVE_PATH wheelcache_PREFIX_PATH
    ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  file(RELATIVE_PATH wheelcache_LIBDIR
    ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
  file(RELATIVE_PATH wheelcache_INCLUDEDIR
    ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
  set(wheelcache_NAME ${name})
  configure_file(cmake/wheelcache.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc COMPONENT development
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

# Files by which find_package(wheelcache) finds all libraries that were added.
function(wheelcache_install_package)
  install(EXPORT wheelcacheTargets NAMESPACE wheelcache:: COMPONENT development
    DESTINATION ${wheelcache_CMAKE_DIR})
  configure_package_config_file(cmake/wheelcacheConfig.cmake.in
    ${PROJECT_BINARY_DIR}/wheelcacheConfig.cmake
    INSTALL_DESTINATION ${wheelcache_CMAKE_DIR})
  write_basic_package_version_file(
    ${PROJECT_BINARY_DIR}/wheelcacheConfigVersion.cmake
    COMPATIBILITY ${wheelcache_COMPATIBILITY})
  install(FILES ${PROJECT_BINARY_DIR}/wheelcacheConfig.cmake
      ${PROJECT_BINARY_DIR}/wheelcacheConfigVersion.cmake
    COMPONENT development DESTINATION ${wheelcache_CMAKE_DIR})
endfunction()
