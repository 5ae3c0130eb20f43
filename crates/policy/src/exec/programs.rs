//! What is known about programs: which ones run other programs or code, and which can do so when told.
//!
//! Names are looked at twice, as the program was called and as the file it resolved to: `ls` may be a link to a program
//! that is many, and `x` a link to an interpreter. The stricter answer counts.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

use super::plan::Launch;

/// How far a saved rule may go for a program. Ordered: a later one is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Saving {
    /// A rule may leave the last arguments open.
    Open,
    /// Only exactly these arguments: others would make it write files or start programs.
    Exact,
    /// Never: what it does is in a script, a file of the folder or another command.
    Never,
}

/// Languages: their arguments or files are programs.
const INTERPRETERS: &str = "ash awk bash bc bun clisp clojure csh dash dc deno dotnet elixir elvish erl escript expect fish gawk \
    gdb gforth ghci gjs gnuplot groovy guile iex io irb java jjs jrunscript jshell julia kotlin ksh \
    ld.so lisp lldb lua luajit m4 mawk mksh mysql nawk node nodejs nu ocaml octave original-awk \
    osascript oksh pdksh perl php php-cgi pike posh powershell psql pwsh pypy python qjs r racket raku \
    rbash rc rscript ruby runghc sash scala scheme sh sqlite swift swipl tcl tclsh tcsh ts-node tsx wish \
    wscript xonsh yash zsh";

const SHELLS: &str = "ash bash csh dash fish ksh mksh sh tcsh zsh";

/// Words of the shell behind which a command stands.
const SHELL_LAUNCHERS: &str = "builtin command coproc eval exec time trap";

/// Programs whose work is to start another one, here or elsewhere, or that offer a shell.
const LAUNCHERS: &str = "aa-exec ansible ansible-playbook apptainer at batch bubblewrap busybox bwrap capsh catchsegv cgexec \
    chpst chroot chrt coreutils cpulimit crictl cron crontab ctr daemonize dbus-run-session doas docker \
    ed emacs emacsclient entr env eatmydata envdir ex faketime fakechroot fakeroot firejail flatpak \
    flock fzf hyperfine incus inotifywait ionice jexec joe kexec kubectl launchctl less linux32 linux64 \
    logrotate lxc lxc-attach ltrace machinectl man mc micro more most mosh nano nerdctl nice nix \
    nix-shell nmap nohup nsenter numactl nvim openrc-run parallel perf pexec pico pkexec podman prlimit \
    proot rlwrap rsh run-parts runcon runuser schroot screen script scriptreplay setarch setpriv setsid \
    sg singularity socat softlimit ssh ssh-agent sshpass start-stop-daemon stdbuf strace su sudo \
    sudoedit systemd-run taskset time timeout tini tmux torify torsocks toybox tsocks unbuffer unshare \
    uutils valgrind vi view vim vimdiff vipw visudo w3m watch watchexec wine with-contenv xargs xvfb-run \
    xterm zellij";

/// Programs that run what files of the folder or of the network say.
const BUILDERS: &str = "ant apt apt-get bazel brew buck bundle bundler cabal cargo cmake composer conda corepack cpan dmake \
    dnf docker-compose dpkg earthly gem gmake go gradle gradlew gulp grunt hatch invoke jest just lein \
    make meson mix mvn mvnw ninja npm npx nox pacman pip pipenv pipx pnpm pnpx poetry pre-commit pytest \
    rake rebar rpm rustc rye samu sbt scons snap stack task tox turbo uv uvx vite waf webpack yarn yum \
    zypper";

