# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Makes a tool that holds LLVM and MLIR itself. Included by KvqMLIR.cmake where KVQ_STATIC_LLVM is on.

# The targets that Debian's packages export are archives that name the shared LLVM, and some the shared MLIR, as their
# base. These are taken out, since two copies in one process do not know each other's types; archives take their place.
get_property(kvq_mlir_libraries GLOBAL PROPERTY MLIR_ALL_LIBS)
list(FILTER kvq_mlir_libraries EXCLUDE REGEX "Test|Shared$|^MLIR$")
foreach(library IN LISTS kvq_mlir_libraries)
  if(TARGET ${library})
    get_target_property(needed ${library} INTERFACE_LINK_LIBRARIES)
    if(needed)
      list(REMOVE_ITEM needed LLVM MLIR "$<LINK_ONLY:LLVM>" "$<LINK_ONLY:MLIR>")
      set_target_properties(${library} PROPERTIES INTERFACE_LINK_LIBRARIES "${needed}")
    endif()
  endif()
endforeach()
llvm_map_components_to_libnames(kvq_llvm_libraries
  NVPTX X86 Passes Core Support Target Analysis BitReader BitWriter IRReader Linker TransformUtils ipo MC FrontendOpenMP
  TargetParser Remarks)

# kvq_link_static_llvm(tool): which archives a tool takes is the linker's choice, so all of them are offered.
function(kvq_link_static_llvm tool)
  target_link_libraries(${tool} PRIVATE ${kvq_mlir_libraries} ${kvq_llvm_libraries})
  target_link_options(${tool} PRIVATE -static-libstdc++ -static-libgcc -Wl,--gc-sections)
endfunction()
