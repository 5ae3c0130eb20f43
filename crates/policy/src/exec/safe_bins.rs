//! Filters that need no approval: programs of the system that read their input and write their output.
//!
//! A table says which options each may have. There are no files to read or write, no abbreviations and nothing that is
//! not in the table.

use super::plan::Launch;

/// No argument is longer, so that a pattern stays one that somebody could have typed.
const LONGEST_ARGUMENT: usize = 1024;

const FOLDERS: &[&str] = &["/bin/", "/usr/bin/", "/usr/local/bin/"];

struct Filter {
    name: &'static str,
    /// Short options without a value; they may stand together.
    flags: &'static str,
    /// Short options with a value, in the same argument or the next.
    valued: &'static str,
    /// Long options, spelled out; those that end in `=` need a value.
    long: &'static str,
    /// How many arguments that are no options it has.
    operands: std::ops::RangeInclusive<usize>,
    /// `-20` means twenty lines.
    takes_number: bool,
}

static FILTERS: &[Filter] = &[
    Filter {
        name: "cut",
        flags: "nsz",
        valued: "bcdf",
        long: "--bytes= --characters= --complement --delimiter= --fields= --only-delimited \
            --output-delimiter= --zero-terminated",
        operands: 0..=0,
        takes_number: false,
    },
    Filter {
        name: "grep",
        flags: "EFGPacbhHilLnoqsvwxz",
        valued: "ABCem",
        long: "--after-context= --basic-regexp --before-context= --byte-offset --color= --context= \
            --count --extended-regexp --fixed-strings --ignore-case --invert-match --line-number \
            --line-regexp --max-count= --no-filename --no-messages --null-data --only-matching \
            --perl-regexp --quiet --regexp= --silent --text --word-regexp",
        operands: 1..=1,
        takes_number: false,
    },
    Filter {
        name: "head",
        flags: "qvz",
        valued: "cn",
        long: "--bytes= --lines= --quiet --silent --verbose --zero-terminated",
        operands: 0..=0,
        takes_number: true,
    },
    Filter {
        name: "jq",
        flags: "CMRSacejnrs",
        valued: "",
        long: "--ascii-output --color-output --compact-output --exit-status --join-output \
            --monochrome-output --null-input --raw-input --raw-output --slurp --sort-keys --tab",
        operands: 1..=1,
        takes_number: false,
    },
    Filter {
        name: "sort",
        flags: "CMRVbcdfghimnrsuz",
        valued: "kt",
        long: "--check --dictionary-order --field-separator= --general-numeric-sort --human-numeric-sort \
            --ignore-case --ignore-leading-blanks --ignore-nonprinting --key= --merge --month-sort \
            --numeric-sort --random-sort --reverse --stable --unique --version-sort --zero-terminated",
        operands: 0..=0,
        takes_number: false,
    },
    Filter {
        name: "tail",
        flags: "qvz",
        valued: "cn",
        long: "--bytes= --lines= --quiet --silent --verbose --zero-terminated",
        operands: 0..=0,
        takes_number: true,
    },
    Filter {
        name: "tr",
        flags: "Ccdst",
        valued: "",
        long: "--complement --delete --squeeze-repeats --truncate-set1",
        operands: 1..=2,
        takes_number: false,
    },
    Filter {
        name: "uniq",
        flags: "Dcdiuz",
        valued: "fsw",
        long: "--check-chars= --count --ignore-case --repeated --skip-chars= --skip-fields= --unique \
            --zero-terminated",
        operands: 0..=0,
        takes_number: false,
    },
    Filter {
        name: "wc",
        flags: "Lclmw",
        valued: "",
        long: "--bytes --chars --lines --max-line-length --words",
        operands: 0..=0,
        takes_number: false,
    },
];

/// Whether this is one of the filters that were listed, used as a filter.
pub(super) fn is_safe(launch: &Launch, listed: &[String]) -> bool {
    let Some((called, args)) = launch.argv.split_first() else { return false };
    let Some(filter) = FILTERS.iter().find(|filter| is_system(&launch.program.path, filter.name)) else {
        return false;
    };
    launch.program.trusted
        && listed.iter().any(|name| name == filter.name)
        && (called == filter.name || *called == launch.program.path)
        && args.iter().all(|arg| arg.len() <= LONGEST_ARGUMENT)
        && filter.accepts(args)
}

fn is_system(path: &str, name: &str) -> bool {
    FOLDERS.iter().any(|folder| path.strip_prefix(folder) == Some(name))
}

impl Filter {
    fn accepts(&self, args: &[String]) -> bool {
        let Some(read) = self.read(args) else { return false };
        // With its pattern in an option, grep takes the operand for a file.
        let operands = if read.has_pattern { 0..=0 } else { self.operands.clone() };
        operands.contains(&read.operands.len())
            && (self.name != "jq" || read.operands.iter().all(|program| is_plain_jq(program)))
    }

    fn read<'a>(&self, args: &'a [String]) -> Option<Read<'a>> {
        let mut read = Read::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            if arg == "--" {
                read.operands.extend(args.by_ref().map(String::as_str));
            } else if arg.starts_with("--") {
                self.read_long(arg, &mut read)?;
            } else if arg.len() > 1 && arg.starts_with('-') {
                if self.read_cluster(&arg[1..], &mut read)? == Value::Next {
                    args.next()?;
                }
            } else {
                read.operands.push(arg);
            }
        }
        Some(read)
    }

    fn read_long(&self, arg: &str, read: &mut Read<'_>) -> Option<()> {
        let name = arg.find('=').map_or(arg, |at| &arg[..=at]);
        read.has_pattern |= name == "--regexp=";
        self.long.split(' ').any(|option| option == name).then_some(())
    }

    /// Short options that stand together; the first one with a value ends them.
    fn read_cluster(&self, cluster: &str, read: &mut Read<'_>) -> Option<Value> {
        if self.takes_number && cluster.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some(Value::None);
        }
        for (at, letter) in cluster.char_indices() {
            if self.valued.contains(letter) {
                read.has_pattern |= self.name == "grep" && letter == 'e';
                let is_last = at + letter.len_utf8() == cluster.len();
                return Some(if is_last { Value::Next } else { Value::None });
            }
            if !self.flags.contains(letter) {
                return None;
            }
        }
        Some(Value::None)
    }
}

#[derive(Default)]
struct Read<'a> {
    operands: Vec<&'a str>,
    has_pattern: bool,
}

#[derive(PartialEq, Eq)]
enum Value {
    /// None is needed, or it was there.
    None,
    /// It is the next argument.
    Next,
}

/// A jq program that sees only its input: no environment, no modules, no file names.
fn is_plain_jq(program: &str) -> bool {
    const REFUSED: &[&str] = &[
        "ENV",
        "env",
        "get_search_list",
        "import",
        "include",
        "input_filename",
        "modulemeta",
        "__prog_args",
        "__prog_name",
    ];
    let word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    !program.split(|character| !word(character)).any(|name| REFUSED.contains(&name))
}
