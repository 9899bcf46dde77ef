# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# What `cmake --install BUILD --component runtime` installs: headers, libkvq.so, libkvq.a, and how CMake and pkg-config
# find them. docs/linking.md is the page for who uses it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(kvq::kvq ALIAS kvq_runtime)
set_target_properties(kvq_runtime PROPERTIES EXPORT_NAME kvq INTERFACE_LINK_LIBRARIES "$<BUILD_INTERFACE:kvq_layout>")

# The archive is one object in which everything but kvq_* is local: names of the C++ library and of its JSON parser
# cannot meet those of the program that it is linked into.
set(kvq_archive "${CMAKE_BINARY_DIR}/lib/libkvq.a")
add_custom_command(OUTPUT "${kvq_archive}"
  COMMAND "${CMAKE_LINKER}" -r --force-group-allocation -o kvq-all.o
    $<TARGET_OBJECTS:kvq_runtime_static> $<TARGET_OBJECTS:kvq_format>
  COMMAND "${CMAKE_OBJCOPY}" --strip-debug --wildcard --keep-global-symbol=kvq_* kvq-all.o kvq.o
  COMMAND "${CMAKE_COMMAND}" -E rm -f "${kvq_archive}"
  COMMAND "${CMAKE_AR}" rcs "${kvq_archive}" kvq.o
  DEPENDS kvq_runtime_static kvq_format COMMAND_EXPAND_LISTS VERBATIM COMMENT "Packing libkvq.a")
add_custom_target(kvq_archive ALL DEPENDS "${kvq_archive}")

install(TARGETS kvq_runtime EXPORT kvqTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime NAMELINK_COMPONENT runtime
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES "${kvq_archive}" DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime)
# The C interface, and the record layout for programs that read pages themselves.
foreach(header runtime layout published bits)
  install(FILES "${CMAKE_SOURCE_DIR}/runtime/include/kvq/${header}.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/kvq"
    COMPONENT runtime)
endforeach()

set(kvq_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/kvq")
install(EXPORT kvqTargets NAMESPACE kvq:: DESTINATION "${kvq_package_dir}" COMPONENT runtime)
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/kvqConfig.cmake.in"
  "${CMAKE_CURRENT_BINARY_DIR}/kvqConfig.cmake" INSTALL_DESTINATION "${kvq_package_dir}"
  PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/kvqConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/kvqConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/kvqConfigVersion.cmake"
  DESTINATION "${kvq_package_dir}" COMPONENT runtime)

# The way from kvq.pc to the prefix, so that an unpacked archive works wherever it lies.
file(RELATIVE_PATH KVQ_PREFIX_FROM_PC "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
configure_file("${CMAKE_CURRENT_LIST_DIR}/kvq.pc.in" "${CMAKE_CURRENT_BINARY_DIR}/kvq.pc" @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/kvq.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT runtime)

# The Python package: its modules beside the stripped library, in build/python for tests and in the wheel that
# runtime/python/pyproject.toml describes (component python).
set(kvq_python_dir "${CMAKE_BINARY_DIR}/python/kvq_runtime")
file(GLOB kvq_python_modules CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/runtime/python/kvq_runtime/*.py")
add_custom_command(OUTPUT "${kvq_python_dir}/libkvq.so"
  COMMAND "${CMAKE_COMMAND}" -E make_directory "${kvq_python_dir}"
  COMMAND "${CMAKE_COMMAND}" -E copy ${kvq_python_modules} "${kvq_python_dir}"
  COMMAND "${CMAKE_STRIP}" -o "${kvq_python_dir}/libkvq.so" $<TARGET_FILE:kvq_runtime>
  DEPENDS kvq_runtime ${kvq_python_modules} VERBATIM COMMENT "Packing the Python package")
add_custom_target(kvq_python ALL DEPENDS "${kvq_python_dir}/libkvq.so")
install(FILES ${kvq_python_modules} "${CMAKE_SOURCE_DIR}/LICENSE" DESTINATION kvq_runtime COMPONENT python
  EXCLUDE_FROM_ALL)
install(PROGRAMS "${kvq_python_dir}/libkvq.so" DESTINATION kvq_runtime COMPONENT python EXCLUDE_FROM_ALL)
