# The libraries of others that parts of weft need: whether to build such a part, and what to say if it is not built.
find_package(PkgConfig QUIET)

# In a cross build, pkg-config describes the libraries of the build machine unless it was pointed elsewhere. Using those would
# compile against the wrong headers and fail at link time at best.
set(packages_usable ${PKG_CONFIG_FOUND})
if(CMAKE_CROSSCOMPILING AND NOT DEFINED ENV{PKG_CONFIG_LIBDIR} AND NOT DEFINED ENV{PKG_CONFIG_SYSROOT_DIR}
   AND NOT PKG_CONFIG_EXECUTABLE MATCHES "/[^/]+-pkg-config$")
  set(packages_usable OFF)
endif()

# weft_package(PREFIX MODULE): as pkg_check_modules, with the target PkgConfig::PREFIX; not found where packages_usable is off.
macro(weft_package prefix module)
  if(packages_usable)
    pkg_check_modules(${prefix} QUIET IMPORTED_TARGET ${module})
  else()
    set(${prefix}_FOUND 0)
  endif()
endmacro()

# weft_part(OPTION WHAT NEEDS FOUND): sets OPTION_BUILT. FOUND: whether everything that the part needs is there.
function(weft_part option what needs found)
  string(TOUPPER "${${option}}" value)
  if(NOT value MATCHES "^(ON|OFF|AUTO|TRUE|FALSE|YES|NO|1|0)$")
    message(FATAL_ERROR "${option} is '${${option}}', expected ON, OFF or AUTO")
  endif()
  if(CMAKE_CROSSCOMPILING AND NOT packages_usable)
    string(APPEND needs "; in a cross build, set PKG_CONFIG_LIBDIR to the target's pkgconfig folder")
  endif()
  set(built OFF)
  if(value STREQUAL AUTO)
    if(found)
      set(built ON)
    else()
      message(STATUS "${what} is not built: it needs ${needs}")
    endif()
  elseif(value)
    if(NOT found)
      message(FATAL_ERROR "${option} is ON, but ${what} needs ${needs}")
    endif()
    set(built ON)
  endif()
  set(${option}_BUILT ${built} PARENT_SCOPE)
endfunction()
