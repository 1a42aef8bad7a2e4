# public_calls.awk - the public calls that return nexar_err, out of nexar.h, as C: src/core/job_end/on_error.h.
#
#   awk -v what=names|calls -f public_calls.awk include/nexar.h
#
# names: each call gets a second name, under which the library's own sources define and call it.
# calls: the public functions, each of which calls that and hands its result to nx_returned().

# The name of a parameter: its last word, without the brackets of an array.
function argument(text) {
    sub(/[ \n]*\[\][ \n]*$/, "", text)
    sub(/.*[^A-Za-z0-9_]/, "", text)
    return text
}

function arguments(list, n, parts, i, out) {
    n = split(list, parts, ",")
    for (i = 1; i <= n; i++) {
        out = out (i > 1 ? ", " : "") argument(parts[i])
    }
    return out
}

function answer(name, list) {
    if (what == "names") {
        print "#define " name " nx_api_" substr(name, 7)
        return
    }
    print "\nnexar_err nx_api_" substr(name, 7) "(" list ");"
    print "nexar_err " name "(" list ")\n{"
    print "    return nx_returned(nx_api_" substr(name, 7) "(" arguments(list) "));\n}"
}

BEGIN { RS = "\001" }
{
    gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "")
    print "/* Made from nexar.h by cmake/public_calls.awk. */"
    print (what == "calls") ? "#include \"core/job_end/on_error.h\"" : "#ifndef NX_PUBLIC_CALLS"
    n = split($0, statements, ";")
    for (i = 1; i <= n; i++) {
        at = index(statements[i], "NEXAR_API nexar_err ")
        if (at > 0) {
            text = substr(statements[i], at + length("NEXAR_API nexar_err "))
            open = index(text, "(")
            list = substr(text, open + 1)
            sub(/\)[ \n]*$/, "", list)
            answer(substr(text, 1, open - 1), list)
        }
    }
    if (what == "names") {
        print "#endif"
    }
}
