# What is built on demand beside the libraries: trace_replay and the examples.

if(WHEELCACHE_BUILD_TOOLS)
  if(BUILD_SHARED_LIBS)
    message(FATAL_ERROR "WHEELCACHE_BUILD_TOOLS=ON needs BUILD_SHARED_LIBS=OFF: "
      "trace_replay uses what a shared library does not export")
  endif()
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/tools ${wheelcache_INCLUDE_DIR}/wheelcache/tools SYMBOLIC)
  file(GLOB trace_replay_SOURCES CONFIGURE_DEPENDS tools/trace_replay/*.cc tools/load_testing/*.cc)
  add_executable(trace_replay ${trace_replay_SOURCES})
  target_link_libraries(trace_replay PRIVATE wheelcache
    absl::flags absl::flags_parse absl::flags_usage absl::flat_hash_map absl::int128 absl::str_format)
  if(WHEELCACHE_INSTALL)
    install(TARGETS trace_replay COMPONENT tools DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endif()

# wheelcache_example(<name> [<library>...]), in the folder examples of the build.
function(wheelcache_example name)
  add_executable(wheelcache_${name} examples/${name}.cc)
  target_link_libraries(wheelcache_${name} PRIVATE wheelcache ${ARGN})
  set_target_properties(wheelcache_${name} PROPERTIES
    OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples)
endfunction()

if(WHEELCACHE_BUILD_EXAMPLES)
  foreach(name hello quickstart event_loop snapshot)
    wheelcache_example(${name})
  endforeach()
  if(TARGET wheelcache_near)
    wheelcache_example(near_cache wheelcache_near)
  endif()
  find_package(PkgConfig)
  if(PkgConfig_FOUND)
    pkg_check_modules(cpp_httplib IMPORTED_TARGET cpp-httplib)
  endif()
  if(TARGET PkgConfig::cpp_httplib)
    wheelcache_example(status_server PkgConfig::cpp_httplib Threads::Threads)
  else()
    message(STATUS "Without the example status_server: pkg-config finds no cpp-httplib")
  endif()
endif()
