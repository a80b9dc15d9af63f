"""Environment variables by which programs find their settings, plug-ins and modules, and the paths that they name."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Literal

Kind = Literal["python", "perl", "ruby", "lua", "node", "r", "java", "header", "library", "package", "cmake", "program"]
"""What programs look for in a folder that they search."""
Root = tuple[str, Kind]
"""A folder that programs search, and what for."""

_SEARCHED: Mapping[str, Kind] = {
    "PATH": "program",
    "PYTHONPATH": "python",
    "PERL5LIB": "perl",
    "PERLLIB": "perl",
    "RUBYLIB": "ruby",
    "NODE_PATH": "node",
    "CLASSPATH": "java",
    "CPATH": "header",
    "C_INCLUDE_PATH": "header",
    "CPLUS_INCLUDE_PATH": "header",
    "OBJC_INCLUDE_PATH": "header",
    "LIBRARY_PATH": "library",
    "LD_LIBRARY_PATH": "library",
    "LD_RUN_PATH": "library",
    "R_LIBS": "r",
    "R_LIBS_USER": "r",
    "R_LIBS_SITE": "r",
    "PKG_CONFIG_PATH": "package",
    "CMAKE_PREFIX_PATH": "cmake",
    "CMAKE_MODULE_PATH": "cmake",
}
"""Variables with search paths, whose folders may also hold work."""
_LUA = re.compile(r"LUA_C?PATH(?:_5_\d)?")
_SETTINGS = re.compile(
    # the system and shells
    r"BASH_ENV|ENV|SHELL|ZDOTDIR|FPATH|INPUTRC|CDPATH|TERMINFO|TERMINFO_DIRS|TERMCAP|LOCPATH|NLSPATH|GCONV_PATH|TZ|TZDIR"
    r"|HOSTALIASES|GETCONF_DIR|LD_\w+|GLIBC_\w+|EDITOR|VISUAL|PAGER|LESSOPEN|LESSCLOSE|LESSKEY|MANPATH|TAR_OPTIONS"
    r"|XDG_(?:CONFIG|DATA|CACHE|STATE)_\w+|NETRC|CURL_HOME|WGETRC|SYSTEM_WGETRC|SSH_CONFIG|GNUPGHOME|KRB5_\w+"
    r"|OPENSSL_\w+|SSL_\w+|VIMINIT|EXINIT|VIM|VIMRUNTIME|NVIM_\w+|EMACSLOADPATH|AWKPATH|AWKLIBPATH|SQLITERC|PSQLRC"
    r"|PG(?:SYSCONFDIR|SERVICEFILE|PASSFILE)|MYSQL_HOME|MYSQL_TEST_LOGIN_FILE|GDBINIT|VALGRIND_\w+|[ALTU][BS]AN_OPTIONS"
    # Python
    r"|PYTHON(?:HOME|STARTUP|USERBASE|PYCACHEPREFIX|EXECUTABLE)|PYTEST_\w+|NOSE_\w+|TOX_\w+|NOX_\w+|COVERAGE_\w+"
    r"|HYPOTHESIS_\w+|PIP_\w+|PIPENV_\w+|PIPX_\w+|POETRY_\w+|PDM_\w+|UV_\w+|HATCH_\w+|PYENV_\w+|VIRTUAL_ENV"
    r"|VIRTUALENV_\w+|WORKON_HOME|CONDA\w*|MAMBA_\w+|JUPYTER_\w+|IPYTHONDIR|MPLCONFIGDIR|MATPLOTLIBRC|NUMBA_\w+|CYTHON_\w+"
    r"|TRITON_\w+|TORCH_EXTENSIONS_DIR|MYPY_\w+|PYLINTRC|PYLINT\w+|FLAKE8_\w+"
    # JavaScript
    r"|NODE_(?:OPTIONS|EXTRA_CA_CERTS|COMPILE_CACHE|REPL_\w+)|NPM_CONFIG_\w+|YARN_\w+|PNPM_\w+|COREPACK_\w+|BUN_\w+"
    r"|DENO_\w+|VOLTA_\w+|NVM_\w+|FNM_\w+|N_PREFIX|TS_NODE_\w+|TSX_\w+|BABEL_\w+|MOCHA_\w+|JEST_\w+|NYC_\w+|ESLINT_\w+"
    r"|PLAYWRIGHT_\w+|PUPPETEER_\w+|CYPRESS_\w+|ELECTRON_\w+"
    # Ruby, Perl, PHP, Lua, R, Julia, Octave, Tcl
    r"|RUBYOPT|RUBYSHELL|GEM_\w+|GEMRC|BUNDLE_\w+|RBENV_\w+|RVM_\w+|IRBRC|SPEC_OPTS|RSPEC_\w+|MINITEST_\w+|RAKE\w+"
    r"|PERL5OPT|PERL5DB|PERL5SHELL|PERL_(?:LOCAL_LIB_ROOT|MB_OPT|MM_OPT)|PERLBREW_\w+|PLENV_\w+|HARNESS_\w+|PROVE\w+"
    r"|PHPRC|PHP_INI\w*|PHPENV_\w+|COMPOSER_\w+|LUA_INIT\w*|LUAROCKS_\w+|BUSTED_\w+|R_(?:HOME|PROFILE\w*|ENVIRON\w*)"
    r"|RENV_\w+|JULIA_\w+|OCTAVE_\w+|MATLABPATH|TCLLIBPATH|TCL_LIBRARY|TK_LIBRARY"
    # the JVM and .NET
    r"|JAVA_(?:HOME|TOOL_OPTIONS|OPTS|OPTIONS)|_JAVA_OPTIONS|JDK_\w+|JRE_HOME|M2_HOME|M2|MAVEN_(?:HOME|OPTS|ARGS|CONFIG)"
    r"|MVND?_\w+|GRADLE_(?:HOME|OPTS|USER_HOME)|ANT_\w+|SBT_\w+|SCALA_HOME|KOTLIN_HOME|GROOVY_\w+|LEIN_\w+|CLJ_\w+"
    r"|CLOJURE_\w+|COURSIER_\w+|IVY_\w+|SDKMAN_\w+|DOTNET_\w+|NUGET_\w+|MSBUILD\w+|CORECLR_\w+|COR_PROFILER\w*|MONO_\w+"
    # compilers and builds
    r"|CC|CXX|CPP|LD|AR|AS|NM|RANLIB|STRIP|(?:C|CXX|CPP|LD|F|FC)FLAGS|GCC_\w+|COMPILER_PATH|CCACHE_\w+|SCCACHE_\w+"
    r"|DISTCC_\w+|MAKE|MAKEFILES|MAKEFLAGS|MFLAGS|GNUMAKEFLAGS|CMAKE_\w+|CTEST_\w+|NINJA_\w+|MESON_\w+|PKG_CONFIG\w*"
    r"|ACLOCAL_PATH|BATS_\w+|BAZEL\w*|GO(?:ROOT|FLAGS|ENV|CACHE|MODCACHE|BIN|TMPDIR|TOOLDIR|TOOLCHAIN|WORK|CACHEPROG)"
    r"|CGO_\w+|CARGO|CARGO_(?!TARGET_DIR)\w+|RUST\w+|GHC\w*|CABAL_\w+|STACK_\w+|HASKELL_\w+|OCAML\w*|CAML_\w+|OPAM\w*"
    r"|DUNE_\w+|ERL_\w+|ELIXIR_\w+|MIX_\w+|HEX_\w+|REBAR_\w+|ZIG_\w+|NIM\w+|CRYSTAL_\w+|DUB_\w+|SWIFT\w*|TOOLCHAINS"
    r"|ASDF_\w+|MISE_\w+|NIX_\w+|CUDA_\w+"
    # other programs that load code
    r"|GIT_(?:CONFIG\w*|EXEC_PATH|TEMPLATE_DIR|SSH\w*|ASKPASS|EDITOR|SEQUENCE_EDITOR|PAGER|EXTERNAL_DIFF|PROXY_COMMAND)"
    r"|HG\w+|SVN_\w+|AWS_(?:CONFIG_FILE|SHARED_CREDENTIALS_FILE)|KUBECONFIG|DOCKER_CONFIG|ANSIBLE_\w+|TF_\w+|MAGICK_\w+"
    r"|GS_LIB|FONTCONFIG_\w+|QT_\w+|GST_\w+|GTK_\w+|GIO_\w+|GDK_\w+|OMPI_\w+|TEXMF\w*|TEXINPUTS|BIBINPUTS|BSTINPUTS"
    r"|LATEXMKRC\w*",
    re.IGNORECASE,
)
"""Variables that name settings, plug-ins, caches of code, and folders of tools; npm's are in lower case, too."""
_OPTIONS = re.compile(r"\w*(?:OPTIONS|OPTS?|FLAGS|ARGS)", re.IGNORECASE)
"""Variables with command-line options, which may also name folders of the work."""
_FILE_NAME = re.compile(r"\w*(?:RC|FILE|CONFIG|STARTUP|PROFILE\w*|ENVIRON\w*|CONF|INI|ENV|FILES)", re.IGNORECASE)
"""Variables whose value may be a file's name relative to the working directory."""
_URL = re.compile(r"\b(?!file:)[\w+.-]+://\S*")
_SHORT_OPTION = re.compile(r"(?<!\S)-[A-Za-z]+(?=\.{0,2}/)")
_PATH = re.compile(r"(?<![\w.$}/~-])(?:\.{1,2})?/[^\s:;,|&<>\"'`()=\[\]{}*?!@#%]+")
_ASSIGNED = re.compile(r"(?<![\w$])([A-Za-z_]\w*)\s*=\s*(\"[^\"\n]*\"|'[^'\n]*'|[^\s;&|]*)")
_USED = re.compile(r"\$\{(\w+)[^}]*\}|\$(\w+)|\$\(pwd\)|(?<![^\s:=\"'])~(?=[/:]|$)")


