"""json_cases - what is JSON and what is not: texts that must be taken, and texts that must be refused with -32700."""
from harness import claim, equal, group, node

NUMBERS_GOOD = """0 -0 1 -1 10 123456789 9223372036854775807 -9223372036854775808 0.0 0.5 -0.5 1.25 10.01 1e0 1E0 1e5 1E+5 1e-5 1.5e10 0e0
-0.0 123.456e-78 0.1e+1 -1e-1 1e308 2.2250738585072014e-308 1e-999 0E+2 20e1""".split()
NUMBERS_BAD = """01 -01 00 1. .5 -.5 -. 1.e5 .e1 1e 1E 1e+ 1e- 1ee5 1e5.5 1e1e1 +1 ++1 - -- -a 0x1 0b1 0o7 1_000 1,000 1a 1.2.3 Infinity -Infinity
NaN -NaN nan inf 1e999 -1e999 9223372036854775808 -9223372036854775809 1e+ 0.e1 - 012 2.e3 0.3e 0.3e+ 1.0e+ 0e 0e+ 0E 0E+ -1.0. 0.1.2
#1 1f 1L 1u 1n 0xFF -0x1""".split() + ["\u0661", "\uff11", "1\u00a00", "1 0", "- 1", "1 .5", "1e 5"]
STRINGS_GOOD = [
    '""', '" "', '"a"', r'"\""', r'"\\"', r'"\/"', r'"\b\f\n\r\t"', r'"\u0041"', r'"\u00e9"', r'"\uABCD\uabcd"', r'"\u0000"', r'"\u001f"',
    r'"\u007f"', '"\x7f"', '"é"', '"€"', '"𝄞"', r'"\ud834\udd1e"', r'"\uDBFF\uDFFF"', r'"\u2028\u2029"', '"\u2028\u2029"', '"\ufffd"', r'"\ufffe"',
    '"\ufeffx"', '"/"', '"\'"', r'"\u0022"', r'"\u005C"', '"[{]},:"', r'"a\u0000b"', '"' + "a" * 10000 + '"', '"\U0010ffff"', '"\uffff"',
]
STRINGS_BAD = [
    '"', '"a', '"a\\"', "'a'", "a", '"\\', '"\\x41"', r'"\a"', r'"\v"', r'"\0"', r'"\u"', r'"\u1"', r'"\u12"', r'"\u123"', r'"\u123g"', r'"\U0041"',
    r'"\ud800"', r'"\udc00"', r'"\ud800\u0041"', r'"\ud800\ud800"', r'"\udc00\ud800"', r'"\ud834x"', r'"\ud834\n"', r'"\ud834\\udd1e"', '"\n"', '"\t"', '"\r"', '"\0"', '"\x01"',
    '"\x1f"', b'"\xff"', b'"\xc0\xaf"', b'"\xe0\x80\xaf"', b'"\xf0\x80\x80\xaf"', b'"\xed\xa0\x80"', b'"\xed\xb0\x80"', b'"\xf4\x90\x80\x80"', b'"\xf8\x88\x80\x80\x80"',
    b'"\x80"', b'"\xe2\x82"', b'"\xc3', b'"\xe9"', r'"\u00zz"', r'"\u 041"', '"\\\n"', '"\\\u00e9"', r'\u0022a\u0022', '"a" "b"', '"a"b', '`a`', '"""',
]
SHAPES_GOOD = [
    "{}", "[]", " {} ", "\t\r\n[ ]\n", '{"a":1}', '{"a" : 1 , "b" : [ ] }', "[1,2,3]", "[[],[],{}]", "[null,true,false]", "null", "true", "false", '{"":0}',
    '{"a":{"b":{"c":{}}}}', '[{"a":[{"b":[]}]}]', '{"a":null}', '{"\\u0061":1}', "[" * 64 + "]" * 64, '{"a":' * 64 + "1" + "}" * 64,
    "[" + ",".join(["0"] * 5000) + "]", "[" + ",".join(["0"] * 240000) + "]", '["[[[[[[[[[["]', '["' + "[" * 200 + '"]', '["\\"[' + "[" * 200 + '"]',
]
SHAPES_BAD = [
    "", " ", "\n", "{", "}", "[", "]", "[1", "[1,", "[,1]", "[1,]", "[,]", "[1,,2]", "[1 2]", "[1;2]", "[1:2]", '["a":1]', "[1]]", "[1]x", "[][]", "{}{}", "[1],", ",[1]",
    '{"a"}', '{"a":}', '{"a":1,}', '{,"a":1}', '{"a":1,,"b":2}', '{"a" 1}', '{"a"=1}', '{"a"::1}', '{"a":1:2}', "{a:1}", "{'a':1}", "{1:1}", "{null:1}", "{[]:1}", '{"a":1',
    '{"a":1]', '["a"}', '{"a":1 "b":2}', '{"a":1;"b":2}', '{:1}', '{"a":1}}', "tru", "truth", "True", "TRUE", "nul", "nulll", "Null", "None", "undefined", "fals", "false1",
    "true false", "[tru]", "[nul]", "[fals]", "[True]", "\ufeff{}", "\ufeff[1]", "[1]\0", "\0[1]", "[\0]", "\u00a0[1]", "[\u00a01]", "\u2028[1]", "\u200b[]", "[\f]", "[\v1]",
    "// c\n[1]", "[1] // c", "/* c */[1]", "[1 /* c */]", "# c\n[1]", "[...]", "[1..2]", "<a/>", "a=1", "[`a`]", "(1)", "[()]", '{"a":1,"a":2}', '{"a":1,"b":2,"a":1}',
    '{"x":{"a":1,"a":1}}', '{"\\u0061":1,"a":2}', '{"a\\u0000b":1}', "[" * 65 + "]" * 65, '{"a":' * 65 + "1" + "}" * 65, "[" * 100000, "[" * 100000 + "]" * 100000,
    '{"a":' * 100000, "[{" * 50000, "]" * 1000, b"\xfe\xff\x00[\x00]", b"[\x001\x00]\x00", b"\xff\xfe[\x00]\x00", b"\xef\xbb", b"\xe5", "*", "[*]", "[\\n]", "\\", "[-]", "[1\x00]", "[" + "0," * 250001 + "0]", "[" + "[]," * 250001 + "0]",
    '{"a":"b"/**/}', '{"a":01}', '{"a":tru}', '["x"', '["x', '["x",', "[1,\n2,\n3", '{"a', '{"a"', '{"a":', '{"a":"', '{"a":[', '{"a":[1', '{"a":[1]',
]


