# How the project's libraries are built.

# Headers are included as "wheelcache/cache/cache.h". In the build folder, links
# to the rooms give them this prefix.
set(wheelcache_INCLUDE_DIR ${PROJECT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${wheelcache_INCLUDE_DIR}/wheelcache)
foreach(folder cache lru wheel)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder}
    ${wheelcache_INCLUDE_DIR}/wheelcache/${folder} SYMBOLIC)
endforeach()

# wheelcache_add_library(<name> EXPORT_NAME <export name>
#                        SOURCES ... HEADERS ... LIBRARIES ...)
#
# Adds a library that users know as wheelcache::<export name>. All of its
# dependencies are public: the code of a cache is compiled into its users, from
# headers.
function(wheelcache_add_library name)
  cmake_parse_arguments(arg "" "EXPORT_NAME" "SOURCES;HEADERS;LIBRARIES" ${ARGN})
  add_library(${name} ${arg_SOURCES} ${arg_HEADERS})
  add_library(wheelcache::${arg_EXPORT_NAME} ALIAS ${name})

  # Of the users' warnings, none is about these headers.
  target_include_directories(${name} SYSTEM
    INTERFACE $<BUILD_INTERFACE:${wheelcache_INCLUDE_DIR}>)
  target_include_directories(${name} PRIVATE ${wheelcache_INCLUDE_DIR})
  target_compile_features(${name} PUBLIC cxx_std_17)
  target_compile_options(${name} PRIVATE -Wall -Wextra)
  target_link_libraries(${name} PUBLIC ${arg_LIBRARIES})

  # A shared library exports what is marked with WHEELCACHE_EXPORT, and nothing
  # else. A static one may become part of a user's shared library.
  if(NOT DEFINED CMAKE_POSITION_INDEPENDENT_CODE)
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
  set_target_properties(${name} PROPERTIES
    EXPORT_NAME ${arg_EXPORT_NAME}
    CXX_EXTENSIONS OFF
    UNITY_BUILD OFF  # Several files have a constant of the same name.
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR})
  if(BUILD_SHARED_LIBS)
    target_link_options(${name} PRIVATE -Wl,--no-undefined)
  endif()

  if(WHEELCACHE_INSTALL)
    wheelcache_install_library(${name} ${arg_HEADERS})
  endif()
endfunction()
