"""Environments of other projects, played as they are: what every format shares, so that each is a small folder.

A format is one folder of this package's parent with

- an importer (`rollouthub.plugins.importers.Importer`), which lists what a source offers and writes a package;
- an environment class, whose episodes ask foreign code through a `ForeignRuntime`;
- a driver: a module that runs in the foreign process and imports the standard library, the format's own library, and
  `rollouthub_servers.foreign.serving`, nothing else of the hub.

From the bottom up:

`requirements`    `ForeignRequirements`: what a format installs, chosen once at the import and kept in the package with
                  hashes (`ForeignLock`); its virtual environment is made once for all who need the same bytes.
`serving`         The driver's side: `serve(open_session)` answers JSON lines on a private socket, a session for each
                  connection. A driver that speaks HTTP itself binds `socket_path()` instead.
`forked_serving`  `serve_forked` does the same with a process for each connection, forked from one that has loaded the
                  library, for libraries that share state between sessions, or hang.
`program`         `ForeignProgram`: which driver, in which interpreter, and what it may see and use.
`process`         `ForeignProcess`: one such process behind walls: no network, files of its own, clean variables,
                  bounded memory; it ends with the hub, whatever ends that.
`runtime`         `ForeignRuntime`: the processes of a program. `shared()` for formats whose process holds many
                  episodes, `alone()` for those that hold one.
`session`         `ForeignSession`: one connection; `ask("do", seconds=…, key=value)`, faults typed.
`imported_file`   `read_imported`, `read_lines`: the files of an import, and what is said of those that are damaged.
`import_settings` `split_settings`: the settings of an import, and those of the environment.
`package`         `ImportedPackage`: the folder with `env.toml`, module and files that an import writes.
`packages`        `write_packages`: one such folder for each chosen environment of a source.
`copied_folder`   `copy_folder`: how an import copies, so that no link brings in a file of this machine.
`yaml_text`       `read_yaml`: YAML of strangers, whose aliases may not repeat it without bound.

The agent never meets any of this: tools are the environment class's, which decides what of an answer is shown.
"""