def bytes_of(text):
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def is_parse_error(answer):
    return isinstance(answer, dict) and answer.get("error", {}).get("code") == -32700 and answer.get("id", 0) is None


def wrap(text, before=b"[", after=b"]"):
    return before + bytes_of(text) + after


@group
def accepted():
    texts = [bytes_of(t) for t in SHAPES_GOOD + STRINGS_GOOD + NUMBERS_GOOD]
    texts += [wrap(t) for t in NUMBERS_GOOD + STRINGS_GOOD] + [wrap(t, b'{"k":', b"}") for t in NUMBERS_GOOD + STRINGS_GOOD]
    for text in texts:
        answer = node().raw(text)
        claim(f"JSON {text[:60]}", answer is not None and not is_parse_error(answer), answer)


@group
def refused():
    texts = [bytes_of(t) for t in SHAPES_BAD + STRINGS_BAD + NUMBERS_BAD]
    texts += [wrap(t) for t in NUMBERS_BAD + STRINGS_BAD] + [wrap(t, b'{"k":', b"}") for t in NUMBERS_BAD + STRINGS_BAD]
    for text in texts:
        answer = node().raw(text)
        claim(f"no JSON {text[:60]}", is_parse_error(answer), answer)


@group
def echoed():
    """What comes in as a string goes out as the same string."""
    for value in ["", "a", "é€𝄞", "\0", "\x1f\x7f\u0080\u009f\u2028", '"\\/', "\n\r\t\b\f", "\ufffd\U0010ffff", "x" * 5000]:
        equal(f"id {value[:20]!r}", node().call("node_info", id=value)["id"], value)
    for value in [0, -1, 9223372036854775807, -9223372036854775808, 1.5, 1e300]:
        equal(f"id {value}", node().call("node_info", id=value)["id"], value)
