# `cmake --install`: the program, the libraries with their headers, and what find_package(seqgrad) reads.
# `cpack`: the same as two Debian packages, the program and the libraries to build with.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(rooms kernels tensor autograd nn seq2seq)
add_library(seqgrad_all INTERFACE)
target_link_libraries(seqgrad_all INTERFACE seqgrad_seq2seq)
set_target_properties(seqgrad_all PROPERTIES EXPORT_NAME seqgrad)
foreach(name options gradcheck_main ${rooms})
  set_target_properties(seqgrad_${name} PROPERTIES EXPORT_NAME ${name})
endforeach()
list(TRANSFORM rooms PREPEND seqgrad_ OUTPUT_VARIABLE libraries)

install(TARGETS seqgrad RUNTIME COMPONENT program)
install(TARGETS seqgrad_all seqgrad_options ${libraries} seqgrad_gradcheck_main EXPORT seqgradTargets
        ARCHIVE COMPONENT development)
install(DIRECTORY ${rooms} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/seqgrad COMPONENT development
        FILES_MATCHING PATTERN "*.h" PATTERN "*.def" PATTERN ops EXCLUDE)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/seqgrad RENAME copyright COMPONENT program)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libseqgrad-dev RENAME copyright COMPONENT development)
set(config ${CMAKE_INSTALL_LIBDIR}/cmake/seqgrad)
install(EXPORT seqgradTargets NAMESPACE seqgrad:: DESTINATION ${config} COMPONENT development)
configure_package_config_file(tools/package/seqgradConfig.cmake.in ${CMAKE_BINARY_DIR}/seqgradConfig.cmake
                              INSTALL_DESTINATION ${config})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/seqgradConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/seqgradConfig.cmake ${CMAKE_BINARY_DIR}/seqgradConfigVersion.cmake
              tools/package/dependencies.cmake DESTINATION ${config} COMPONENT development)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "The seqgrad authors")
set(CPACK_PACKAGE_CONTACT "The seqgrad authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Attention translators on a tensor and autograd library of their own")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME seqgrad)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS libopenblas0-openmp)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libseqgrad-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libopenblas-openmp-dev, libsleef-dev, libfmt-dev, libicu-dev, libsentencepiece-dev, libtomlplusplus-dev, libxxhash-dev, zlib1g-dev")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Libraries, headers and gradient checks to build one's own programs with")
include(CPack)
