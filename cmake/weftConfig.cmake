# find_package(weft) gives weft::weft (shared) and weft::static.
include(CMakeFindDependencyMacro)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/weftTargets.cmake)
# weft::tls (shared) and weft::tls_static, where libweft-tls was built.
include(${CMAKE_CURRENT_LIST_DIR}/weft-tls-targets.cmake OPTIONAL)
# weft::cares and weft::cares_static, where libweft-cares was built.
include(${CMAKE_CURRENT_LIST_DIR}/weft-cares-targets.cmake OPTIONAL)
# weft::janus and weft::janus_static.
include(${CMAKE_CURRENT_LIST_DIR}/weft-janus-targets.cmake)