/// Programs with an option, or an argument, that writes files or starts another program.
const EXACT_ONLY: &str = "7z 7za 7zr ar as aria2c base32 base64 bsdtar bzip2 c++ cc certutil chattr chgrp chmod chown clang \
    clang++ convert cp cpio csplit ctags curl cvs date dd diff dig dmesg exiftool fd fdfind ffmpeg file \
    find fmt ftp g++ gcc gh git glab gpg grep gunzip gzip hg hostname install ip jj journalctl jq kill \
    killall ld lftp ln locale magick mkdir mkfifo mknod mktemp mount mv nc ncat netcat nl objcopy \
    openssl pandoc paste patch pkill pr qemu rclone readelf rename restic rg ripgrep rm rmdir rsync scp \
    sdiff sed service sftp shred shuf sort split strip svn sysctl systemctl tail tar tcpdump tee telnet \
    terraform touch tree truncate umount uniq unlink unrar unxz unzip wget xxd xz yq zip zstd";

/// What may be saved about this program, and why not more.
pub(super) fn saving(launch: &Launch) -> (Saving, &'static str) {
    let called = launch.argv.first().map_or("", String::as_str);
    let name = base(&launch.program.path);
    let by_file = class(&launch.program.path);
    let by_name = if base(called) == name { by_file } else { class(called) };
    let class = if by_file.0 > by_name.0 { by_file } else { by_name };
    if class.0 < Saving::Never && starts_programs(&name, &launch.argv) {
        return (Saving::Never, "it starts other programs with these arguments");
    }
    class
}

/// Whether the arguments of a command can hold another command, or code.
pub(crate) fn may_hold_commands<W: AsRef<str>>(argv: &[W]) -> bool {
    let name = argv.first().map(|word| base(word.as_ref())).unwrap_or_default();
    class(&name).0 == Saving::Never || listed(SHELL_LAUNCHERS, &name) || starts_programs(&name, argv)
}

/// Whether a word names a shell.
pub(super) fn is_shell(word: &str) -> bool {
    listed(SHELLS, &base(word))
}

fn class(word: &str) -> (Saving, &'static str) {
    let name = base(word);
    if name.starts_with("ld") && name.contains(".so") {
        return INTERPRETER;
    }
    let forms = forms(&name);
    let forms = if forms[1..] == [name.as_ref(); 2] { &forms[..1] } else { &forms[..] };
    forms.iter().filter_map(|form| known().get(form)).copied().max().unwrap_or((Saving::Open, ""))
}

const INTERPRETER: (Saving, &str) = (Saving::Never, "it is an interpreter: its arguments are a program");
const LAUNCHER: (Saving, &str) = (Saving::Never, "it starts other programs");
const BUILDER: (Saving, &str) = (Saving::Never, "what it runs is in files that can change");
const CAPABLE: (Saving, &str) = (Saving::Exact, "other arguments can make it write files or start programs");

/// All lists in one table, made once.
fn known() -> &'static HashMap<&'static str, (Saving, &'static str)> {
    static KNOWN: OnceLock<HashMap<&str, (Saving, &str)>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let lists =
            [(EXACT_ONLY, CAPABLE), (BUILDERS, BUILDER), (LAUNCHERS, LAUNCHER), (INTERPRETERS, INTERPRETER)];
        lists.iter().flat_map(|(list, class)| list.split(' ').map(|name| (name, *class))).collect()
    })
}

/// The file name in lower case: on some disks case means nothing.
pub(super) fn base(word: &str) -> Cow<'_, str> {
    let name = word.rsplit('/').next().unwrap_or(word);
    if !name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Borrowed(name.strip_suffix(".exe").unwrap_or(name));
    }
    let name = name.to_ascii_lowercase();
    Cow::Owned(name.strip_suffix(".exe").map(str::to_owned).unwrap_or(name))
}

/// `python3.11`, `lua5.4` and `clang-14` are what they are without their numbers.
fn forms(name: &str) -> [&str; 3] {
    let stem =
        name.trim_end_matches(|character: char| character.is_ascii_digit() || ".-_".contains(character));
    let head = name.split(|character: char| character.is_ascii_digit()).next().unwrap_or(name);
    [name, stem, head.trim_end_matches(['-', '.', '_'])]
}

fn listed(list: &str, name: &str) -> bool {
    let forms = forms(name);
    list.split(' ').any(|entry| forms.contains(&entry))
}

