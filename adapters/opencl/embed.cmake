# embed.cmake - kernels.cl as a table of lines in C: cmake -DIN= -DOUT= -P embed.cmake
file(READ ${IN} text)
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
# A list's separators must not be seen.
string(REPLACE ";" "\\073" text "${text}")
string(REPLACE "[" "\\133" text "${text}")
string(REPLACE "]" "\\135" text "${text}")
string(REGEX REPLACE "\n$" "" text "${text}")
string(REPLACE "\n" "\\n\",\n    \"" text "${text}")
file(WRITE ${OUT} "/* Made of kernels.cl. */
extern const char *const nx_cl_source[];
extern const unsigned nx_cl_source_lines;
const char *const nx_cl_source[] = {
    \"${text}\\n\"};
const unsigned nx_cl_source_lines = sizeof(nx_cl_source) / sizeof(nx_cl_source[0]);
")