def kind_of(name: str) -> Kind | None:
    """What programs look for in the folders of a search path; None if the variable is none."""
    return "lua" if _LUA.fullmatch(name) else _SEARCHED.get(name)


def does_count(name: str) -> bool:
    """Whether programs read a variable to find files that they run or that tell them what to run."""
    return kind_of(name) is not None or name in ("HOME", "GOPATH") or _SETTINGS.fullmatch(name) is not None


def searched(name: str, value: str, workdir: str) -> Iterator[str]:
    """The entries of a search path as absolute paths; an empty entry is the working directory."""
    for entry in value.split(";" if _LUA.fullmatch(name) else ":"):
        path = entry.partition("?")[0] if _LUA.fullmatch(name) else entry
        if path or (entry == "" and name in ("PATH", "CLASSPATH", "LIBRARY_PATH", "LD_LIBRARY_PATH") and value):
            yield joined(workdir, path.rstrip("*"))


def places(name: str, value: str, workdir: str) -> Iterator[str]:
    """The absolute paths that a variable with settings names."""
    if name == "GOPATH":
        yield from (f"{path}/{folder}" for path in searched(name, value, workdir) for folder in ("bin", "pkg"))
        return
    yield from (path for path in paths_in(value, workdir) if not (_OPTIONS.fullmatch(name) and is_folder_name(path)))
    if _FILE_NAME.fullmatch(name) and value and not re.search(r"[\s/]", value) and "." in value:
        yield joined(workdir, value)


