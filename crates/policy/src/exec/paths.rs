//! Paths as text: made absolute and without `.`, `..` and double slashes. The disk is not looked at.

/// Where a path leads from a folder, if no link is in the way.
pub(super) fn absolute(path: &str, folder: &str) -> String {
    let joined = if path.starts_with('/') { path.to_owned() } else { format!("{folder}/{path}") };
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Whether an absolute path is a folder or lies below it.
pub(super) fn is_inside(path: &str, folder: &str) -> bool {
    folder == "/" || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
