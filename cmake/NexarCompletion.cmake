# Scripts that complete commands and options in shells, made by the command itself.
if(NOT CMAKE_CROSSCOMPILING)
  set(completion_dir ${CMAKE_BINARY_DIR}/completion)
  set(completions ${completion_dir}/nexar ${completion_dir}/_nexar ${completion_dir}/nexar.fish)
  add_custom_command(OUTPUT ${completions}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${completion_dir}
    COMMAND nexar_cmd completion bash > ${completion_dir}/nexar
    COMMAND nexar_cmd completion zsh > ${completion_dir}/_nexar
    COMMAND nexar_cmd completion fish > ${completion_dir}/nexar.fish
    DEPENDS nexar_cmd VERBATIM)
  add_custom_target(nexar_completion ALL DEPENDS ${completions})
  install(FILES ${completion_dir}/nexar DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${completion_dir}/_nexar DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${completion_dir}/nexar.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
