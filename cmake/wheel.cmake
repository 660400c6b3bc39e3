# `ninja wheel`: the Python package of what is built here, in dist/ of the build folder. `pip install .` makes the same one.
find_package(Python3 QUIET COMPONENTS Interpreter)
if(TARGET libthole AND Python3_Interpreter_FOUND)
  add_custom_target(wheel DEPENDS thole libthole USES_TERMINAL
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/packaging/wheel/wheel_backend.py --built ${CMAKE_BINARY_DIR}
            --into ${CMAKE_BINARY_DIR}/dist)
endif()
