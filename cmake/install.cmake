# What `cmake --install` puts where. With the prefix /usr or /usr/local systemd finds the files it reads by itself;
# elsewhere (a home directory) they lie unused and nothing needs them.
include(CMakePackageConfigHelpers)

set(THOLE_SYSTEMD_DIR lib/systemd/system CACHE STRING "Where the systemd unit goes, below the prefix")
set(THOLE_SYSTEMD_USER_DIR lib/systemd/user CACHE STRING "Where the users' own systemd unit goes, below the prefix")
set(THOLE_TMPFILES_DIR lib/tmpfiles.d CACHE STRING "Where the tmpfiles.d entry goes, below the prefix")
set(THOLE_UDEV_DIR lib/udev/rules.d CACHE STRING "Where the udev rule goes, below the prefix")

install(TARGETS thole RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES packaging/tmpfiles.conf DESTINATION ${THOLE_TMPFILES_DIR} RENAME thole.conf)
install(FILES packaging/70-thole.rules DESTINATION ${THOLE_UDEV_DIR})
# The units name the program by its full path, which is known only when installing (cmake --install --prefix). They are
# written where they belong: root's install leaves nothing in a user's build folder but CMake's own install_manifest.txt.
install(CODE "
  get_filename_component(THOLE_BINDIR \${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR} ABSOLUTE)
  foreach(unit ${THOLE_SYSTEMD_DIR}/thole-init.service ${THOLE_SYSTEMD_USER_DIR}/thole-runner.service)
    get_filename_component(name \${unit} NAME)
    message(STATUS \"Installing: \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/\${unit}\")
    configure_file(${PROJECT_SOURCE_DIR}/packaging/\${name}.in \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/\${unit} @ONLY)
    list(APPEND CMAKE_INSTALL_MANIFEST_FILES \${CMAKE_INSTALL_PREFIX}/\${unit})
  endforeach()")
install(FILES packaging/run-thole.mount DESTINATION ${THOLE_SYSTEMD_DIR})
install(DIRECTORY machines/ DESTINATION ${CMAKE_INSTALL_DATADIR}/thole/machines FILES_MATCHING PATTERN "*.json")
# The Python package as it is, for `thole compat`: it is found beside the program. Users install the wheel.
install(DIRECTORY python/tholepin DESTINATION ${CMAKE_INSTALL_DATADIR}/thole/python PATTERN "__pycache__" EXCLUDE
        PATTERN "_lib" EXCLUDE)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs FILES_MATCHING PATTERN "*.md" PATTERN "*.svg")

if(TARGET libthole)
  set_target_properties(libthole PROPERTIES EXPORT_NAME thole)
  target_include_directories(libthole INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(TARGETS libthole EXPORT tholeTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES include/thole/thole.h include/thole/thole.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/thole)
  install(FILES examples/claim.c examples/claim.cpp DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/thole)
  install(EXPORT tholeTargets NAMESPACE thole:: DESTINATION ${package_dir})
  file(WRITE ${CMAKE_BINARY_DIR}/tholeConfig.cmake "include(\${CMAKE_CURRENT_LIST_DIR}/tholeTargets.cmake)\n")
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/tholeConfigVersion.cmake COMPATIBILITY SameMajorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/tholeConfig.cmake ${CMAKE_BINARY_DIR}/tholeConfigVersion.cmake DESTINATION ${package_dir})

  # Relative to the file itself, so that a moved tree still builds programs.
  file(RELATIVE_PATH pc_prefix ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  string(REGEX REPLACE "/$" "" pc_prefix ${pc_prefix})
  configure_file(packaging/thole.pc.in ${CMAKE_BINARY_DIR}/thole.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/thole.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
