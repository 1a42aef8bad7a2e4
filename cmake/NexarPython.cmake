# The Python package: built where it is asked for (NEXAR_PYTHON, as pip does), and for the tests
# where the distribution's Python has its headers.
find_program(NEXAR_PYTHON_EXECUTABLE python3 PATHS /usr/bin NO_DEFAULT_PATH)
if(SKBUILD)
  find_package(Python REQUIRED COMPONENTS Interpreter)
  set(NEXAR_PYTHON_EXECUTABLE ${Python_EXECUTABLE})
endif()
set(NEXAR_PYTHON_LACKS "")
if(NOT NEXAR_PYTHON_EXECUTABLE)
  set(NEXAR_PYTHON_LACKS "python3 is not there")
elseif(NOT NEXAR_PYTHON)
  execute_process(COMMAND ${NEXAR_PYTHON_EXECUTABLE} -c
    "import sysconfig, os, sys; sys.exit(not os.path.exists(sysconfig.get_path('include') + '/Python.h'))"
    RESULT_VARIABLE NEXAR_PYTHON_BARE)
  if(NEXAR_PYTHON_BARE)
    set(NEXAR_PYTHON_LACKS "python3-dev is not there")
  endif()
endif()
if(NEXAR_PYTHON OR (BUILD_TESTING AND NOT NEXAR_PYTHON_LACKS))
  add_subdirectory(python)
elseif(BUILD_TESTING)
  message(STATUS "Python: ${NEXAR_PYTHON_LACKS}; its tests are skipped")
endif()