/// Arguments that make a program of the exact-only kind start another one. Long options count with every abbreviation
/// that GNU's reader of options accepts, and with some more that it does not.
fn starts_programs<W: AsRef<str>>(name: &str, argv: &[W]) -> bool {
    let args = || argv.iter().skip(1).map(AsRef::as_ref);
    let long = |options: &[&str]| args().any(|arg| options.iter().any(|option| abbreviates(arg, option)));
    let word = |words: &[&str]| args().any(|arg| words.contains(&arg));
    let short = |letter: char| args().any(|arg| has_short(arg, letter));
    match name {
        "find" => word(&["-exec", "-execdir", "-ok", "-okdir", "-delete"]),
        "fd" | "fdfind" => short('x') || short('X') || long(&["--exec", "--exec-batch"]),
        "git" => git_starts_programs(&args().collect::<Vec<_>>()),
        "tar" | "bsdtar" => {
            short('I')
                || short('F')
                || long(&[
                    "--to-command",
                    "--checkpoint-action",
                    "--use-compress-program",
                    "--compress-program",
                    "--rsh-command",
                    "--rmt-command",
                    "--info-script",
                    "--new-volume-script",
                ])
        }
        "rsync" => short('e') || long(&["--rsh", "--rsync-path"]),
        "sort" => long(&["--compress-program"]),
        "scp" | "sftp" => short('S') || short('o') || short('D') || short('F'),
        // Its scripts have commands that write files and start programs.
        "sed" => true,
        "split" => long(&["--filter"]),
        "zip" => short('T') || long(&["--unzip-command", "--test"]),
        "nc" | "ncat" | "netcat" => short('e') || short('c') || long(&["--exec", "--sh-exec", "--lua-exec"]),
        "rg" | "ripgrep" => long(&["--pre", "--hostname-bin"]),
        "pandoc" => long(&["--filter", "--lua-filter", "--pdf-engine"]) || short('F') || short('L'),
        "tcpdump" => short('z'),
        "wget" => long(&["--use-askpass", "--config", "--execute"]) || short('e'),
        "curl" => long(&["--config"]) || short('K'),
        "sdiff" => long(&["--diff-program"]),
        _ => false,
    }
}

/// Options before the subcommand and the subcommands that run what they are told.
fn git_starts_programs(args: &[&str]) -> bool {
    const RUNNING: &[&str] = &[
        "bisect",
        "config",
        "difftool",
        "filter-branch",
        "for-each-repo",
        "mergetool",
        "rebase",
        "submodule",
        "svn",
    ];
    const OPTIONS: &[&str] = &[
        "--exec",
        "--exec-path",
        "--config-env",
        "--upload-pack",
        "--receive-pack",
        "--ext-diff",
        "--open-files-in-pager",
    ];
    let subcommand = args.iter().position(|arg| !arg.starts_with('-'));
    let before = &args[..subcommand.unwrap_or(args.len())];
    before.iter().any(|arg| arg.starts_with("-c") || arg.starts_with("-C") || arg.starts_with("--git-dir"))
        || subcommand.is_some_and(|at| RUNNING.contains(&args[at]))
        || args.iter().any(|arg| OPTIONS.iter().any(|option| abbreviates(arg, option)))
        || args.iter().any(|arg| has_short(arg, 'O') || arg.starts_with("ext::"))
}

/// Whether an argument is this long option or a shortened form of it, with or without a value.
pub(super) fn abbreviates(argument: &str, option: &str) -> bool {
    if !argument.starts_with("--") {
        return false;
    }
    let name = argument.split('=').next().unwrap_or(argument);
    name.len() > 2 && option.starts_with(name)
}

/// Whether an argument is a cluster of short options with this letter in it.
pub(super) fn has_short(argument: &str, letter: char) -> bool {
    argument.len() > 1
        && argument.starts_with('-')
        && !argument.starts_with("--")
        && argument.contains(letter)
}
