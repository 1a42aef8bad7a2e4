# Flags, the two libraries, and the helpers that every CMakeLists.txt below uses.
set(NEXAR_SANITIZE "" CACHE STRING "address,undefined | thread | (empty)")
option(NEXAR_WERROR "Warnings are errors" OFF)
option(NEXAR_LTO "The installed library and command are optimised across files" OFF)
option(NEXAR_FUZZ "Build the fuzz targets (clang only)" OFF)

# Programs that were linked with one soname run with every library of it.  Before 1.0 a minor
# version may change the interface, so it is part of the soname.
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(NEXAR_SOVERSION 0.${PROJECT_VERSION_MINOR})
else()
  set(NEXAR_SOVERSION ${PROJECT_VERSION_MAJOR})
endif()

add_library(nexar_flags INTERFACE)
target_compile_options(nexar_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow
  -Wconversion -Wsign-conversion -Wstrict-prototypes -Wmissing-prototypes
  -Wundef -Wvla -Wwrite-strings -Wcast-align -Wpointer-arith -Wswitch-enum)
if(NEXAR_WERROR)
  target_compile_options(nexar_flags INTERFACE -Werror)
endif()
target_compile_definitions(nexar_flags INTERFACE _GNU_SOURCE)
target_include_directories(nexar_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
if(NEXAR_SANITIZE)
  target_compile_options(nexar_flags INTERFACE -fsanitize=${NEXAR_SANITIZE}
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(nexar_flags INTERFACE -fsanitize=${NEXAR_SANITIZE})
endif()
set(NEXAR_TEST_TIMEOUT 900) # of seconds: ends one that hangs, and no busy machine needs as much

if(NEXAR_FUZZ)
  target_compile_options(nexar_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# The public functions that return nexar_err, made from nexar.h: src/core/job_end/on_error.h.
function(nexar_public_calls)
  set(HEADER ${PROJECT_SOURCE_DIR}/include/nexar.h)
  set(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/public_calls.awk)
  set(NAMES ${CMAKE_BINARY_DIR}/generated/public_call_names.h)
  set(CALLS ${CMAKE_BINARY_DIR}/generated/public_calls.c)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${SCRIPT})
  find_program(AWK NAMES awk REQUIRED)
  foreach(WHAT names calls)
    execute_process(COMMAND ${AWK} -v what=${WHAT} -f ${SCRIPT} ${HEADER}
      OUTPUT_VARIABLE TEXT COMMAND_ERROR_IS_FATAL ANY)
    string(TOUPPER ${WHAT} FILE)
    file(CONFIGURE OUTPUT ${${FILE}} CONTENT "${TEXT}" @ONLY) # keeps the time of what is as it was
  endforeach()
  target_compile_options(nexar_objs PRIVATE -include ${NAMES})
  target_sources(nexar_objs PRIVATE ${CALLS})
  set_source_files_properties(${CALLS} TARGET_DIRECTORY nexar_objs
    PROPERTIES COMPILE_DEFINITIONS NX_PUBLIC_CALLS)
endfunction()

function(nexar_add_library)
  find_package(Threads REQUIRED)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(NEXAR_QUIC REQUIRED IMPORTED_TARGET
    libngtcp2>=0.12.1 libngtcp2_crypto_gnutls gnutls>=3.7)
  if(NEXAR_QUIC_libngtcp2_VERSION VERSION_GREATER_EQUAL 0.13 AND
     NEXAR_QUIC_libngtcp2_VERSION VERSION_LESS 1.4)
    message(FATAL_ERROR "libngtcp2 ${NEXAR_QUIC_libngtcp2_VERSION} is not supported;"
      " install 0.12.1, or 1.4 or newer")
  endif()
  # Not only where pkg-config says so: the headers of others may have warnings.
  set_target_properties(PkgConfig::NEXAR_QUIC PROPERTIES
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${NEXAR_QUIC_INCLUDE_DIRS}")
  add_library(nexar_objs OBJECT)
  set_target_properties(nexar_objs PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_definitions(nexar_objs PRIVATE NEXAR_BUILD
    NEXAR_VERSION="${PROJECT_VERSION}")
  target_include_directories(nexar_objs PUBLIC ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(nexar_objs PRIVATE nexar_flags PkgConfig::NEXAR_QUIC)
  nexar_public_calls()
  add_library(nexar SHARED $<TARGET_OBJECTS:nexar_objs>)
  set_target_properties(nexar PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${NEXAR_SOVERSION})
  target_include_directories(nexar INTERFACE
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  target_link_libraries(nexar PRIVATE PkgConfig::NEXAR_QUIC Threads::Threads m)
  target_link_options(nexar PRIVATE -Wl,-z,defs -Wl,-z,now
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
  set_property(TARGET nexar APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
  if(NEXAR_SANITIZE)
    target_link_options(nexar PRIVATE -fsanitize=${NEXAR_SANITIZE} -Wl,-z,undefs)
  endif()
  nexar_optimise_across(nexar)
  add_library(nexar_all STATIC $<TARGET_OBJECTS:nexar_objs>)
  target_include_directories(nexar_all PUBLIC ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(nexar_all PUBLIC nexar_flags PkgConfig::NEXAR_QUIC Threads::Threads m)
endfunction()

# Across files: a message of 8 bytes by shared memory takes 12 to 14 % less.  Objects are made both
# ways: what is linked besides, and not installed, is linked faster.
function(nexar_optimise_across)
  if(NOT NEXAR_LTO OR NOT CMAKE_C_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  target_compile_options(nexar_objs PRIVATE -flto=auto -ffat-lto-objects)
  foreach(TARGET ${ARGN})
    target_compile_options(${TARGET} PRIVATE -flto=auto)
    target_link_options(${TARGET} PRIVATE -flto=auto)
  endforeach()
endfunction()

# Sources of the current directory.
function(nexar_sources)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  target_sources(nexar_objs PRIVATE ${ARGN})
endfunction()

# nexar_test(foo_test), nexar_test(folder/foo_test): foo_test.c, against the whole library.
function(nexar_test NAME)
  if(NOT BUILD_TESTING)
    return()
  endif()
  file(RELATIVE_PATH DIR ${PROJECT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
  get_filename_component(TEST ${NAME} NAME)
  add_executable(${TEST} ${NAME}.c ${ARGN})
  target_link_libraries(${TEST} PRIVATE nexar_all nexar_testing)
  add_test(NAME ${DIR}/${NAME} COMMAND ${TEST})
  set_tests_properties(${DIR}/${NAME} PROPERTIES TIMEOUT ${NEXAR_TEST_TIMEOUT})
endfunction()

# nexar_fuzz(foo): foo_fuzz.c of this directory.  libFuzzer drives it where
# NEXAR_FUZZ is on; elsewhere it is a test that replays corpus/foo.
function(nexar_fuzz NAME)
  add_executable(${NAME}_fuzz ${NAME}_fuzz.c fuzz.c nowhere.c)
  target_link_libraries(${NAME}_fuzz PRIVATE nexar_all)
  target_include_directories(${NAME}_fuzz PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  if(NEXAR_FUZZ)
    target_link_options(${NAME}_fuzz PRIVATE -fsanitize=fuzzer)
    return()
  endif()
  target_sources(${NAME}_fuzz PRIVATE replay.c)
  file(GLOB CORPUS CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${NAME}/*)
  add_test(NAME fuzz/${NAME}_replay COMMAND ${NAME}_fuzz ${CORPUS})
  set_tests_properties(fuzz/${NAME}_replay PROPERTIES TIMEOUT ${NEXAR_TEST_TIMEOUT})
endfunction()

# nexar_script_test(foo_test ARG...): foo_test.sh of this directory.
function(nexar_script_test NAME)
  add_test(NAME tests/${NAME} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/${NAME}.sh ${ARGN})
  set_tests_properties(tests/${NAME} PROPERTIES TIMEOUT ${NEXAR_TEST_TIMEOUT})
endfunction()
