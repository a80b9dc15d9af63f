"""Names of files and folders that shells, interpreters, test runners and tools read by themselves, and where."""

import re

SYSTEM = (
    "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc", "/boot", "/nix", "/snap",
    "/var/lib/dpkg", "/var/lib/apt", "/var/cache/apt", "/var/lib/rpm", "/var/lib/dnf", "/var/lib/yum",
    "/var/lib/pacman", "/var/cache/debconf", "/var/cache/ldconfig", "/var/lib/python", "/var/lib/alternatives",
    "/var/lib/gems", "/var/lib/ghc", "/var/lib/ocaml", "/var/lib/php/modules", "/var/lib/texmf", "/var/lib/locales",
    "/node_modules", "/package.json",
)  # fmt: skip
SERVICES = frozenset({
    "apache2", "bind", "caddy", "cron.d", "cron.daily", "cron.hourly", "cron.monthly", "cron.weekly", "crontab",
    "dnsmasq.conf", "dnsmasq.d", "dovecot", "exim4", "fstab", "haproxy", "httpd", "logrotate.d", "lighttpd", "mailname",
    "memcached.conf", "mysql", "nginx", "postfix", "postgresql", "prometheus", "rabbitmq", "redis", "rsyslog.d",
    "samba", "supervisor", "systemd", "vsftpd.conf",
})  # fmt: skip
"""Names below `/etc` that only a service reads; tasks may ask to change them."""
BESIDE = frozenset({
    ".bazelrc", ".bundle", ".busted", ".cargo", ".coveragerc", ".envrc", ".erlang", ".flake8", ".gdbinit", ".ghci",
    ".hotspotrc", ".iex.exs", ".irbrc", ".java-version", ".jvmopts", ".latexmkrc", ".lldbinit", ".mise.toml", ".mvn",
    ".mypy.ini", ".node-version", ".noderc", ".noserc", ".npmrc", ".nvmrc", ".ocamlinit", ".octaverc", ".pdbrc",
    ".pnp.cjs", ".pnp.loader.mjs", ".pnpmfile.cjs", ".proverc", ".pryrc", ".pylintrc", ".python-version", ".RData",
    ".Renviron", ".Rprofile", ".rspec", ".ruby-version", ".sbtopts", ".sdkmanrc", ".tool-versions", ".valgrindrc",
    ".yarnrc", ".yarnrc.yml", "ansible.cfg", "bunfig.toml", "Directory.Build.props", "Directory.Build.targets",
    "go.work", "hgrc", "ipython_config.py", "latexmkrc", "mise.toml", "mypy.ini", "nose.cfg", "pylintrc",
    "rust-toolchain", "rust-toolchain.toml",
})  # fmt: skip
"""Names that tools read in the folder they are started in, or above it, and that may have them run a program."""
BESIDE_LIKE = re.compile(r"\.mocharc\.\w+|jupyter_\w*config\.(?:py|json)")
INSTALLED = frozenset({"node_modules", "vendor", "site-packages", "dist-packages", ".git"})
"""Folders of installed packages, in which tools are not started."""
IN_HOME = BESIDE | {
    ".ansible", ".ansible.cfg", ".ant", ".antrc", ".asdf", ".asoundrc", ".aws/config", ".bash_aliases",
    ".bash_completion", ".bash_functions", ".bash_login", ".bash_logout", ".bash_profile", ".bashrc", ".boot", ".bun",
    ".bunfig", ".bunfig.toml", ".cabal", ".cache", ".choosenim", ".clojure", ".composer", ".conda", ".condarc",
    ".config", ".coursier", ".cpan", ".cpanm", ".cshrc", ".curlrc", ".deno", ".docker/cli-plugins", ".dotnet", ".dub",
    ".erlang.cookie", ".gem", ".gemrc", ".ghc", ".ghcup", ".gitconfig", ".gnupg/gpg-agent.conf", ".gnupg/gpg.conf",
    ".gnuplot", ".goenv", ".gradle", ".groovy", ".guix-profile", ".hex", ".hgrc", ".inputrc", ".ipython", ".ivy2",
    ".java", ".julia", ".jupyter", ".kshrc", ".lein", ".linuxbrew", ".local", ".login", ".luarocks", ".m2", ".magick",
    ".mamba", ".mambarc", ".matplotlib", ".mavenrc", ".mix", ".mongorc.js", ".mongoshrc.js", ".my.cnf", ".mylogin.cnf",
    ".netrc", ".nimble", ".nix-defexpr", ".nix-profile", ".node_libraries", ".node_modules", ".nodenv", ".npm",
    ".nuget", ".nvm", ".opam", ".pam_environment", ".perl5", ".perlbrew", ".perldb", ".phpenv", ".pip", ".plenv",
    ".profile", ".psqlrc", ".pub-cache", ".pydistutils.cfg", ".pyenv", ".pypirc", ".python-eggs", ".pythonrc",
    ".pythonrc.py", ".R", ".rake", ".rbenv", ".rubyrc", ".rustup", ".rvm", ".sbt", ".sdkman", ".shrc", ".sqliterc",
    ".ssh/config", ".ssh/environment", ".ssh/rc", ".stack", ".subversion", ".swiftpm", ".tclshrc", ".tcshrc",
    ".terminfo", ".terraform.d", ".terraformrc", ".volta", ".wgetrc", ".xsessionrc", ".yarn", ".zlogin", ".zprofile",
    ".zshenv", ".zshrc", "R", "go/bin", "go/pkg", "node_modules", "texmf",
}  # fmt: skip
"""Names in a home folder that shells, interpreters and tools read or run by themselves."""
QUIET = (
    "/var/cache/", "/var/lib/apt/lists/", "/etc/ld.so.cache", "/var/lib/dpkg/lock", "/var/lib/dpkg/triggers/Lock",
    "/etc/.pwd.lock", "/var/lib/apt/extended_states",
)  # fmt: skip
CACHES = frozenset({"", "pip", "uv", "pypoetry", "_cacache", "_logs"})
"""Names in a home's `.cache` and `.npm` that installers create."""
OF_PREFIX = (
    "bin", "sbin", "condabin", "lib", "lib32", "lib64", "libexec", "include", "etc", "share", "conda-meta",
    "pyvenv.cfg",
)  # fmt: skip
"""What an installed interpreter has below its own folder."""
SHARED = frozenset({"home", "media", "mnt", "opt", "root", "srv", "usr", "var"})
"""Top-level folders that hold things that have nothing to do with each other."""
NOT_LISTED = frozenset({"dev", "logs", "proc", "run", "solution", "sys", "tests", "tmp", "var"})
"""Top-level folders in which files come and go, whatever the image had there."""
SETTINGS_FILES = (
    "/etc/environment", "/etc/profile", "/etc/profile.d", "/etc/bash.bashrc", "/etc/bashrc", "/etc/zsh",
    "/etc/zshenv", "/etc/zprofile", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/gitconfig", "/etc/pip.conf",
    "/etc/npmrc", "/usr/local/etc/npmrc", "/etc/security/pam_env.conf",
)  # fmt: skip
"""Files of the system in which variables are set, and other files are named."""
SETTINGS_IN_HOME = (
    ".bash_aliases", ".bash_login", ".bash_profile", ".bashrc", ".config/git/config", ".config/pip/pip.conf",
    ".gitconfig", ".npmrc", ".pam_environment", ".pip/pip.conf", ".profile", ".zprofile", ".zshenv", ".zshrc",
)  # fmt: skip
ORDINARY = frozenset({
    "api", "app", "apps", "bin", "build", "client", "common", "config", "core", "data", "doc", "docs", "example",
    "examples", "lib", "main", "misc", "model", "models", "resources", "sample", "samples", "script", "scripts",
    "server", "setup", "solution", "src", "static", "templates", "test", "testing", "tests", "tool", "tools", "util",
    "utils",
})  # fmt: skip
"""Names that work often has, and that careless distributions install as modules, too."""
