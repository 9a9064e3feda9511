# A file as C: cmake -DFROM=page.html -DTO=page.c -P embed.cmake
file(READ ${FROM} bytes HEX)
string(LENGTH "${bytes}" size)
math(EXPR size "${size} / 2")
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${TO} "/* page.c - page.html. */\n#include <stddef.h>\nextern const unsigned char node_page[];\nextern const size_t node_page_size;\nconst unsigned char node_page[] = {\n${bytes}\n};\nconst size_t node_page_size = ${size};\n")
