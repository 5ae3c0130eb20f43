//! Versions of the stored data and what a release may do with them.
//!
//! Migrations only add. A release therefore reads and writes data of a newer schema as long as that schema says so:
//! `meta` carries the schema number and the oldest release schema that may read and write it.

/// The schema this release makes.
pub const SCHEMA: u32 = 8;
/// The oldest schema number whose release may still read, and write, data made by this one.
pub const MIN_READER: u32 = 1;
pub const MIN_WRITER: u32 = 1;

/// One numbered step. Never edited once released.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    pub number: u32,
    pub name: &'static str,
    pub sql: &'static str,
}

/// What `meta` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredVersion {
    pub schema: u32,
    pub min_reader: u32,
    pub min_writer: u32,
}

/// What this release may do with stored data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaFit {
    /// Nothing is there yet.
    Empty,
    /// Made by an older release: migrate before writing; reading works.
    Older,
    Current,
    /// Made by a newer release that lets this one write.
    NewerWritable,
    /// Made by a newer release that lets this one read only.
    NewerReadable,
    /// Made by a release too new for this one.
    TooNew,
}

/// Judges stored data by the schema this release knows.
pub fn judge(stored: Option<StoredVersion>, known: u32) -> SchemaFit {
    let Some(stored) = stored else { return SchemaFit::Empty };
    match stored.schema.cmp(&known) {
        std::cmp::Ordering::Less => SchemaFit::Older,
        std::cmp::Ordering::Equal => SchemaFit::Current,
        std::cmp::Ordering::Greater if stored.min_writer <= known => SchemaFit::NewerWritable,
        std::cmp::Ordering::Greater if stored.min_reader <= known => SchemaFit::NewerReadable,
        std::cmp::Ordering::Greater => SchemaFit::TooNew,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_writes_newer_data_only_where_that_data_allows_it() {
        let stored = |schema, min_reader, min_writer| Some(StoredVersion { schema, min_reader, min_writer });
        for (stored, fit) in [
            (None, SchemaFit::Empty),
            (stored(1, 1, 1), SchemaFit::Older),
            (stored(2, 1, 1), SchemaFit::Current),
            (stored(3, 1, 2), SchemaFit::NewerWritable),
            (stored(3, 2, 3), SchemaFit::NewerReadable),
            (stored(3, 3, 3), SchemaFit::TooNew),
        ] {
            assert_eq!(judge(stored, 2), fit);
        }
    }
}
