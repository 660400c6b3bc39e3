#!/usr/bin/env python3
"""Sources include what they use of the C++ library and of system calls: for each name below the header that declares it, in the
file itself or in a header of ours that it includes. One compiler's library brings <cstdint>, <algorithm> or <unistd.h> in by
way of others, the next one's does not."""
import functools
import pathlib
import re
import sys

HEADER_OF = {
    "cstdint": r"std::u?int(?:8|16|32|64|max|ptr)_t|(?<![\w:])u?int(?:8|16|32|64|max|ptr)_t(?!\w)",
    "algorithm": r"std::(?:ranges::)?(?:sort|stable_sort|find|find_if|find_if_not|any_of|all_of|none_of|count|count_if|"
    r"max_element|min_element|minmax|max|min|clamp|lower_bound|upper_bound|binary_search|equal_range|copy_if|copy_n|transform|"
    r"remove_if|remove|unique|reverse|rotate|fill|fill_n|replace|replace_if|partition|stable_partition|"
    r"nth_element|partial_sort|set_difference|set_intersection|set_union|includes|is_sorted|next_permutation|for_each|equal|"
    r"lexicographical_compare|generate|shuffle|search|mismatch)\b[ (<]",
    "array": r"std::array\b",
    "atomic": r"std::atomic\w*",
    "charconv": r"std::(?:from_chars|to_chars)\b",
    "chrono": r"std::chrono::",
    "cmath": r"std::(?:floor|ceil|round|lround|llround|sqrt|pow|log2?|exp|isnan|isfinite|isinf|fabs|nearbyint|fmod)\b\(",
    "condition_variable": r"std::condition_variable\b",
    "cstring": r"std::(?:mem(?:cpy|set|cmp|move|chr)|str(?:len|cmp|ncmp|error|chr|rchr|str))\b",
    "exception": r"std::(?:current_exception|exception_ptr|rethrow_exception|terminate)\b",
    "filesystem": r"std::filesystem\b",
    "fstream": r"std::[io]?fstream\b",
    "functional": r"std::(?:function|hash|less|greater|reference_wrapper|invoke|identity|cref)\b",
    "initializer_list": r"std::initializer_list\b|\bfor \([^;()]*: \{",
    "iterator": r"std::(?:back_inserter|inserter|istreambuf_iterator|istream_iterator|make_move_iterator)\b",
    "limits": r"std::numeric_limits\b",
    "list": r"std::list\b",
    "map": r"std::(?:multi)?map\b",
    "memory": r"std::(?:unique_ptr|shared_ptr|weak_ptr|make_unique|make_shared)\b",
    "mutex": r"std::(?:mutex|recursive_mutex|lock_guard|unique_lock|scoped_lock|once_flag|call_once)\b",
    "new": r"std::bad_alloc\b",
    "numeric": r"std::(?:accumulate|iota|gcd|lcm|inner_product|partial_sum|reduce)\b",
    "optional": r"std::(?:optional|nullopt|make_optional)\b",
    "random": r"std::(?:mt19937\w*|uniform_\w+_distribution|random_device)\b",
    "set": r"std::(?:multi)?set\b",
    "span": r"std::span\b",
    "sstream": r"std::[io]?stringstream\b",
    "stdexcept": r"std::(?:runtime_error|logic_error|out_of_range|invalid_argument)\b",
    "string": r"std::(?:string|to_string|stoi|stoul|getline)\b",
    "string_view": r"std::string_view\b",
    "thread": r"std::(?:thread|this_thread)\b",
    "tuple": r"std::(?:tuple|tie|make_tuple|forward_as_tuple)\b",
    "unordered_map": r"std::unordered_map\b",
    "unordered_set": r"std::unordered_set\b",
    "utility": r"std::(?:pair|move|exchange|swap|forward|make_pair|declval|in_place)\b",
    "variant": r"std::(?:variant|get_if|holds_alternative|visit|monostate)\b",
    "vector": r"std::vector\b",
    "dlfcn.h": r"(?<!\w)::(?:dlopen|dlsym|dlclose|dlerror)\(",
    "fcntl.h": r"(?<!\w)::(?:open|openat|fcntl)\(",
    "poll.h": r"(?<!\w)::p?poll\(",
    "sys/file.h": r"(?<!\w)::flock\(",
    "sys/mman.h": r"(?<!\w)::(?:mmap|munmap)\(",
    "sys/stat.h": r"(?<!\w)::(?:f?stat|lstat|fstatat|mkdir|mkdirat|f?chmod|umask)\(",
    "sys/wait.h": r"(?<!\w)::(?:waitpid|waitid)\(",
    "unistd.h": r"(?<!\w)::(?:unlink|unlinkat|close|read|write|pread|pwrite|lseek|access|faccessat|f?chown|rmdir|readlink|"
    r"f?sync|fdatasync|f?truncate|pipe2?|dup[23]?|isatty|sysconf|getcwd|chdir|link|symlink|fork|execvp?e?|_exit|setsid|"
    r"get(?:p?pid|pgrp|sid|tid|e?uid|e?gid|hostname)|tcgetpgrp)\(",
}
HEADER_OF = {header: re.compile(names) for header, names in HEADER_OF.items()}
# A header of the C++ library that promises another's names, or stands in for it.
BRINGS = {
    "cstdint": {"stdint.h"},
    "string_view": {"string"},
    "initializer_list": {
        "string",
        "string_view",
        "vector",
        "map",
        "set",
        "list",
        "unordered_map",
        "algorithm",
        "array",
        "span",
        "optional",
        "utility",
        "variant",
        "memory",
        "functional",
        "filesystem",
    },
    # pair, move, swap: of any container, and of <memory>; every library has them there.
    "utility": {
        "map",
        "unordered_map",
        "vector",
        "string",
        "optional",
        "memory",
        "functional",
        "tuple",
        "variant",
        "algorithm",
        "array",
        "thread",
        "set",
        "atomic",
        "mutex",
        "filesystem",
        "chrono",
        "string_view",
        "span",
    },
    "string": {"filesystem", "sstream", "fstream", "iostream", "stdexcept"},
    "iterator": {"string", "vector", "map", "set", "list", "array"},
    "exception": {"stdexcept"},
    "tuple": {"map"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|R"\w*\(.*?\)\w*"|"(?:\\.|[^"\\\n])*"', re.S)


