//! The rules of the house, kept by tests: which crate may use which, how large the program may grow, under which
//! licences its parts come, what a source file looks like, and that generated files and links are current.
//!
//! There is no code here. The rules are in `tests/it`, one module each; a rule that fails says which file to change.
