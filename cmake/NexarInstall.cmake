# What `make install` puts where: library, header, CMake package, pkg-config
# file, command, man pages, license, documents and examples.
install(TARGETS nexar EXPORT nexar-targets)
install(TARGETS nexar_cmd)
install(FILES include/nexar.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES man/nexar.1 man/nexar-bench.1 man/nexar-completion.1 man/nexar-info.1 man/nexar-ping.1 man/nexar-plan.1
              man/nexar-run.1 man/nexar-seed.1
        DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES man/nexar.7 DESTINATION ${CMAKE_INSTALL_MANDIR}/man7)
# A man 3 page per public call is made from nexar.h; without Python they are left out.
find_package(Python3 QUIET COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND)
  set(NEXAR_MAN3 ${CMAKE_CURRENT_BINARY_DIR}/man3)
  file(MAKE_DIRECTORY ${NEXAR_MAN3})
  add_custom_command(OUTPUT ${NEXAR_MAN3}/nexar_init.3
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/api_pages.py man ${NEXAR_MAN3}
    DEPENDS ${PROJECT_SOURCE_DIR}/scripts/api_pages.py ${PROJECT_SOURCE_DIR}/include/nexar.h)
  add_custom_target(nexar_man3 ALL DEPENDS ${NEXAR_MAN3}/nexar_init.3)
  install(DIRECTORY ${NEXAR_MAN3} DESTINATION ${CMAKE_INSTALL_MANDIR})
endif()
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples
        FILES_MATCHING PATTERN "*.[ch]")
install(EXPORT nexar-targets NAMESPACE nexar::
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/nexar)
configure_package_config_file(cmake/nexar-config.cmake.in nexar-config.cmake
        INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/nexar)
write_basic_package_version_file(nexar-config-version.cmake
        COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/nexar-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/nexar-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/nexar)
file(RELATIVE_PATH NEXAR_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/nexar.pc.in nexar.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/nexar.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