def option_roots(name: str, value: str, workdir: str) -> Iterator[Root]:
    """The folders with headers or libraries that options for a compiler name."""
    if _OPTIONS.fullmatch(name):
        for letter, path in re.findall(r"(?<!\S)-([IL])\s*([^\s\"']+)", value):
            yield joined(workdir, path), "header" if letter == "I" else "library"


def paths_in(text: str, workdir: str) -> Iterator[str]:
    """Absolute paths in a text, and relative ones that begin with a dot."""
    text = _SHORT_OPTION.sub(" ", _URL.sub(" ", text)).replace("file:", "")
    for found in _PATH.findall(text):
        path = joined(workdir, found.rstrip(".,"))
        if path.strip("/"):
            yield path


def is_folder_name(path: str) -> bool:
    """Whether a path looks like a folder's, as its name has no suffix."""
    return "." not in posixpath.basename(path).lstrip(".")


def joined(workdir: str, path: str) -> str:
    """A path made absolute and plain."""
    plain = posixpath.normpath(posixpath.join(workdir, path))
    return plain[1:] if plain.startswith("//") else plain


def assigned(text: str, known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The variables that a script or a file of settings sets, with values of `known` variables filled in."""
    for name, value in _ASSIGNED.findall(text):
        if does_count(name):
            yield name, filled(value.strip("\"'"), known)


def filled(text: str, known: Mapping[str, str]) -> str:
    """A text of a shell with the values of variables; of one that is unknown nothing is left."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2] or ("PWD" if found[0].startswith("$") else "HOME")
        return known.get(name, "")

    return _USED.sub(value, text)