def folders(root):
    return [root / "src", root / "include", root / "tests", root / "bench"]


@functools.cache
def text(path):
    return path.read_text()


def own(root, path, name):
    for folder in (path.parent, *folders(root), root / "tests/system"):
        if (folder / name).is_file():
            return (folder / name).resolve()
    return None


def library_headers(root, path, seen=None):
    """The headers of the C++ library that a file includes itself or by way of ours."""
    seen = set() if seen is None else seen
    if path in seen:
        return set()
    seen.add(path)
    found = set()
    for kind, name in INCLUDE.findall(text(path)):
        header = own(root, path, name) if kind == '"' or name.startswith("thole/") else None
        found |= library_headers(root, header, seen) if header else {name}
    return found


def problems(root):
    files = [path for folder in folders(root) for path in sorted(folder.rglob("*")) if path.suffix in (".hpp", ".cpp")]
    for path in files:
        has = library_headers(root, path.resolve())
        code = COMMENT_OR_TEXT.sub(lambda match: "\n" * match[0].count("\n"), text(path))
        for header, names in HEADER_OF.items():
            used = names.search(code)
            if used and not has & ({header} | BRINGS.get(header, set())):
                line = code.count("\n", 0, used.start()) + 1
                yield f"{path.relative_to(root)}:{line}: {used[0].strip('(< ')}: #include <{header}>"


if __name__ == "__main__":
    found = list(problems(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "every source includes what it uses of the C++ library and of the system")
    sys.exit(1 if found else 0)
