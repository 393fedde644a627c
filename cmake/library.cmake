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
#                        FOLDERS ... [EXCEPT <folder>...] LIBRARIES ...)
#
# Adds a library that users know as wheelcache::<export name>, of all that is in
# these folders and below. All of its dependencies are public: the code of a
# cache is compiled into its users, from headers.
function(wheelcache_add_library name)
  cmake_parse_arguments(arg "" "EXPORT_NAME" "FOLDERS;EXCEPT;LIBRARIES" ${ARGN})
  list(TRANSFORM arg_FOLDERS APPEND /*.cc OUTPUT_VARIABLE sources)
  list(TRANSFORM arg_FOLDERS APPEND /*.h OUTPUT_VARIABLE headers)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${sources})
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${headers})
  foreach(folder IN LISTS arg_EXCEPT)
    list(FILTER sources EXCLUDE REGEX "^${folder}/")
    list(FILTER headers EXCLUDE REGEX "^${folder}/")
  endforeach()
  add_library(${name} ${sources} ${headers})
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
    SOVERSION ${wheelcache_ABI})
  if(BUILD_SHARED_LIBS)
    target_link_options(${name} PRIVATE -Wl,--no-undefined)
  endif()

  if(WHEELCACHE_INSTALL)
    wheelcache_install_library(${name} ${headers})
  endif()
endfunction()
